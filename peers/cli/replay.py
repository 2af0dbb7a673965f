"""`Replay`: from lines to messages: their topics (`template`) and when each is due (`Pace`). No I/O and no clock.

A field is looked up by its whole name first (Zeek writes `id.orig_h` flat), then along its dots. Recordings are not in
order, so `Recorded` holds the latest time; earlier records follow without a pause.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from hub.errors import UsageError
from hub.topics import printable
from peers.cli.texts import FlagError, with_zone
from peers.wire.control import MALFORMED

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")

_NONE: Any = object()


class TemplateError(FlagError):
    """A template that no record can fill."""


class FieldError(UsageError):
    """A record that does not fill the template."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"field {printable(field)} {reason}")
        self.field = field


def _parse(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts: whether each is a field, and its text or name."""
    for token in _TOKEN.finditer(text):
        found, field = token[0], token[1]
        if field is not None:
            if not field:
                raise TemplateError(f"template {printable(text)}: {{}} names no field; write {{_path}} or the like")
            yield True, field
        elif found in {"{{", "}}"}:
            yield False, found[0]
        elif found in {"{", "}"}:
            raise TemplateError(
                f"template {printable(text)}: '{found}' at character {token.start()} has no other half; "
                f"a brace that is meant as such is written twice"
            )
        else:
            yield False, found


def template(text: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that makes the topic of a record, or raises `FieldError`; raise `TemplateError`.

    There is a special function for a single field, because it runs for each record.
    """
    parts = list(_parse(text))
    if sum(is_field for is_field, _ in parts) != 1:
        return lambda record: "".join(
            _text(record.get(part, _NONE), part, record) if is_field else part for is_field, part in parts
        )
    at = next(index for index, (is_field, _) in enumerate(parts) if is_field)
    before = "".join(part for _, part in parts[:at])
    field = parts[at][1]
    after = "".join(part for _, part in parts[at + 1 :])

    def fill(record: Mapping[str, Any]) -> str:
        value = record.get(field, _NONE)
        return f"{before}{value if type(value) is str else _text(value, field, record)}{after}"

    return fill


def _text(value: Any, field: str, record: Mapping[str, Any]) -> str:
    if value is _NONE:
        value = _nested(record, field)
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case None:
            raise FieldError(field, "is null")
    raise FieldError(field, f"is a {'list' if isinstance(value, list) else 'map'}, a topic takes texts and numbers")


def _nested(record: Mapping[str, Any], field: str) -> Any:
    value: Any = record
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise FieldError(field, "is missing")
        value = value[name]
    return value


_TIME_FIELDS = ("ts", "_write_ts")
"""Zeek's fields for the time of an event, and the time at which it was written."""

_MAX_PAUSE_S = 60.0

_CATCH_UP_S = 1.0
"""A replay that is late catches up this much; longer stalls are forgotten."""

_FAR_BACK_S = 86_400.0
"""Records this much before the latest one are not just late: few connections last a day."""

_FAR_BACK_RECORDS = 8
"""So many of them in a row are the true time."""


class Recorded:
    """The pauses of the recording, so many times as fast."""

    __slots__ = ("_back_records", "_latest_s", "_speed")

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed
        self._latest_s: float | None = None  # it goes back where the clock had jumped
        self._back_records = 0  # records in a row that lie far behind that

    def pause_s(self, record: Mapping[str, Any]) -> float:
        """Return the pause before this record; raise `FieldError` if it has no time."""
        at_s = self._time_s(record)
        latest_s = self._latest_s
        if latest_s is None:
            self._latest_s = at_s
            return 0.0
        if at_s > latest_s:
            self._latest_s = at_s
            self._back_records = 0
            return min((at_s - latest_s) / self._speed, _MAX_PAUSE_S)
        self._back_records = self._back_records + 1 if latest_s - at_s > _FAR_BACK_S else 0
        if self._back_records >= _FAR_BACK_RECORDS:
            self._latest_s = at_s
            self._back_records = 0
        return 0.0

    def restart(self) -> None:
        self._latest_s = None
        self._back_records = 0

    def _time_s(self, record: Mapping[str, Any]) -> float:
        for field in _TIME_FIELDS:
            value = record.get(field)
            if value is not None:
                return time_s(value, field)
        raise FieldError(_TIME_FIELDS[0], "is missing: it holds the time of a record")


Pace: TypeAlias = float | Recorded
"""The pause before each message, s, or the pauses of the recording."""


class Schedule:
    """Turns pauses into waits, so that delays do not add up; takes any clock that does not go back."""

    __slots__ = ("_due_s",)

    def __init__(self, now_s: float) -> None:
        self._due_s = now_s

    def wait_s(self, pause_s: float, now_s: float) -> float:
        """Return how long to wait now, seconds; 0 or less if the message is due."""
        self._due_s = max(self._due_s + pause_s, now_s - _CATCH_UP_S)
        return self._due_s - now_s


def time_s(value: object, field: str) -> float:
    """Return a time: RFC 3339 text (without an offset: UTC), or seconds since 1970; raise `FieldError` for others."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        with suppress(ValueError):
            return with_zone(datetime.fromisoformat(value)).timestamp()
        with suppress(ValueError):
            seconds = float(value)
            if math.isfinite(seconds):
                return seconds
    raise FieldError(field, f"is not a time: {printable(str(value))}; expected RFC 3339 text, or seconds since 1970")


_record = msgspec.json.Decoder(dict[str, Any]).decode
_value = msgspec.json.Decoder().decode


_BEGINS_JSON = (b"{", b"[", b'"')
"""Texts hardly ever begin with these."""


class UnreadableError(UsageError):
    """Bytes that are not the JSON or the text that they should be."""


class BadLineError(UsageError):
    """A line that cannot be published."""


def decode_record(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line, or raise `UnreadableError`."""
    try:
        return _record(line)
    except MALFORMED as error:
        raise UnreadableError(f"not a JSON object: {error}") from error


def decode_json(line: bytes) -> Any:
    """Return the JSON value of a line, or raise `UnreadableError`."""
    try:
        return _value(line)
    except MALFORMED as error:
        raise UnreadableError(f"not valid JSON: {error}") from error


def flaw_of_json(line: bytes) -> str:
    """Return the flaw of a line that begins as JSON and is none, likely a mistake; else empty."""
    if line.lstrip()[:1] not in _BEGINS_JSON:
        return ""
    try:
        _value(line)
    except MALFORMED as error:
        return str(error)
    return ""


def decode_value(line: bytes) -> Any:
    """Return the JSON value of a line, else its text; raise `UnreadableError` if it is not UTF-8."""
    try:
        return _value(line)
    except MALFORMED:
        return decode_text(line)


def decode_text(line: bytes) -> str:
    """Return the text of a line, or raise `UnreadableError`."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 at byte {error.start}") from error


class Replay:
    """Makes messages of lines: `decode` returns the value, `fill` the topic; counts bad lines."""

    __slots__ = ("_decode", "_fill", "_number", "_skip_bad", "_source", "bad_lines", "first_bad", "pace")

    def __init__(
        self,
        decode: Callable[[bytes], Any],
        fill: Callable[[Any], str],
        pace: Pace | None = None,
        *,
        skip_bad: bool = False,
    ) -> None:
        self._decode = decode
        self._fill = fill
        self.pace = pace
        self._skip_bad = skip_bad
        self._source = ""
        self._number = 0
        self.bad_lines = 0
        self.first_bad = ""

    def begin(self, source: str) -> None:
        self._source = source
        self._number = 0
        if isinstance(self.pace, Recorded):
            self.pace.restart()

    def messages(self, lines: Iterable[bytes]) -> Iterator[tuple[str, Any, float]]:
        """Yield topic, value and pause in seconds of each line; raise `BadLineError` unless bad lines are skipped."""
        decode, fill, pace = self._decode, self._fill, self.pace
        for line in lines:
            self._number += 1
            if not line:
                continue
            try:
                value = decode(line)
                topic = fill(value)
                pause_s = pace.pause_s(value) if isinstance(pace, Recorded) else pace or 0.0
            except (UnreadableError, FieldError) as error:
                self.reject(str(error))
            else:
                yield topic, value, pause_s

    def reject(self, reason: str) -> None:
        """Count the line of the last message as bad, or raise `BadLineError`."""
        text = f"{self._source}: line {self._number}: {reason}"
        if not self._skip_bad:
            raise BadLineError(f"{text}; --skip-bad passes such lines over")
        self.bad_lines += 1
        self.first_bad = self.first_bad or text
