"""`Subscriptions`: who wants what, read from a file.

```
name,prefix                 {"name": "alerts", "prefix": "/zeek/notice"}
alerts,/zeek/notice         {"name": "alerts", "prefix": "/zeek/weird"}
alerts,/zeek/weird          {"name": "everything", "prefix": ""}
everything,                 CSV with this header, or NDJSON, told apart by their first character
```

A subscriber is a name, and may stand in several lines; subscribers are numbered from 0 as they appear. Prefixes are
those of the hub: plain strings, no wildcards. Empty lines are passed over.

No Spark here. Cost: about 2 µs a line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hub.errors import InvalidTopicError, UsageError
from hub.topics import check_prefix, printable

__all__ = ["SUBSCRIPTIONS_LIMIT", "BadSubscriptionError", "Subscriptions", "read_subscriptions"]

SUBSCRIPTIONS_LIMIT = 1_000_000
"""Lines of a file. All of them are held by the driver and sent to every executor."""

_HEADS = ("name", "prefix")

Line = tuple[int, str, str]
"""Number in the file, from 1; name; prefix."""


class BadSubscriptionError(UsageError):
    """A line that is no subscription, or a file without one; the text names both."""


class _Fields(msgspec.Struct):
    name: str
    prefix: str


@dataclass(frozen=True)
class Subscriptions:
    """Subscribers and their prefixes."""

    names: tuple[str, ...]
    """The number of a subscriber is its place here."""
    wanted: tuple[tuple[str, int], ...]
    """Prefix and number of the subscriber."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Subscriptions:
        """Return the subscriptions that pairs of name and prefix make."""
        numbers: dict[str, int] = {}
        wanted = dict.fromkeys((prefix, numbers.setdefault(name, len(numbers))) for name, prefix in pairs)
        return cls(tuple(numbers), tuple(wanted))


def read_subscriptions(path: Path) -> Subscriptions:
    """Read a file.

    Raises:
        BadSubscriptionError: It cannot be read, holds none or too many, or a line is none.
    """
    text = _text(path)
    lines = _ndjson(path, text) if text.lstrip().startswith("{") else _csv(path, text)
    pairs = [_checked(path, *line) for line in lines]
    if not pairs:
        raise BadSubscriptionError(f"{path}: there is no subscription in it")
    if len(pairs) > SUBSCRIPTIONS_LIMIT:
        raise BadSubscriptionError(f"{path}: {len(pairs):,} subscriptions, the limit is {SUBSCRIPTIONS_LIMIT:,}")
    return Subscriptions.of(pairs)


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadSubscriptionError(f"{path}: {error.strerror}") from error
    try:
        return raw.decode("utf-8-sig")  # spreadsheets begin their CSV with a mark
    except UnicodeDecodeError as error:
        raise _bad(path, raw.count(b"\n", 0, error.start) + 1, "not UTF-8") from error


def _bad(path: Path, number: int, reason: str) -> BadSubscriptionError:
    return BadSubscriptionError(f"{path}: line {number}: {reason}")


def _checked(path: Path, number: int, name: str, prefix: str) -> tuple[str, str]:
    if not name:
        raise _bad(path, number, "the name is empty")
    try:
        return name, check_prefix(prefix)
    except InvalidTopicError as error:
        raise _bad(path, number, str(error)) from error


def _ndjson(path: Path, text: str) -> Iterator[Line]:
    decode = msgspec.json.Decoder(_Fields).decode
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                fields = decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                raise _bad(path, number, f'{{"name": ..., "prefix": ...}} expected: {error}') from error
            yield number, fields.name, fields.prefix


def _csv(path: Path, text: str) -> Iterator[Line]:
    rows = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        heads = next((row for row in rows if row), [])
        if any(head not in heads for head in _HEADS):
            raise _bad(
                path, max(1, rows.line_num), f"the header name,prefix expected, found {printable(','.join(heads))}"
            )
        name, prefix = map(heads.index, _HEADS)
        for row in rows:
            if row:
                if len(row) != len(heads):
                    raise _bad(path, rows.line_num, f"{len(heads)} fields expected, found {len(row)}")
                yield rows.line_num, row[name], row[prefix]
    except csv.Error as error:
        raise _bad(path, rows.line_num, str(error)) from error
