"""Values: from Python objects to msgpack and back.

msgspec does the work, in C. A `datetime` with a zone travels as a timestamp, bytes as `bin`, tuples as arrays,
dataclasses and structs as maps; types that msgspec would convert silently (a UUID into text, a set into a list) are
refused: that check costs a tenth of the encoding with its compiled twin, and as much as the encoding without. Zeek's
events and values (`peers.values`) travel as extensions 1 to 10; others arrive as `msgspec.msgpack.Ext`. Reading never
raises: bad msgpack becomes a `BadMessage`, and its neighbours are delivered. Cost, measured (docs/clients.md): about
0.25 µs a message that has its own frame, 0.1 µs in a batch, and 0.1 to 0.4 µs for a value that is a map.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from functools import cache, lru_cache, partial
from itertools import repeat
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from hub.errors import BlockGoneError, UsageError
from hub.labels.envelope import Envelope, TaggedMessage
from hub.messages.batch import Batch, Message, value_ends
from hub.messages.frame import (
    BATCH_COUNT,
    BROKER_FLAGS,
    FLAG_BATCH,
    FLAG_SHARED,
    FLAG_TAGGED,
    HEADER,
    HEADER_BYTES,
    KIND_MESSAGES,
    Encoding,
    Frame,
    encode_frame,
    iterate_frames,
)
from hub.messages.stretch import Run

if TYPE_CHECKING:
    from peers.shm.ring import BlockValues
    from peers.shm.views import SharedRun

_ARRAY_32 = b"\xdd"  # msgpack's "array, 32 bit count follows". Behind it a BATCH body, a count and values, is an array


def _packed(value: Any) -> msgspec.Raw:
    """Encode values that msgspec does not know: Zeek's events and values."""
    from peers.values import InvalidDataError, encode, to_msgpack, value_of  # noqa: PLC0415 -- rarely needed
    from peers.values.event import Event  # noqa: PLC0415

    if isinstance(value, Event):
        return msgspec.Raw(value.to_msgpack())
    try:
        return msgspec.Raw(to_msgpack(encode(value_of(value))))
    except (InvalidDataError, TypeError, ValueError):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported") from None


def _extension(code: int, data: memoryview) -> Any:
    if not 0 < code <= _ZEEK_EXTENSIONS:
        return msgspec.msgpack.Ext(code, bytes(data))
    from peers.values import ext_hook  # noqa: PLC0415 -- rarely needed

    return ext_hook(code, bytes(data))


def _value_in(flags: int, body: bytes) -> Any:
    """Read a value that is not msgpack.

    Raises:
        ValueError: It is none, or of an encoding that this version does not read.
    """
    if flags == FLAG_SHARED:
        return _view_in(body)
    if flags == BROKER_FLAGS | FLAG_BATCH:
        raise ValueError("several of them in one frame cannot be separated")
    if flags != BROKER_FLAGS:
        raise ValueError(f"encoding {flags >> 1 & 0b11} is not read by this version")
    from peers.values import decode  # noqa: PLC0415 -- rarely needed

    return decode(body)


def _view_in(values: bytes) -> Any:
    """Read a value of a request or reply in shared memory: bytes as a view."""
    from peers.shm.views import ViewValues  # noqa: PLC0415 -- rarely needed

    if not isinstance(values, ViewValues):
        raise ValueError("a handle of shared memory that was not granted")  # noqa: TRY004 -- as for all bad values
    view = values.value()
    try:
        return view if view is not None else _decode(values.received.memory())
    except BlockGoneError as error:
        raise ValueError(str(error)) from error


_encode = msgspec.msgpack.Encoder(enc_hook=_packed).encode
_decode = msgspec.msgpack.Decoder(ext_hook=_extension).decode
_ZEEK_EXTENSIONS = 10  # Extensions 1 to 10 are Zeek's values, docs/data-model.md
_UNDECODABLE = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)


class InvalidValueError(UsageError):
    """A value that has no msgpack form."""


_SCALARS = frozenset({NoneType, bool, int, float, str, bytes})


@cache
def _conversions() -> tuple[tuple[type, str], ...]:
    from decimal import Decimal  # noqa: PLC0415 -- rarely needed, as the others
    from enum import Enum  # noqa: PLC0415
    from uuid import UUID  # noqa: PLC0415

    from msgpack import ExtType  # noqa: PLC0415

    return (
        (Enum, "value.value"),
        (set, "sorted(value)"),
        (frozenset, "sorted(value)"),
        (timedelta, "value.total_seconds()"),
        (date, "value.isoformat()"),
        (time, "value.isoformat()"),
        (ExtType, "msgspec.msgpack.Ext(value.code, value.data)"),
        (Decimal, "str(value)"),
        (UUID, "str(value)"),
    )


