"""`Replay`: from lines to messages, and the account of what went wrong on the way.

```
line ─decode─▶ value ─fill─▶ topic            bad line ─▶ BadLineError with its number, or counted (`skip_bad`)
                 └────Pace─▶ pause
```

For a recording, `decode_record` and a `Template` make the message; for lines of a shell, `decode_value` or
`decode_text` and one topic for all. Empty lines are passed over.

No I/O and no clock. Owner: one `hub pub`. Cost: decoding the JSON (about 2 µs for a Zeek record) and little else. Not
here: reading the lines (`peers.cli.lines`), publishing (`peers.cli.feed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from hub.errors import UsageError
from peers.cli.pace import Pace
from peers.cli.template import FieldError
from peers.wire.malformed import MALFORMED

__all__ = [
    "BadLineError",
    "Replay",
    "UnreadableError",
    "decode_json",
    "decode_record",
    "decode_text",
    "decode_value",
    "flaw_of_json",
]

_record = msgspec.json.Decoder(dict[str, Any]).decode
_value = msgspec.json.Decoder().decode


_BEGINS_JSON = (b"{", b"[", b'"')
"""What a text hardly ever begins with."""


class UnreadableError(UsageError):
    """Bytes that are not the JSON or the text that they should be."""


class BadLineError(UsageError):
    """A line that cannot be published."""


def decode_record(line: bytes) -> dict[str, Any]:
    """Return the JSON object that a line holds.

    Raises:
        UnreadableError: It holds none.
    """
    try:
        return _record(line)
    except MALFORMED as error:
        raise UnreadableError(f"not a JSON object: {error}") from error


def decode_json(line: bytes) -> Any:
    """Return the JSON value that a line holds.

    Raises:
        UnreadableError: It holds none.
    """
    try:
        return _value(line)
    except MALFORMED as error:
        raise UnreadableError(f"not valid JSON: {error}") from error


def flaw_of_json(line: bytes) -> str:
    """Return what is wrong with a line that begins as JSON and is none, so that it is likely a mistake; else empty."""
    if line.lstrip()[:1] not in _BEGINS_JSON:
        return ""
    try:
        _value(line)
    except MALFORMED as error:
        return str(error)
    return ""


def decode_value(line: bytes) -> Any:
    """Return what a line holds: a JSON value if it reads as one, else text.

    Raises:
        UnreadableError: Neither, it is not UTF-8.
    """
    try:
        return _value(line)
    except MALFORMED:
        return decode_text(line)


def decode_text(line: bytes) -> str:
    """Return the text that a line holds.

    Raises:
        UnreadableError: It is not UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 at byte {error.start}") from error


class Replay:
    """Makes messages of lines, and counts those that make none.

    Args:
        decode: Gives each line its value; raises `UnreadableError`.
        fill: Gives each value its topic; raises `FieldError`.
        pace: Gives each value its pause; None for full speed.
        skip_bad: Count bad lines and go on, rather than stop at the first.
    """

    __slots__ = ("_decode", "_fill", "_number", "_pace", "_skip_bad", "_source", "bad_lines", "first_bad")

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
        self._pace = pace
        self._skip_bad = skip_bad
        # The name of the input that is read, for errors.
        self._source = ""
        # The number of the line that was read last, from 1 on.
        self._number = 0
        # How many lines were passed over since the start, whichever input they stood in.
        self.bad_lines = 0
        self.first_bad = ""
        """What was wrong with the first bad line, empty if there was none."""

    @property
    def paced(self) -> bool:
        """Whether pauses are to be kept."""
        return self._pace is not None

    def begin(self, source: str) -> None:
        """Take note that the lines of another input follow, or those of the same again.

        Args:
            source: The name of the input, for errors.
        """
        self._source = source
        self._number = 0
        if self._pace is not None:
            self._pace.restart()

    def messages(self, lines: Iterable[bytes]) -> Iterator[tuple[str, Any, float]]:
        """Yield topic, value and pause in seconds of each line.

        Raises:
            BadLineError: A line makes no message, unless bad lines are skipped.
        """
        decode, fill, pace = self._decode, self._fill, self._pace
        for line in lines:
            self._number += 1
            if not line:
                continue
            try:
                value = decode(line)
                topic = fill(value)
                pause_s = pace.pause_s(value) if pace is not None else 0.0
            except (UnreadableError, FieldError) as error:
                self.reject(str(error))
            else:
                yield topic, value, pause_s

    def reject(self, reason: str) -> None:
        """Note that the line of the last message is bad.

        Raises:
            BadLineError: Bad lines are not skipped.
        """
        text = f"{self._source}: line {self._number}: {reason}"
        if not self._skip_bad:
            raise BadLineError(f"{text}; --skip-bad passes such lines over")
        self.bad_lines += 1
        self.first_bad = self.first_bad or text
