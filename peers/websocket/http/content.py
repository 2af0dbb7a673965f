r"""The body of a POST: one value, or a line for each, as messages that are ready to be published.

```
application/json       {"a": 1}                      one message, once the body is complete
application/msgpack    82 a1 61 01 …                 the same, unread except for its form
application/x-ndjson   {"a": 1}\n{"a": 2}\n …      a message a line, published as the lines come, many in one frame
```

JSON becomes msgpack, see `docs/data-model.md`. One value, or one line, of at most `limit_bytes` is held. A line of 100
bytes costs 0.6 µs.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from hub.errors import CloseCode
from hub.messages.batch import encode_values
from hub.messages.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, HEADER_BYTES
from peers.commands.publish import Publication
from peers.values.conversion import (
    NESTING_LIMIT,
    PARTS_LIMIT,
    is_nested_too_deep,
    is_packed_too_deep,
    is_value,
    possible_containers,
    possible_parts,
    without_collecting,
)
from peers.wire.reasons import MALFORMED

FRAME_BYTES: Final = 64 * 1024
"""Values that go into one frame."""

_CONTAINERS_LIMIT: Final = 4 * 1024 * 1024
"""Most bytes of a msgpack value that may begin an array or map; checking one costs 7 ns."""

_JSON: Final = "application/json"
_LINES: Final = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
_MSGPACK: Final = frozenset({"application/msgpack", "application/x-msgpack", "application/vnd.msgpack"})

TYPES: Final = f"{_JSON}, application/x-ndjson, application/msgpack"

_UNPACKABLE = (OverflowError, ValueError, TypeError, RecursionError)

_decoder = msgspec.json.Decoder()
_pack = msgspec.msgpack.Encoder().encode


class ContentError(Exception):
    """The content cannot be published; `line` is the wrong one, from 1, or 0 where there are no lines."""

    def __init__(self, code: CloseCode, text: str, line: int = 0) -> None:
        super().__init__(code, text, line)
        self.code = code
        self.text = text
        self.line = line


class Target(NamedTuple):
    """The routing key of messages."""

    key: bytes
    flags: int
    confirm: bool = False

    def publication(self, packed: list[bytes], request: int) -> Publication:
        """Return values as a publication."""
        frame = encode_values(self.key, packed, self.flags)
        return Publication(frame, frame[4 : HEADER_BYTES + len(self.key)], len(packed), request, self.confirm)


class Values(NamedTuple):
    """Values that are published together."""

    packed: list[bytes]
    line: int
    """Of the first of them, from 1; 0 where there are no lines."""


class Content(Protocol):
    """The content of a body; `take` and `finish` raise `ContentError`."""

    @property
    def held_bytes(self) -> int:
        """Bytes of an incomplete value."""

    def take(self, data: bytes) -> Iterator[Values]:
        """Take content; return its complete values."""

    def finish(self) -> Iterator[Values]:
        """Return the rest."""


def content_of(content_type: str, limit_bytes: int) -> Content | None:
    """Return a reader of content of a type, with a limit for each value or line; None for an unknown type."""
    name, _, parameters = content_type.partition(";")
    name = name.strip().lower()
    if parameters.strip().lower().replace('"', "") not in {"", "charset=utf-8"}:
        return None
    if name == _JSON:
        return _One(_json_value, limit_bytes)
    if name in _MSGPACK:
        return _One(_msgpack_value, limit_bytes)
    return _Lines(limit_bytes) if name in _LINES else None


class _One:
    __slots__ = ("_held", "_limit_bytes", "_read")

    def __init__(self, read: Any, limit_bytes: int) -> None:
        self._read = read
        self._limit_bytes = limit_bytes
        self._held = bytearray()

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def take(self, data: bytes) -> Iterator[Values]:
        self._held += data
        if len(self._held) > self._limit_bytes:
            raise ContentError(CloseCode.TOO_BIG, f"a value of more than {self._limit_bytes} bytes")
        return iter(())

    def finish(self) -> Iterator[Values]:
        data, self._held = bytes(self._held), bytearray()
        yield Values([self._read(data)], 0)


class _Lines:
    """A value a line."""

    __slots__ = ("_held", "_limit_bytes", "_line")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held = bytearray()
        """The beginning of a line."""
        self._line = 1

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def take(self, data: bytes) -> Iterator[Values]:
        end = data.rfind(b"\n") + 1
        if end:
            whole = bytes(self._held) + data[:end]
            self._held = bytearray(data[end:])
            yield from self._read(whole)
        else:
            self._held += data
        if len(self._held) > self._limit_bytes:
            raise ContentError(CloseCode.TOO_BIG, f"a line of more than {self._limit_bytes} bytes", self._line)

    def finish(self) -> Iterator[Values]:
        rest, self._held = bytes(self._held), bytearray()
        return self._read(rest)

    def _read(self, whole: bytes) -> Iterator[Values]:
        """Yield the values of whole lines, as many as go into one frame together."""
        packed = self._quickly(whole)
        if packed is not None:
            first = self._line
            self._line += whole.count(b"\n")
            yield from _framed(packed, first, min(FRAME_BYTES, self._limit_bytes - BATCH_COUNT.size))
            return
        for line in whole.removesuffix(b"\n").split(b"\n"):
            number = self._line
            self._line += 1
            if line.strip():
                yield Values([_json_value(line, number)], number)

    def _quickly(self, whole: bytes) -> list[bytes] | None:
        """Return the values of whole lines; None where a line is empty, wrong or large: then each is read by itself."""
        if (len(whole) > PARTS_LIMIT and possible_parts(whole) > PARTS_LIMIT) or is_nested_too_deep(whole):
            return None
        try:
            values = _decoder.decode_lines(whole)
            packed = [_pack(value) for value in values]
        except (*MALFORMED, *_UNPACKABLE):
            return None
        lines = whole.count(b"\n") + (not whole.endswith(b"\n"))
        return packed if len(packed) == lines else None


def _framed(packed: list[bytes], line: int, limit_bytes: int) -> Iterator[Values]:
    start = size = 0
    for place, value in enumerate(packed):
        if size and (size + len(value) > limit_bytes or place - start == BATCH_LIMIT_MESSAGES):
            yield Values(packed[start:place], line + start)
            start, size = place, 0
        size += len(value)
    if start < len(packed):
        yield Values(packed[start:], line + start)


def _json_value(text: bytes, line: int = 0) -> bytes:
    """Return a JSON text as msgpack."""
    if len(text) > PARTS_LIMIT and (parts := possible_parts(text)) > PARTS_LIMIT:
        raise ContentError(CloseCode.TOO_BIG, f"{parts} arrays, maps and items, the limit is {PARTS_LIMIT}", line)
    if is_nested_too_deep(text):
        raise _too_deep(line)
    try:
        value = without_collecting(_decoder.decode, text) if len(text) > PARTS_LIMIT else _decoder.decode(text)
    except MALFORMED as error:
        raise ContentError(CloseCode.BAD_DATA, f"no JSON: {error}", line) from error
    try:
        return _pack(value)
    except _UNPACKABLE as error:
        raise ContentError(CloseCode.BAD_DATA, "an integer beyond 64 bits has no msgpack form", line) from error


def _msgpack_value(packed: bytes) -> bytes:
    """Check a msgpack value."""
    if len(packed) > _CONTAINERS_LIMIT and possible_containers(packed) > _CONTAINERS_LIMIT:
        text = f"more than {_CONTAINERS_LIMIT} bytes that may begin an array or map"
        raise ContentError(CloseCode.TOO_BIG, text)
    if is_packed_too_deep(packed):
        raise _too_deep()
    if not is_value(packed):
        raise ContentError(CloseCode.BAD_DATA, "no msgpack, or not one value")
    return packed


def _too_deep(line: int = 0) -> ContentError:
    text = f"nested too deep: more than {NESTING_LIMIT} arrays and maps in each other"
    return ContentError(CloseCode.BAD_DATA, text, line)


# What is answered over HTTP when something is refused: a status for each code of the hub, and one JSON object.


JSON_TYPE: Final = "application/json"

_STATUSES: Final = {
    CloseCode.PROTOCOL_ERROR: HTTPStatus.BAD_REQUEST,
    CloseCode.BAD_DATA: HTTPStatus.BAD_REQUEST,
    CloseCode.NOT_ALLOWED: HTTPStatus.FORBIDDEN,
    CloseCode.FORBIDDEN: HTTPStatus.FORBIDDEN,
    CloseCode.NOT_RECOGNISED: HTTPStatus.UNAUTHORIZED,
    CloseCode.TOO_BIG: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    CloseCode.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    CloseCode.GONE: HTTPStatus.GONE,
}


def status_of(code: int) -> HTTPStatus:
    """Return the HTTP status for a code of the hub; 503 for those that ask for another attempt."""
    return _STATUSES.get(CloseCode(code), HTTPStatus.SERVICE_UNAVAILABLE)


def json_body(value: Any) -> bytes:
    """Return a value as the body of an answer: one line."""
    return msgspec.json.encode(value) + b"\n"


def error_body(code: int, text: str, line: int = 0, **beside: Any) -> bytes:
    """Return the body of an answer with an error."""
    error: dict[str, Any] = {"code": int(code), "text": text}
    if line:
        error["line"] = line
    return json_body({"error": error} | beside)
