"""URLs: the topic of a publication, and the contents of a stream of events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote

import msgspec

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.labels.envelope import key_of
from hub.topics import check_prefix, printable
from peers.websocket.http.content import Target
from peers.wire.control import PREFIXES_LIMIT
from peers.wire.hello import QueueWish

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
    start: int | None
    """The first offset; None for live messages, or for `time_us`."""
    epoch: int
    """The epoch of the journal of that offset; 0 if it is unknown."""
    time_us: int | None
    """The time of the first record, µs since 1970."""
    queue: QueueWish | None
    """The wish for a queue; None for none: then it need not be live."""
    name: str

    @property
    def has_start(self) -> bool:
        """Whether it begins in the journal."""
        return self.start is not None or self.time_us is not None


def is_served(path: str) -> bool:
    """Return whether a path is for publishing, or for events."""
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
    """Return an offset, its epoch, and a time."""
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
        raise _refused(f"from: {shown} is no offset, and no time such as 2026-11-21T12:00:00Z") from None
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
    except ValueError as error:  # also what is no UTF-8
        raise _refused(f"the query cannot be read: {error}") from error
    unknown = sorted(values.keys() - known)
    if unknown:
        raise _refused(f"{printable(unknown[0])} is not known here; there are {', '.join(sorted(known))}")
    return values


def _one(values: _Values, name: str) -> str:
    found = values.get(name, [""])
    if len(found) > 1:
        raise _refused(f"{name} stands there {len(found)} times")
    return found[0]


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise _refused("the topic is no UTF-8") from error


def _refused(text: str) -> RejectedError:
    return RejectedError(CloseCode.BAD_DATA, text)
