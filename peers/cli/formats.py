"""Formats of `hub sub`: how messages become lines of output.

| format | a message becomes |
|---|---|
| `JsonFormat` | one line `{"topic":...,"value":...}`, with `labels`, `sender`, `to`; of a record `offset` and `time` |
| `PrettyFormat` | one line of time, topic and value as compact JSON, on a terminal coloured and cut to its width |
| `Tally` | nothing: messages are only counted, and the count is told once a second |

Values become JSON as on the hub's WebSocket (docs/websocket.md): bytes as base64, times as RFC 3339, NaN as null; what
has no JSON form is counted (`JsonFormat`) or shown as Python writes it (`PrettyFormat`).

Invariant: what a publisher sends cannot steer the terminal. Whatever does not print is written as its JSON escape.

No I/O and no clock: times and widths are arguments. Cost: about 2.5 µs a message of 400 bytes for JSON.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hub.batch import Message
from hub.journal.message import RecordedMessage
from hub.tags.message import TaggedMessage
from peers.cli.moments import moment

__all__ = ["JsonFormat", "PrettyFormat", "Tally", "counted", "cut", "escaped", "escaped_lines", "json_text"]


def _plain(value: Any) -> Any:
    """Bring into JSON what msgspec does not know: Zeek's values."""
    from peers.values.untyped import untyped  # noqa: PLC0415 -- rarely needed

    made = untyped(value)
    if made is value:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return made


_encoder = msgspec.json.Encoder(enc_hook=_plain)

_NO_FORM = (TypeError, ValueError, OverflowError, RecursionError)

_ELLIPSIS = "…"

_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_TOPIC_COLOURS = tuple(f"\x1b[{number}m" for number in (36, 32, 33, 35, 34, 96, 92, 93, 95, 94))


class _Line(msgspec.Struct, omit_defaults=True):
    """A message as an object of JSON."""

    topic: str
    value: Any
    labels: tuple[str, ...] = ()
    sender: str = ""
    to: str = ""
    offset: int | None = None
    time: str = ""


def _line_of(message: Message) -> _Line:
    if isinstance(message, TaggedMessage):
        return _Line(message.topic, message.value, message.labels, message.sender, message.destination)
    if isinstance(message, RecordedMessage):
        return _Line(message.topic, message.value, offset=message.offset, time=moment(message.time_us))
    return _Line(*message)


class JsonFormat:
    """Writes each message as one JSON object on a line of its own.

    Args:
        safe: Whether lines go to a terminal, and may hold nothing that it would act on.
        fields: What stands in a line in place of `value`; None for what is shown as it is.
    """

    __slots__ = ("_fields", "_safe", "formless_messages")

    def __init__(self, *, safe: bool = False, fields: Callable[[Any], dict[str, Any] | None] | None = None) -> None:
        self._safe = safe
        self._fields = fields
        self.formless_messages = 0
        """Messages that were left out because they have no JSON form."""

    def render(self, messages: Sequence[Message]) -> bytes:
        """Return the lines of `messages`."""
        try:
            lines = _encoder.encode_lines([self._object(message) for message in messages])
        except _NO_FORM:
            lines = b"".join(map(self._line, messages))
        return escaped_lines(lines) if self._safe else lines

    def _object(self, message: Message) -> _Line | dict[str, Any]:
        fields = self._fields(message.value) if self._fields is not None else None
        if fields is not None:
            return {"topic": message.topic} | fields | _place(message)
        return _line_of(message)

    def _line(self, message: Message) -> bytes:
        text = json_text(message.value)
        if text is None:
            self.formless_messages += 1
            return b""
        return b'{"topic":%b,"value":%b}\n' % (_encoder.encode(message.topic), text)


def _place(message: Message) -> dict[str, Any]:
    """Return where and when a message was recorded, for an object that has fields of its own."""
    if not isinstance(message, RecordedMessage):
        return {}
    return {"offset": message.offset, "time": moment(message.time_us)}


def _beside(message: TaggedMessage) -> str:
    """Return what stands between topic and value: `[label, label] from a.b to c.d`."""
    parts = [f"[{', '.join(message.labels)}]"] if message.labels else []
    parts += [f"{word} {name}" for word, name in (("from", message.sender), ("to", message.destination)) if name]
    return " ".join(parts)


