"""Forms: what a block becomes when it is exported.

| form | a record becomes |
|---|---|
| `JsonForm` | one line `{"offset":...,"time":...,"topic":...,"value":...}` |
| `MsgpackForm` | the same map as msgpack; the value is cut in unread |
| `RawForm` | part of a MESSAGES frame, as it would come from a hub |

Values become JSON as on the hub's WebSocket (docs/websocket.md), however large they are. What has no such form, or is
not what its encoding says, has `bad` (why) and `body` (its bytes, base64 in JSON) in place of `value`, and is counted.

A block whose values are all whole and have a form, and that is nearly each, is decoded at once, and no Python runs for
a single record. Else it is taken record by record.

Cost, for a record of 80 bytes and for a line of Zeek's logs (350 bytes, 20 fields): JSON 0.5 and 3.8 µs, nearly all of
it for decoding and encoding; msgpack 0.3 and 1.6 µs; raw 13 and 100 ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from hub.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, KIND_MESSAGES, Encoding, encode_frame
from hub.journal.block import Block, Record, pack, to_frames
from hub.journal.packing import BLOCK_BYTES_LIMIT
from hub.journal.values import skip_value
from peers.cli.flag_values import moment
from peers.cli.texts import escaped_lines
from peers.values.conversion import array_header, has_nanoseconds, json_of, msgpack_of_broker, without_collecting

__all__ = ["Form", "JsonForm", "MsgpackForm", "RawForm"]


class Form(Protocol):
    """A way in which blocks are written."""

    bad_records: int
    """How many records had no such form so far."""

    def render(self, block: Block) -> bytes:
        """Return what is written for a block: whole lines, maps or frames."""
        ...


class _Line(msgspec.Struct, gc=False):
    offset: int
    time: str
    topic: str
    value: Any


class _Bad(msgspec.Struct, gc=False):
    offset: int
    time: str
    topic: str
    bad: str
    body: bytes


def _extension(code: int, data: memoryview) -> Any:
    from peers.values.untyped import untyped_extension  # noqa: PLC0415 -- rarely needed

    return untyped_extension(code, bytes(data))


_decode = msgspec.msgpack.Decoder(ext_hook=_extension).decode
_decode_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_to_json = msgspec.json.Encoder()
_to_msgpack = msgspec.msgpack.Encoder()

_NO_FORM = (ValueError, TypeError, OverflowError, RecursionError)
"""What msgspec raises; its own errors and UnicodeDecodeError are ValueErrors."""


class JsonForm:
    """Writes each record as a line of JSON.

    Args:
        safe: Whether they go to a terminal, and may hold nothing that it would act on.
    """

    def __init__(self, *, safe: bool = False) -> None:
        self.bad_records = 0
        self._safe = safe

    def render(self, block: Block) -> bytes:
        """Return a line for each record."""
        lines = without_collecting(self._lines, block)
        return escaped_lines(lines) if self._safe else lines

    def _lines(self, block: Block) -> bytes:
        if _are_whole(block) and not has_nanoseconds(array := _array_of(block)):
            try:
                return _to_json.encode_lines(_whole_lines(block, _decode(array)))
            except _NO_FORM:
                pass  # of one of them at least
        return _to_json.encode_lines(map(self._line, block.records()))

    def _line(self, record: Record) -> _Line | _Bad:
        text = _json(record)
        if text is None:
            self.bad_records += 1
            return _bad(record)
        return _Line(record.offset, moment(record.time_us), record.topic, msgspec.Raw(text))


class MsgpackForm:
    """Writes each record as a map of msgpack, back to back."""

    def __init__(self) -> None:
        self.bad_records = 0

    def render(self, block: Block) -> bytes:
        """Return a map for each record."""
        if _are_whole(block):
            try:
                maps = _to_msgpack.encode(_whole_lines(block, _decode_raw(_array_of(block))))
                return maps[len(array_header(block.count)) :]
            except _NO_FORM:  # msgspec gives up where values are nested deep
                pass
        return b"".join(map(_to_msgpack.encode, map(self._line, block.records())))

    def _line(self, record: Record) -> _Line | _Bad:
        packed = _packed(record)
        if packed is None:
            self.bad_records += 1
            return _bad(record)
        return _Line(record.offset, moment(record.time_us), record.topic, msgspec.Raw(packed))


class RawForm:
    """Writes MESSAGES frames. Offsets and times are left behind, and no record is without such a form."""

    bad_records = 0

    def render(self, block: Block) -> bytes:
        """Return the frames of a block, whole ones only."""
        return b"".join([frames for frames, _ in to_frames(bytes(block.data))])


def _are_whole(block: Block) -> bool:
    """Tell whether each value is exactly one value of msgpack, so that all together are an array of as many.

    Without this, two broken ones side by side could pass for two others. Whoever packs them as a BATCH frame cuts them
    where they end, compiled; what must come of it is what is there.
    """
    if block.encodings is not None or block.count > BATCH_LIMIT_MESSAGES:
        return False
    body = BATCH_COUNT.pack(block.count) + block.values
    frame = encode_frame(KIND_MESSAGES, body, flags=FLAG_BATCH)
    try:
        packed = pack([(0, frame)], 0, block.count, BLOCK_BYTES_LIMIT)
    except ValueError:
        return False
    return Block.parse(packed[0], verify=False).value_ends.tobytes() == block.value_ends.tobytes()


def _array_of(block: Block) -> bytes:
    return array_header(block.count) + block.values


def _whole_lines(block: Block, values: Sequence[Any]) -> list[_Line]:
    """Return the lines of a block, without a step of Python for each."""
    written = {time_us: moment(time_us) for time_us in set(block.times)}
    times = map(written.__getitem__, block.times)
    topics = map(block.topics.__getitem__, block.topic_nos)
    return list(map(_Line, block.offsets or range(block.first, block.next), times, topics, values))


def _packed(record: Record) -> bytes | None:
    """Return the value of a record as msgpack, None if it has no such form."""
    if record.encoding == Encoding.BROKER:
        return msgpack_of_broker(record.body)
    is_value = skip_value(record.body, 0, len(record.body)) == len(record.body)
    return record.body if record.encoding == Encoding.MSGPACK and is_value else None


def _json(record: Record) -> bytes | None:
    packed = _packed(record)
    if packed is None:
        return None
    try:
        if not has_nanoseconds(packed):
            return _to_json.encode(_decode(packed))
    except _NO_FORM:
        pass
    return json_of(packed)  # it knows nanoseconds, and keys that are no text


def _bad(record: Record) -> _Bad:
    return _Bad(record.offset, moment(record.time_us), record.topic, _reason(record), record.body)


def _reason(record: Record) -> str:
    """Return what is wrong with the value of a record."""
    from peers.client.values import decode_body  # noqa: PLC0415 -- rarely needed

    try:
        decode_body(record.encoding, record.body)
    except ValueError as error:
        return str(error)
    return "no form of its own here: a foreign extension, or too large"
