"""`Command`: what a store is asked to do.

| kind | `value` | what becomes of the entry |
|---|---|---|
| put | the new value | it is this value; with `if_version` only if its version is that (0: if there is no entry) |
| put_unique | the new value | it is this value, if there was no entry |
| erase | | it is gone; with `if_version` only if its version is that |
| clear | | all entries are gone; there is no key |
| increment, decrement | an amount | number ± number of its type, timestamp or timespan ± timespan |
| append | a string | the string, with this one behind it |
| insert | a member | the set, with this member |
| insert_entry | a vector of key and value | the table, with this entry |
| remove | a member or a key | the set or table without it |
| push | an element | the vector, with this element behind it |
| pop | | the vector without its last element; an empty one stays as it is |
| add, subtract | an operand | one of those above, by the type that the entry has: see `hub.stores.operations` |

A missing entry is made by increment, append, insert, insert_entry, push and add, out of nothing of the type; for add
`empty` says which. Decrement, remove, pop and subtract need an entry.

On the wire a command is an array of these fields in this order; those at the end may be left out. No state.
"""

from __future__ import annotations

import msgspec

__all__ = ["Command"]


class Command(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One command."""

    kind: str
    """One of those in the table."""

    key: bytes = b""
    """The key in msgpack, canonical or not."""

    value: bytes | None = None
    """A value in msgpack; None where the kind needs none."""

    expiry_ns: int | None = None
    """How long the entry is to live from now on, nanoseconds, more than 0. None: for ever after put and put_unique; as
    before after all others."""

    if_version: int | None = None
    """For put and erase: the version that the entry must have."""

    empty: bytes | None = None
    """For add: what a missing entry starts from, in msgpack. None: a missing entry is an error."""
