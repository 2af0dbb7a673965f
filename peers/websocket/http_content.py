r"""Publishing and following over HTTP: the URLs, the body of a POST, and its answer.

```
application/json       {"a": 1}                      one message, once the body is complete
application/msgpack    82 a1 61 01 …                 the same, unread except for its form
application/x-ndjson   {"a": 1}\n{"a": 2}\n …      a message a line, published as the lines come, many in one frame

Values ─▶ Publishing.publish ─▶ commands ─▶ confirmed, refused                at once
                                       └─▶ recorded, refused      once the journal has it, in the order of the messages
Done   ─▶ is_settled ─▶ answer: {"messages": 3, "offsets": [[17, 3]]}
```

JSON becomes msgpack, see `docs/data-model.md`. One value, or one line, of at most `limit_bytes` is held. A line of 100
bytes costs 0.6 µs. Values behind a rejected one are not published; the answer says how many were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote

import msgspec

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.labels.envelope import key_of
from hub.messages.batch import encode_values
from hub.messages.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES
from hub.topics import check_prefix, printable
from peers.commands.commands import Publication
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
from peers.wire.control import MALFORMED, PREFIXES_LIMIT
from peers.wire.hello import QueueWish

FRAME_BYTES: Final = 64 * 1024  # values that go into one frame

_CONTAINERS_LIMIT: Final = 4 * 1024 * 1024  # most bytes of msgpack that may begin an array or map: 7 ns each

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
        return Publication(encode_values(self.key, packed, self.flags), len(packed), request, self.confirm)


class Values(NamedTuple):
    """Values that are published together."""

    packed: list[bytes]
    line: int  # of the first of them, from 1; 0 where there are no lines


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
    """One value. `take` returns complete values, `finish` the rest; both raise `ContentError`."""

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
        self._held = bytearray()  # the beginning of a line
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


Content = _One | _Lines


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
    return msgspec.json.encode(value) + b"\n"


def error_body(code: int, text: str, line: int = 0, **beside: Any) -> bytes:
    error: dict[str, Any] = {"code": int(code), "text": text}
    if line:
        error["line"] = line
    return json_body({"error": error} | beside)


_MESSAGES_PER_EVENT: Final = 64  # messages of one frame that cost as much of a turn's share as another event

RANGES_LIMIT: Final = 1_000  # most ranges of offsets in an answer; one is usual


class Publishing:
    """One POST.

    Args:
        target: Where its messages go.
        act: Publishes.
    """

    def __init__(self, target: Target, act: Callable[[Publication], int]) -> None:
        self._target = target
        self._act = act
        self._last = 0
        self._pending: dict[int, tuple[int, int]] = {}  # unanswered frame → first line, messages
        self._offsets: list[list[int]] = []  # first offset and number of messages of each range that is recorded
        self._unlisted = 0  # messages that are recorded in further ranges
        self._refusal: tuple[int, str, int] | None = None  # code, text and line of the first rejection
        self.is_done = False
        self.messages = 0  # messages that were published, and recorded where that was asked for

    @property
    def is_refused(self) -> bool:
        return self._refusal is not None

    @property
    def is_settled(self) -> bool:
        return (self.is_done or self.is_refused) and not self._pending

    def publish(self, values: Values) -> int:
        """Publish values, unless one was rejected before; return the share of a turn."""
        if self._refusal is not None:
            return 0
        self._last += 1
        publication = self._target.publication(values.packed, self._last)
        self._pending[self._last] = (values.line, publication.messages)
        return 1 + publication.messages // _MESSAGES_PER_EVENT + self._act(publication)

    def refuse(self, code: int, text: str, line: int = 0) -> None:
        if self._refusal is None:
            self._refusal = (code, text, line)

    # Replies of the hub.

    def confirmed(self, request: int) -> None:
        _, messages = self._pending.pop(request, (0, 0))
        self.messages += messages

    def refused(self, error: RejectedError, request: int) -> None:
        line, _ = self._pending.pop(request, (0, 0))
        self.refuse(error.code, error.text, line)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        self.confirmed(request)
        ranges = self._offsets
        if ranges and sum(ranges[-1]) == offset:
            ranges[-1][1] += messages
        elif len(ranges) < RANGES_LIMIT:
            ranges.append([offset, messages])
        else:
            self._unlisted += messages

    # The answer.

    def answer(self) -> tuple[HTTPStatus, bytes]:
        told: dict[str, Any] = {"messages": self.messages}
        if self._target.confirm:
            told["offsets"] = self._offsets
            if self._unlisted:
                told["unlisted"] = self._unlisted
        if self._refusal is None:
            return HTTPStatus.OK, json_body(told)
        code, text, line = self._refusal
        return status_of(code), error_body(CloseCode(code), text, line, **told)


# URLs.


PUBLISH: Final = "/v1/publish"
EVENTS: Final = "/v1/events"

_PLACE = re.compile(r"(?:(?P<epoch>[0-9]{1,18})-)?(?P<offset>[0-9]{1,18})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRUE: Final = frozenset({"1", "true"})
_FALSE: Final = frozenset({"", "0", "false"})

_Values = Mapping[str, list[str]]


class Wanted(NamedTuple):
    """The contents of a stream of events."""

    prefixes: list[str]
    start: int | None  # the first offset; None for live messages, or for `time_us`
    epoch: int  # the epoch of the journal of that offset; 0 if it is unknown
    time_us: int | None  # the time of the first record, µs since 1970
    queue: QueueWish | None  # the wish for a queue; None for none: then it need not be live
    name: str

    @property
    def has_start(self) -> bool:
        return self.start is not None or self.time_us is not None


def is_served(path: str) -> bool:
    return path in {EVENTS, PUBLISH} or path.startswith(f"{PUBLISH}/")


def target_of(path: str, query: str) -> Target:
    """Return the target of a publication.

    Args:
        path: Begins with `PUBLISH`; a topic follows, with its slash.
        query: `topic` for one without a slash, `confirm`, `label`, `sender`, `to`.

    Raises:
        RejectedError: It names no topic, or has unknown fields.
    """
    values = _values(query, {"topic", "confirm", "label", "sender", "to"})
    rest = _decoded(path[len(PUBLISH) :])
    named = _one(values, "topic")
    if bool(rest) == bool(named):
        raise _refused(f"name a topic: {PUBLISH}/TOPIC, or {PUBLISH}?topic=TOPIC for one without a slash in front")
    confirm = _one(values, "confirm")
    if confirm not in _TRUE | _FALSE:
        raise _refused("confirm: expected 1 or 0")
    try:
        key, flags = key_of(rest or named, values.get("label", []), _one(values, "sender"), _one(values, "to"))
    except (InvalidTopicError, InvalidNameError) as error:
        raise _refused(str(error)) from error
    return Target(key, flags, confirm in _TRUE)


def wanted_of(query: str, last_ids: list[str]) -> Wanted:
    """Return the contents of a stream.

    Args:
        query: `prefix`, any number of times; `from`; `overflow`, `messages`, `bytes`; `name`.
        last_ids: The `Last-Event-ID` headers, which take the place of `from`.

    Raises:
        RejectedError: It cannot be read.
    """
    values = _values(query, {"prefix", "from", "overflow", "messages", "bytes", "name"})
    prefixes = values.get("prefix", [])
    if not prefixes:
        raise _refused("say which topics: prefix=, as often as needed; an empty one is for all")
    if len(prefixes) > PREFIXES_LIMIT:
        raise RejectedError(CloseCode.TOO_BIG, f"{len(prefixes)} prefixes, the limit is {PREFIXES_LIMIT}")
    try:
        for prefix in prefixes:
            check_prefix(prefix)
    except InvalidTopicError as error:
        raise _refused(str(error)) from error
    start, epoch, time_us = _start(_one(values, "from"), last_ids)
    queue = _queue(values)
    if queue is not None and (start is not None or time_us is not None):
        raise _refused("a stream that begins in the journal has no queue: leave overflow, messages, bytes out")
    return Wanted(prefixes, start, epoch, time_us, queue, _one(values, "name"))


def _start(text: str, last_ids: list[str]) -> tuple[int | None, int, int | None]:
    last = [one for one in last_ids if one]
    if last:
        found = _PLACE.fullmatch(last[0])
        if len(last) > 1 or found is None:
            raise _refused("Last-Event-ID: expected one epoch and offset, as the last `id` was: 1795468563-17")
        return int(found["offset"]) + 1, int(found["epoch"] or 0), None
    if not text:
        return None, 0, None
    if found := _PLACE.fullmatch(text):
        return int(found["offset"]), int(found["epoch"] or 0), None
    try:
        given = datetime.fromisoformat(text)
        since = (given if given.tzinfo else given.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError):
        shown = printable(text)
        raise _refused(f"from: {shown} is neither an offset nor a time such as 2026-11-21T12:00:00Z") from None
    return None, 0, max(0, since // timedelta(microseconds=1))


def _queue(values: _Values) -> QueueWish | None:
    named = {name: _one(values, name) for name in ("overflow", "messages", "bytes") if name in values}
    if not named:
        return None
    try:
        return msgspec.convert(named, QueueWish, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(f"the queue: {error}") from error


def _values(query: str, known: set[str]) -> dict[str, list[str]]:
    try:
        values = parse_qs(query, keep_blank_values=True, errors="strict", max_num_fields=PREFIXES_LIMIT)
    except ValueError as error:  # also for bytes that are not UTF-8
        raise _refused(f"the query cannot be read: {error}") from error
    unknown = sorted(values.keys() - known)
    if unknown:
        raise _refused(f"{printable(unknown[0])} is not known here; there are {', '.join(sorted(known))}")
    return values


def _one(values: _Values, name: str) -> str:
    found = values.get(name, [""])
    if len(found) > 1:
        raise _refused(f"{name} appears {len(found)} times")
    return found[0]


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise _refused("the topic is not UTF-8") from error


def _refused(text: str) -> RejectedError:
    return RejectedError(CloseCode.BAD_DATA, text)
