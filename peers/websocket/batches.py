"""A batch as ready WebSocket frames, made once and written to every connection; and the values of clients.

```
Batch (MESSAGES frames) ── json_form ────▶ Form   {"type":"messages","topic":..,"values":[..]} as text frames
                        └─ msgpack_form ─▶ Form   the same as binary frames; bodies are not rewritten
```

Consecutive frames of one topic are merged into one message of up to 64 KiB: a browser pays per message. Values that
were published together stay together. Messages without a form (see `peers.values.conversion`) become a `dropped` with
their number, the same frame for all clients, so that bad messages cost no more than good ones. A msgpack body is merged
only if it is small and sound. A JSON message costs about 1.2 µs, once for all clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from websockets.frames import Opcode

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError
from hub.labels.envelope import Envelope, key_of
from hub.messages.batch import Batch, value_ends
from hub.messages.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    BROKER_FLAGS,
    FLAG_BATCH,
    FLAG_TAGGED,
    HEADER,
    HEADER_BYTES,
    KIND_MESSAGES,
    Frame,
    encode_frame,
)
from peers.commands.commands import Publication
from peers.values.conversion import CONVERTED_LIMIT_BYTES, is_value, json_of, json_of_broker, msgpack_of_broker
from peers.values.forms import Form, Made
from peers.values.msgpack import array_header
from peers.websocket.messages import Dropped, Labels, RefusedError, RequestNumber

MERGED_LIMIT_BYTES = 64 * 1024  # values merged into one message stop here
_MERGED_VALUE_BYTES = 4096  # larger msgpack values travel alone, unread: merging saves them nothing

_SINGLY_LIMIT = 4096  # most values of a frame that are converted one by one when they cannot be at once: 3 µs each

_MAP_OF_TWO = 0x82

_ENCODING = 0b110


_FINAL = 0x80
_SHORT = Struct(">BB")
_MEDIUM = Struct(">BBH")
_LONG = Struct(">BBQ")
_MEDIUM_MARK = 126
_LONG_MARK = 127
_MEDIUM_LIMIT_BYTES = 0xFFFF


def encode_message(opcode: int, *parts: bytes | memoryview) -> bytes:
    """Return a whole, final, unmasked frame (RFC 6455, section 5.2), as bytes for any number of connections."""
    size = sum(map(len, parts))
    if size < _MEDIUM_MARK:
        header = _SHORT.pack(_FINAL | opcode, size)
    elif size <= _MEDIUM_LIMIT_BYTES:
        header = _MEDIUM.pack(_FINAL | opcode, _MEDIUM_MARK, size)
    else:
        header = _LONG.pack(_FINAL | opcode, _LONG_MARK, size)
    return b"".join((header, *parts))


def json_form(_: Batch) -> Form:
    return Form(_make_json)


def msgpack_form(_: Batch) -> Form:
    return Form(_make_msgpack)


class _Assembly:
    """Collects the values of one batch, merges those of one topic into messages, and makes frames of them."""

    __slots__ = (
        "_count",
        "_frames",
        "_gap",
        "_message",
        "_notice",
        "_size_bytes",
        "_topic",
        "_values",
        "lost_messages",
    )

    def __init__(self, message: Callable[[bytes, int, list[bytes]], bytes], notice: Callable[[int], bytes]) -> None:
        self._message = message
        self._notice = notice
        self._frames: list[bytes] = []
        self._topic = b""
        self._values: list[bytes] = []
        self._count = 0
        self._size_bytes = 0
        self._gap = 0  # messages lost since the last frame; 0 while values are being collected
        self.lost_messages = 0

    def add(self, topic: bytes, count: int, values: bytes) -> None:
        """Take values that must stay together, and merge them with those before if the topic is the same."""
        if self._gap or topic != self._topic or self._size_bytes + len(values) > MERGED_LIMIT_BYTES:
            self.seal()
        self._topic = topic
        self._values.append(values)
        self._count += count
        self._size_bytes += len(values)

    def add_alone(self, topic: bytes, count: int, values: bytes) -> None:
        self.seal()
        self.add(topic, count, values)
        self.seal()

    def lose(self, messages: int) -> None:
        if self._values:
            self.seal()
        self._gap += messages
        self.lost_messages += messages

    def seal(self) -> None:
        if self._values:
            self._frames.append(self._message(self._topic, self._count, self._values))
            self._values = []
            self._count = self._size_bytes = 0
        elif self._gap:
            self._frames.append(self._notice(self._gap))
            self._gap = 0

    def finish(self) -> Made:
        self.seal()
        return self._frames[0] if len(self._frames) == 1 else b"".join(self._frames), self.lost_messages


def _make_json(batch: Batch) -> Made:
    assembly = _Assembly(_json_message, _json_notice)
    for topic, every_flag, body in _frames(batch.frames):
        flags = every_flag & ~FLAG_TAGGED
        if flags & _ENCODING:
            _add_broker_value(assembly, topic, flags, body, json_of_broker)
        elif flags & FLAG_BATCH:
            _add_json_values(assembly, topic, body)
        elif (text := json_of(body)) is not None:
            assembly.add(topic, 1, text)
        else:
            assembly.lose(1)
    return assembly.finish()


def _add_broker_value(
    assembly: _Assembly, topic: bytes, flags: int, body: bytes, convert: Callable[[bytes], bytes | None]
) -> None:
    """Add a value as Broker spells it, which stands in a frame of its own; other encodings have no form."""
    value = convert(body) if flags == BROKER_FLAGS else None
    if value is None:
        assembly.lose(_messages(flags, body))
    else:
        assembly.add(topic, 1, value)


class _EnvelopeKey(bytes):
    """Stands in place of a topic: one with labels or names."""

    __slots__ = ()


def _frames(frames: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield topic, or envelope, flags and body of each frame.

    Like `Batch.parts`, at a third of the cost: this is a hot path.
    """
    position = 0
    size = len(frames)
    unpack = HEADER.unpack_from
    while position < size:
        body_length, _, flags, key_length = unpack(frames, position)
        topic_start = position + HEADER_BYTES
        body_start = topic_start + key_length
        position = body_start + body_length
        topic = frames[topic_start:body_start]
        yield topic if not flags & FLAG_TAGGED else _EnvelopeKey(topic), flags, frames[body_start:position]