class PrettyFormat:
    """Writes each message as one line for people.

    Args:
        colour: Whether topics are coloured, each always in the same colour.
        show: Writes a value in another way than as JSON; None for what is shown as JSON.
    """

    __slots__ = ("_colour", "_show")

    def __init__(self, *, colour: bool = False, show: Callable[[Any], str | None] | None = None) -> None:
        self._colour = colour
        self._show = show

    def render(self, messages: Sequence[Message], at: datetime, width: int | None) -> bytes:
        """Return the lines of `messages`.

        Args:
            messages: Any number.
            at: When they came, in the zone in which to show it. Messages of a journal are shown with the date and time
                of their record instead, in UTC as `--from-time` reads it, and with their offset.
            width: Columns to cut a line to, None not to.
        """
        time = _clock(at)
        return "".join([self._line(_when(message, time), message, width) for message in messages]).encode()

    def _line(self, time: str, message: Message, width: int | None) -> str:
        value = escaped(self._value(message.value))
        topic = escaped(message.topic)
        if isinstance(message, TaggedMessage):
            value = f"{escaped(_beside(message))} {value}"
        line = f"{time} {topic} {value}"
        if width is not None:
            line = cut(line, width)
        if not self._colour:
            return line + "\n"
        topic_end = len(time) + 1 + len(topic)
        colour = _TOPIC_COLOURS[zlib.crc32(topic.encode()) % len(_TOPIC_COLOURS)]
        return f"{_DIM}{line[: len(time)]}{_RESET}{colour}{line[len(time) : topic_end]}{_RESET}{line[topic_end:]}\n"

    def _value(self, value: Any) -> str:
        shown = self._show(value) if self._show is not None else None
        if shown is not None:
            return shown
        packed = json_text(value)
        return packed.decode() if packed is not None else repr(value)


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"


def _when(message: Message, now: str) -> str:
    """Return what stands before the topic: when a message came, or where and when it was recorded."""
    return f"{message.offset} {moment(message.time_us)}" if isinstance(message, RecordedMessage) else now


class Tally:
    """Counts messages, and tells how many there are and how fast they come.

    Args:
        now_s: The time now, by any clock that does not go back.
    """

    __slots__ = ("_since_s", "_told_messages", "_told_s", "messages")

    def __init__(self, now_s: float) -> None:
        # How many messages there were; raised by whoever counts.
        self.messages = 0
        # When counting began, and when it was asked for the rate last.
        self._since_s = self._told_s = now_s
        # How many messages there were by then.
        self._told_messages = 0

    def tell(self, now_s: float) -> str:
        """Return the count, and the rate since this was last asked."""
        passed_s, new = now_s - self._told_s, self.messages - self._told_messages
        self._told_s, self._told_messages = now_s, self.messages
        return f"{counted(self.messages, 'message')}  {new / passed_s if passed_s > 0 else 0:,.0f}/s"

    def total(self, now_s: float) -> str:
        """Return the count, the time and the mean rate."""
        passed_s = now_s - self._since_s
        rate = self.messages / passed_s if passed_s > 0 else 0
        return f"{counted(self.messages, 'message')} in {passed_s:.1f} s, {rate:,.0f}/s"


def counted(count: int, noun: str) -> str:
    """Write how many there are: `1 message`, `1,200 messages`."""
    return f"{count:,} {noun}" + "s" * (count != 1)


def json_text(value: Any) -> bytes | None:
    """Return the JSON text of a value, None if it has none."""
    try:
        return _encoder.encode(value)
    except _NO_FORM:
        from peers.values.conversion import json_of  # noqa: PLC0415 -- rarely needed

        try:
            return json_of(msgspec.msgpack.encode(value))
        except _NO_FORM:
            return None


def escaped(text: str) -> str:
    r"""Return `text` with everything that does not print written as `\uXXXX`.

    That is control characters, but also what turns the direction of writing, and Unicode's other line ends.
    """
    if text.isprintable():
        return text
    return "".join([character if character.isprintable() else _escape(character) for character in text])


def escaped_lines(lines: bytes) -> bytes:
    """Return lines of JSON text as `escaped` writes them; their line ends stay."""
    return "\n".join(map(escaped, lines.decode().split("\n"))).encode()


def _escape(character: str) -> str:
    r"""Write a character as JSON does, with a pair of surrogates beyond U+FFFF."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def cut(line: str, width: int) -> str:
    """Return as much of `line` as fits into so many columns, with an ellipsis where something is missing."""
    if line.isascii():
        return line if len(line) <= width else line[: max(0, width - 1)] + _ELLIPSIS
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 -- only wide characters need it

    shown = line[: width + 1]  # characters without a width of their own count as one column: that bounds the work
    if cell_len(shown) <= width and len(shown) == len(line):
        return line
    return set_cell_size(shown, max(0, width - 1)).rstrip(" ") + _ELLIPSIS
