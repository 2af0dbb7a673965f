"""What makes a `msgpack.Packer` and a `msgpack.Unpacker` take and give Broker's types. No state, no I/O."""

from __future__ import annotations

from typing import Any

import msgpack

from peers.values.binary import decode, encode
from peers.values.extensions import Code
from peers.values.msgpack.reading import from_msgpack
from peers.values.msgpack.writing import extension, to_msgpack
from peers.values.values import Value

__all__ = ["default", "ext_hook"]

_CODES = frozenset(Code)


def ext_hook(code: int, data: bytes) -> Value | msgpack.ExtType:
    """Return the value of an extension: the `ext_hook` of a `msgpack.Unpacker`.

    Args:
        code: The code of the extension.
        data: Its payload.

    Returns:
        A value of a type in `values`; an `ExtType` if the code is not one of those in `extensions`.

    Raises:
        InvalidDataError: The payload is not what the code says.
    """
    if code not in _CODES:
        return msgpack.ExtType(code, data)
    return decode(from_msgpack(extension(code, data)))


def default(value: Any) -> Any:
    """Return what stands for a type of `values` in msgpack: the `default` of a `msgpack.Packer`.

    The Packer must be made with `strict_types=True`, else it takes a `Count` for an integer.

    Raises:
        InvalidDataError: `value` has no Broker form.
    """
    return msgpack.unpackb(to_msgpack(encode(value)), strict_map_key=False)