def pure_is_plain(value: object) -> bool:
    """Return whether a value and all that it holds are of the types that msgpack itself has.

    Those are None, bool, int, float, str, bytes, list, tuple and dict, but no subclasses. The value must not hold
    itself.
    """
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind is dict:
            waiting += each
            waiting += each.values()
        elif kind is list or kind is tuple:
            waiting += each
        elif kind not in _SCALARS:
            return False
    return True


def check_convertible(value: object) -> None:
    """Check that nothing in a value would arrive as another type.

    Raises:
        TypeError: Something would, or is a `datetime` without a zone; the text says what to write instead.
    """
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, datetime):
            if each.tzinfo is None:
                raise TypeError(f"{each!r} has no zone: give it one, as datetime.now(UTC) or value.astimezone() have")
            continue
        for kind, advice in _conversions():
            if isinstance(each, kind):
                shown = f"{type(each).__name__} {str(each)[:80]!r}"
                raise TypeError(f"{shown} would become another type: convert it, as by {advice}")
        waiting += _held(each)


def _held(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return (*value.keys(), *value.values())
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, msgspec.Struct):
        return (getattr(value, name) for name in value.__struct_fields__)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (getattr(value, field.name) for field in dataclasses.fields(value))
    return ()


try:
    from peers.client._plain import is_plain as is_plain  # noqa: PLC0414 -- for importers
except ImportError:  # not built: no compiler was there
    is_plain = pure_is_plain


class BadMessage(NamedTuple):
    """Something that came and does not match its encoding."""

    topic: str
    body: bytes  # The bytes as they came: one value, or the whole body of a batch whose values cannot be separated
    messages: int  # How many values it was said to hold
    reason: str