def _messages(flags: int, body: bytes) -> int:
    messages: int = BATCH_COUNT.unpack_from(body)[0] if flags & FLAG_BATCH else 1
    return messages


def _beside(key: _EnvelopeKey) -> dict[str, object]:
    topic, labels, sender, destination = Envelope.decode(key)
    fields = {"topic": topic, "labels": labels, "sender": sender, "to": destination}
    return {name: value for name, value in fields.items() if value}


def _json_message(topic: bytes, _: int, values: list[bytes]) -> bytes:
    if isinstance(topic, _EnvelopeKey):
        head = b'{"type":"messages",' + msgspec.json.encode(_beside(topic))[1:-1]
    else:
        head = b'{"type":"messages","topic":' + msgspec.json.encode(topic.decode())
    return encode_message(Opcode.TEXT, head, b',"values":[', b",".join(values), b"]}")


def _json_notice(lost_messages: int) -> bytes:
    return encode_message(Opcode.TEXT, msgspec.json.encode(Dropped(lost_messages)))


def _add_json_values(assembly: _Assembly, topic: bytes, body: bytes) -> None:
    messages = _messages(FLAG_BATCH, body)
    text = json_of(array_header(messages) + body[BATCH_COUNT.size :])
    if text is not None:
        assembly.add(topic, messages, text[1:-1])
        return
    ends = None
    if messages <= _SINGLY_LIMIT and len(body) <= CONVERTED_LIMIT_BYTES:
        ends = value_ends(Frame(KIND_MESSAGES, FLAG_BATCH, topic, body))
    if ends is None:
        assembly.lose(messages)
        return
    start = BATCH_COUNT.size
    for end in ends:
        single = json_of(body[start:end])
        if single is None:
            assembly.lose(1)
        else:
            assembly.add(topic, 1, single)
        start = end


def _make_msgpack(batch: Batch) -> Made:
    assembly = _Assembly(_msgpack_message, _msgpack_notice)
    for topic, every_flag, body in _frames(batch.frames):
        flags = every_flag & ~FLAG_TAGGED
        if flags & _ENCODING:
            _add_broker_value(assembly, topic, flags, body, msgpack_of_broker)
        elif flags & FLAG_BATCH:
            assembly.add_alone(topic, _messages(flags, body), body[BATCH_COUNT.size :])
        elif len(body) <= _MERGED_VALUE_BYTES and is_value(body):
            assembly.add(topic, 1, body)
        else:
            assembly.add_alone(topic, 1, body)
    return assembly.finish()


