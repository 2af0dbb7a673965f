"""Where a value of msgpack ends, found without decoding it and however deep it is nested.

msgpack's own unpacker does the same faster, but gives up at a depth of 1,024, and at fewer in its pure form. Two hubs
must agree on what a BATCH frame holds, so that is no answer: `skip_value` counts the values that are still due, where a
parser keeps a stack.

Cost: about 0.2 µs for each value within the value; O(1) memory. The compiled twin of `hub.journal.packing` has its own.
"""

from __future__ import annotations

__all__ = ["skip_value"]

# Of each first byte of msgpack: how many bytes of length follow it (-1: there is no such byte), else which of its own
# bits are the length; how many bytes follow that whatever the length; and for each of the length, bytes and values.
_LENGTH_BYTES = [0] * 256
_LENGTH_BITS = [0] * 256
_FIXED_BYTES = [0] * 256
_BYTES_EACH = [0] * 256
_VALUES_EACH = [0] * 256
for _tag in range(0x80, 0x90):  # map
    _LENGTH_BITS[_tag], _VALUES_EACH[_tag] = 0x0F, 2
for _tag in range(0x90, 0xA0):  # array
    _LENGTH_BITS[_tag], _VALUES_EACH[_tag] = 0x0F, 1
for _tag in range(0xA0, 0xC0):  # str
    _LENGTH_BITS[_tag], _BYTES_EACH[_tag] = 0x1F, 1
_LENGTH_BYTES[0xC1] = -1
for _tag, _width, _fixed in (  # bin, ext, str: a length, for ext a type, the bytes
    *((0xC4, 1, 0), (0xC5, 2, 0), (0xC6, 4, 0)),
    *((0xC7, 1, 1), (0xC8, 2, 1), (0xC9, 4, 1)),
    *((0xD9, 1, 0), (0xDA, 2, 0), (0xDB, 4, 0)),
):
    _LENGTH_BYTES[_tag], _FIXED_BYTES[_tag], _BYTES_EACH[_tag] = _width, _fixed, 1
for _tag, _fixed in zip(range(0xCA, 0xD9), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 2, 3, 5, 9, 17), strict=True):
    _FIXED_BYTES[_tag] = _fixed  # float, uint, int, fixext with its type
for _tag, _width, _each in ((0xDC, 2, 1), (0xDD, 4, 1), (0xDE, 2, 2), (0xDF, 4, 2)):  # array, map
    _LENGTH_BYTES[_tag], _VALUES_EACH[_tag] = _width, _each


def skip_value(data: bytes | memoryview, position: int, end: int) -> int:
    """Return where the msgpack value at `position` ends; -1 if it is malformed or does not end before `end`.

    Nesting may be as deep as can be: what is still due is a number, not a stack.
    """
    due = 1
    while due:
        if due > end - position:  # each takes at least one byte
            return -1
        tag = data[position]
        position += 1
        width = _LENGTH_BYTES[tag]
        if width < 0 or width > end - position:
            return -1
        length = int.from_bytes(data[position : position + width]) if width else tag & _LENGTH_BITS[tag]
        position += width + _FIXED_BYTES[tag] + length * _BYTES_EACH[tag]
        due += length * _VALUES_EACH[tag] - 1
        if position > end:
            return -1
    return position