def encode_value(value: Any) -> bytes:
    """Return `value` as msgpack.

    Raises:
        InvalidValueError: It has no such form: a type without one, or one that would arrive as another (`Decimal`,
            `UUID`, `Enum`, `set`, `date`, `timedelta`), an integer over 64 bits, a text that is not Unicode, a
            `datetime` without a zone, nested too deep.
    """
    try:
        packed = _encode(value)
        if not is_plain(value):
            check_convertible(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        from peers.shm.ring import Block  # noqa: PLC0415 -- rarely needed

        if isinstance(value, Block):
            return value.take()
        raise InvalidValueError(f"a value has no msgpack form: {error}") from error
    return packed


def encode_values(values: Sequence[Any]) -> bytes:
    """Return the msgpack of values, back to back: the body of a BATCH without its count. Raises as `encode_value`."""
    if len(values) == 1:  # it may be a block, which stays one
        return encode_value(values[0])
    array = encode_value(values if type(values) is list else list(values))
    mark = array[0]
    return array[1 if mark & 0xF0 == 0x90 else 3 if mark == 0xDC else 5 :]


def joined(values: list[bytes]) -> bytes:
    """Join packed values. A single value stays in its block; of several, those in blocks are copied."""
    if len(values) == 1:
        return values[0]
    return b"".join([cast("BlockValues", value).block.copy() if hasattr(value, "block") else value for value in values])


def read_values(flags: int, body: bytes) -> list[Any]:
    """Return the values of a body as that of MESSAGES; a `ValueError` stands for each that cannot be read.

    Args:
        flags: BATCH, whose count was checked, and the encoding.
        body: One value, or a count and values.
    """
    try:
        if flags == FLAG_BATCH:
            values: list[Any] = _decode(_ARRAY_32 + body)
            return values
        return [_value_in(flags, body) if flags else _decode(body)]
    except _UNDECODABLE as error:
        frame = Frame(KIND_MESSAGES, flags, b"", body)
        bodies = list(_bodies(frame)) if flags & FLAG_BATCH else []
        if len(bodies) != frame.messages:
            return [ValueError(_reason(error, frame.encoding))] * frame.messages
        return [_read_value(value) for value in bodies]


def _read_value(body: bytes) -> Any:
    try:
        return _decode(body)
    except _UNDECODABLE as error:
        return ValueError(_reason(error, Encoding.MSGPACK))


def decode_body(encoding: int, body: bytes) -> Any:
    """Return the value of a body in an encoding (`hub.messages.frame.Encoding`).

    Raises:
        ValueError: It is none, or of an encoding that this version does not read; the text says what is wrong.
    """
    try:
        return _decode(body) if encoding == Encoding.MSGPACK else _value_in(encoding << 1, body)
    except _UNDECODABLE as error:
        raise ValueError(_reason(error, encoding)) from error


def value_of(packed: bytes | None) -> Any:
    """Return the value of packed msgpack, None of None."""
    return None if packed is None else decode_body(Encoding.MSGPACK, packed)


def decode_batch(  # noqa: C901 -- one loop
    batch: Batch, kind: type[Message] = Message
) -> tuple[list[Message], list[BadMessage]]:
    """Return the messages of a batch, oldest first, and its unreadable ones.

    Args:
        batch: The batch.
        kind: Class of messages without labels that are not in shared memory.
    """
    if isinstance(batch, Run) and type(batch) is not Run:  # in shared memory
        return _decode_shared(cast("SharedRun[Any]", batch))
    # One loop and local names on purpose: a call or an attribute here is paid for every message.
    frames = batch.frames
    starts_with = frames.startswith
    unpack = HEADER.unpack_from
    made = partial(tuple.__new__, kind)  # `Message(...)` costs twice as much
    messages: list[Message] = []
    bad: list[BadMessage] = []
    position, end = 0, len(frames)
    last_key, topic = b"", ""
    while position < end:
        body_length, _, flags, key_length = unpack(frames, position)
        body_start = position + HEADER_BYTES + key_length
        frame_end = body_start + body_length
        key = frames[position + HEADER_BYTES : body_start]
        if key != last_key:
            topic, last_key = "" if flags & FLAG_TAGGED else key.decode(), key
        try:
            if flags == FLAG_BATCH:
                values = _decode(_ARRAY_32 + frames[body_start:frame_end])
            elif flags:
                if flags & FLAG_TAGGED:
                    _read_tagged(flags, key, frames[body_start:frame_end], messages, bad)
                    position = frame_end
                    continue
                values = [_value_in(flags, frames[body_start:frame_end])]
            elif not starts_with(frames[position:body_start], frame_end):
                messages.append(made((topic, _decode(frames[body_start:frame_end]))))
                position = frame_end
                continue
            else:
                header, size = frames[position:body_start], frame_end - position
                while starts_with(header, frame_end):  # while whole headers repeat, sizes repeat too
                    frame_end += size
                values = [_decode(frames[at : at + body_length]) for at in range(body_start, frame_end, size)]
        except _UNDECODABLE as error:
            for frame in iterate_frames(frames[position:frame_end]):
                _salvage(frame, topic, error, made, messages, bad)
        else:
            messages.extend(map(made, zip(repeat(topic), values)))
        position = frame_end
    return messages, bad


_envelope_of = lru_cache(1024)(Envelope.decode)


def _read_tagged(flags: int, key: bytes, body: bytes, messages: list[Message], bad: list[BadMessage]) -> None:
    envelope = _envelope_of(key)
    frame = encode_frame(KIND_MESSAGES, body, key=envelope.topic.encode(), flags=flags & ~FLAG_TAGGED)
    plain, bad_here = decode_batch(Batch(frame, 1))
    messages.extend([TaggedMessage(envelope, message.value) for message in plain])
    bad.extend(bad_here)


def _decode_shared(run: SharedRun[Any]) -> tuple[list[Message], list[BadMessage]]:
    view = run.view
    if view is not None:
        return [Message(run.topic, view)], []
    try:
        payload = run.payload()
        if payload is not None:
            return [Message(run.topic, payload)], []
        value = run.value
        if value is not None:
            return [Message(run.topic, _decode(value))], []
        plain = Batch(run.frames, run.messages)
    except BlockGoneError as error:
        return [], [BadMessage(run.topic, b"", run.messages, str(error))]
    except _UNDECODABLE as error:
        return [], [BadMessage(run.topic, b"", run.messages, _reason(error, Encoding.MSGPACK))]
    return decode_batch(plain)


def _salvage(  # noqa: PLR0913, PLR0917 -- a part of `decode_batch`
    frame: Frame,
    topic: str,
    error: Exception,
    made: Callable[[tuple[str, Any]], Message],
    messages: list[Message],
    bad: list[BadMessage],
) -> None:
    bodies = list(_bodies(frame))
    if not bodies:
        bad.append(BadMessage(topic, frame.body, frame.messages, _reason(error, frame.encoding)))
    for body in bodies:
        try:
            messages.append(made((topic, _decode(body))))
        except _UNDECODABLE as own_error:
            bad.append(BadMessage(topic, body, 1, _reason(own_error, frame.encoding)))


def _bodies(frame: Frame) -> Iterator[bytes]:
    """Yield the values of a frame, still packed; none if they cannot be told apart."""
    if frame.encoding != Encoding.MSGPACK:
        return
    if not frame.flags & FLAG_BATCH:
        yield frame.body
        return
    start = BATCH_COUNT.size
    for end in value_ends(frame) or ():
        yield frame.body[start:end]
        start = end


def _reason(error: Exception, encoding: int) -> str:
    text = str(error) or type(error).__name__
    match encoding:
        case Encoding.MSGPACK:
            return f"not msgpack: {text}"
        case Encoding.BROKER:
            return f"not a Zeek value: {text}"
        case _:
            return text