def _msgpack_message(topic: bytes, count: int, values: list[bytes]) -> bytes:
    if isinstance(topic, _EnvelopeKey):
        fields = _beside(topic)
        beside = msgspec.msgpack.encode(fields)[1:]  # without the head of the map: they are in another
        head = b"%c\xa4type\xa8messages%b\xa6values%b" % (_MAP_OF_TWO + len(fields), beside, array_header(count))
    else:
        name = msgspec.msgpack.encode(topic.decode())
        head = b"\x83\xa4type\xa8messages\xa5topic%b\xa6values%b" % (name, array_header(count))
    return encode_message(Opcode.BINARY, head, *values)


def _msgpack_notice(lost_messages: int) -> bytes:
    return encode_message(Opcode.BINARY, msgspec.msgpack.encode(Dropped(lost_messages)))


# Turning the message `publish` of WebSocket clients into the hub's own `Publication`.


ITEMS_LIMIT = BATCH_LIMIT_MESSAGES  # most values or prefixes of one message

_pack = msgspec.msgpack.Encoder().encode

_ONE_OF_TWO = "expected `value` (one) or `values` (a list), one of the two"


One = TypeVar("One")
Several = TypeVar("Several")  # objects from JSON, or msgpack that is not looked into


class Publish(msgspec.Struct, Generic[One, Several], frozen=True, tag="publish"):
    """A `publish` in either encoding."""

    topic: str
    value: One | msgspec.UnsetType = msgspec.UNSET
    values: Several | msgspec.UnsetType = msgspec.UNSET
    request: RequestNumber = 0
    confirm: bool = False
    labels: Labels = ()
    sender: str = ""
    to: str = ""


class _WithValues(Protocol):
    @property
    def request(self) -> int: ...

    @property
    def value(self) -> Any: ...

    @property
    def values(self) -> Any: ...


def values_of(message: _WithValues, kind: str) -> tuple[bool, bytes, int]:
    """Return whether a message has a single value, its values back to back in msgpack, and their number.

    Raises:
        RefusedError: It has none, too many, or some that have no msgpack form.
    """
    value, values = message.value, message.values

    def refusal(text: str, messages: int = 0, code: CloseCode = CloseCode.BAD_DATA) -> RefusedError:
        return RefusedError(code, f"{kind}: {text}", message.request, messages, kind)

    single = values is msgspec.UNSET
    if single == (value is msgspec.UNSET):
        raise refusal(_ONE_OF_TWO)
    if isinstance(value, msgspec.Raw):
        count, packed = 1, bytes(value)
    elif isinstance(values, msgspec.Raw):
        several = bytes(values)
        count, start = array_head(several, "values", message.request, kind)
        packed = several[start:]
    else:
        listed = [value] if single else values
        try:
            packed = b"".join([_pack(each) for each in listed])
        except (OverflowError, ValueError, TypeError, RecursionError) as error:
            reason = "nested too deep" if isinstance(error, RecursionError) else "an integer beyond 64 bits"
            raise refusal(f"a value has no msgpack form: {reason}") from error
        count = len(listed)
    if not 0 < count <= ITEMS_LIMIT:
        code = CloseCode.TOO_BIG if count else CloseCode.BAD_DATA
        raise refusal(f"{count} values, expected 1 to {ITEMS_LIMIT}", count, code)
    return single, packed, count


def publication_of(message: Publish[Any, Any]) -> Publication:
    """Return the publication that a client means.

    Raises:
        RefusedError: It cannot be published; the text says why.
    """
    request = message.request
    single, packed, messages = values_of(message, "publish")
    if message.confirm and not request:
        raise RefusedError(CloseCode.BAD_DATA, "publish: with `confirm`, `request` is missing", 0, messages)
    try:
        key, flags = key_of(message.topic, message.labels, message.sender, message.to)
    except (InvalidTopicError, InvalidNameError) as error:
        raise RefusedError(CloseCode.BAD_DATA, str(error), request, messages) from error
    if single or messages == 1:
        frame = encode_frame(KIND_MESSAGES, packed, key=key, flags=flags)
    else:
        frame = encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(messages) + packed, key=key, flags=flags | FLAG_BATCH)
    return Publication(frame, messages, request, message.confirm)


def array_head(packed: bytes, field: str, request: int, kind: str = "") -> tuple[int, int]:
    """Return how many items a msgpack array has, and where the first of them begins.

    Raises:
        RefusedError: It is no array.
    """
    mark = packed[0]
    if mark & 0xF0 == 0x90:
        return mark & 0x0F, 1
    if mark == 0xDC:
        return int.from_bytes(packed[1:3], "big"), 3
    if mark == 0xDD:
        return int.from_bytes(packed[1:5], "big"), 5
    raise RefusedError(
        CloseCode.BAD_DATA, f"{kind and f'{kind}: '}expected an array - at `$.{field}`", request, 0, kind
    )
