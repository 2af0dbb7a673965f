"""Broker's binary format, version 1, to and from the types of `values`.

`decode` holds the members of sets and the entries of tables in the order they came. `encode` writes them sorted, as
Broker does: by type, then by value. `check` tells whether a body is sound without making its values, in about a third
of the time.

Sets and tables with equal members are refused. `decode` compares values; `check` and the conversion to JSON compare the
bytes. Equal members in other spellings (sets in another order, a true that is not 1, a NaN of other bits, a length that
is not minimal) are found by `decode` alone. Broker writes none of these.

Cost: about 0.4 µs per value. No state, no I/O. Not here: envelopes and topics, which stand around a body on the wire.
"""

from __future__ import annotations

from peers.values.binary.checking import check, value_end
from peers.values.binary.reading import decode
from peers.values.binary.writing import encode

__all__ = ["check", "decode", "encode", "value_end"]
