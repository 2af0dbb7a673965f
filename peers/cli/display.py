"""Writes the messages of a stream as lines of standard output, until a limit or timeout.

```
Messages ── batch ─▶ visible? ─▶ limit, timeout ─▶ pretty or json lines ─▶ Output
```

Values become JSON as on the hub's WebSocket; values without a JSON form are counted (`JsonFormat`) or shown as Python
writes them (`PrettyFormat`). Messages that are not visible (the hub's own) do not count.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from hub.journal.message import RecordedMessage
from hub.labels.envelope import TaggedMessage
from hub.messages.batch import Message
from peers.cli.flag_values import moment
from peers.cli.notices import Notices
from peers.cli.output import Output
from peers.cli.texts import NO_FORM, counted, cut, encoder, escaped, escaped_lines, json_text

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
    epoch: int = 0


def _line_of(message: Message, epoch: int) -> _Line:
    if isinstance(message, TaggedMessage):
        return _Line(message.topic, message.value, message.labels, message.sender, message.destination)
    if isinstance(message, RecordedMessage):
        return _Line(message.topic, message.value, offset=message.offset, time=moment(message.time_us), epoch=epoch)
    return _Line(*message)


class JsonFormat:
    """Writes each message as one JSON object a line.

    Args:
        safe: Whether lines go to a terminal, and are escaped.
        fields: Returns members in place of `value`, or None.
    """

    __slots__ = ("_fields", "_safe", "formless_messages")

    def __init__(self, *, safe: bool = False, fields: Callable[[Any], dict[str, Any] | None] | None = None) -> None:
        self._safe = safe
        self._fields = fields
        self.formless_messages = 0

    def render(self, messages: Sequence[Message], epoch: int = 0) -> bytes:
        """Return the lines of `messages`, with the journal's epoch of their offsets, 0 if not known."""
        try:
            lines = encoder.encode_lines([self._object(message, epoch) for message in messages])
        except NO_FORM:
            lines = b"".join([self._line(message, epoch) for message in messages])
        return escaped_lines(lines) if self._safe else lines

    def _object(self, message: Message, epoch: int) -> _Line | dict[str, Any]:
        fields = self._fields(message.value) if self._fields is not None else None
        if fields is not None:
            return {"topic": message.topic} | fields | _beside_value(message, epoch)
        return _line_of(message, epoch)

    def _line(self, message: Message, epoch: int) -> bytes:
        text = json_text(message.value)
        if text is None:
            self.formless_messages += 1
            return b""
        line = _line_of(message, epoch)
        line.value = msgspec.Raw(text)
        return encoder.encode(line) + b"\n"


def _beside_value(message: Message, epoch: int) -> dict[str, Any]:
    """Return labels, names and the place in a journal, for an object with fields of its own."""
    line = _line_of(message, epoch)
    line.topic, line.value = "", None
    members: dict[str, Any] = msgspec.to_builtins(line)
    del members["topic"], members["value"]
    return members


def _beside(message: TaggedMessage) -> str:
    """Return `[label, label] from a.b to c.d`."""
    parts = [f"[{', '.join(message.labels)}]"] if message.labels else []
    parts += [f"{word} {name}" for word, name in (("from", message.sender), ("to", message.destination)) if name]
    return " ".join(parts)


class PrettyFormat:
    """Writes each message as one line for people.

    Args:
        colour: Whether topics are coloured, each always in the same colour.
        show: Writes a value in another way than as JSON, or returns None.
    """

    __slots__ = ("_colour", "_show")

    def __init__(self, *, colour: bool = False, show: Callable[[Any], str | None] | None = None) -> None:
        self._colour = colour
        self._show = show

    def render(self, messages: Sequence[Message], at: datetime, width: int | None) -> bytes:
        """Return the lines of `messages`.

        Args:
            messages: Any number.
            at: When they came. Messages of a journal are shown with the UTC time of their record and their offset
                instead.
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
    """Return the text before the topic: when a message came, or where and when it was recorded."""
    return f"{message.offset} {moment(message.time_us)}" if isinstance(message, RecordedMessage) else now


EXIT_INCOMPLETE = 2
"""`--timeout` has ended the command before `--limit` was reached."""

Format = Literal["pretty", "json"]

Visible = Callable[[list[Message]], list[Message]]
"""Returns those messages of a batch that are shown."""


class Messages(Protocol):
    """A `MessageStream`, or an object that reads like one."""

    async def batch(self) -> list[Message]:
        """Wait for messages, and return them; empty only at the end."""

    @property
    def epoch(self) -> int:
        """The epoch of the journal of the offsets, or 0."""


class Look(NamedTuple):
    """How messages are shown."""

    format: Format
    full: bool
    """Whether pretty lines may be longer than the terminal is wide."""
    zeek: bool
    """Whether Zeek events are shown as Zeek writes them."""


class Stop(NamedTuple):
    """When the command ends by itself."""

    limit_messages: int | None
    timeout_s: float | None
    """Of the wait for a message to show."""

    def exit_code(self, shown_messages: int) -> int:
        """Return the exit code after so many messages."""
        return EXIT_INCOMPLETE if self.limit_messages is not None and shown_messages < self.limit_messages else 0


async def show(  # noqa: PLR0913, PLR0917 -- of the command's flags
    messages: Messages, visible: Visible, stop: Stop, look: Look, output: Output, notices: Notices
) -> int:
    """Write messages until it is time to stop; return the exit code."""
    on_terminal = sys.stdout.isatty()
    colour = on_terminal and not os.environ.get("NO_COLOR")
    json, pretty = JsonFormat(safe=on_terminal), PrettyFormat(colour=colour)
    if look.zeek:
        from peers.cli.zeek_values import event_fields, shown_event  # noqa: PLC0415 -- 20 ms that others need not wait

        json = JsonFormat(safe=on_terminal, fields=event_fields)
        pretty = PrettyFormat(colour=colour, show=shown_event)
    shown = 0
    try:
        async for batch in _batches(messages, visible, stop):
            if look.format == "json":
                lines = json.render(batch, messages.epoch)
            else:
                width = shutil.get_terminal_size().columns if on_terminal and not look.full else None
                lines = pretty.render(batch, datetime.now().astimezone(), width)
            await output.write(lines)
            shown += len(batch)
        await output.flush()
    finally:
        if json.formless_messages:
            notices.say(f"{counted(json.formless_messages, 'message')} not shown: no JSON form")
    return stop.exit_code(shown)


async def _batches(messages: Messages, visible: Visible, stop: Stop) -> AsyncIterator[list[Message]]:
    """Yield the visible messages of each batch, until it is time to stop."""
    loop = asyncio.get_running_loop()
    give_up_s = None if stop.timeout_s is None else loop.time() + stop.timeout_s
    left = stop.limit_messages
    while left is None or left > 0:
        try:
            async with asyncio.timeout_at(give_up_s):
                came = await messages.batch()
        except TimeoutError:
            return
        if not came:
            return
        batch = visible(came)
        if not batch:
            continue  # the hub's own messages alone: they do not put the end off
        if stop.timeout_s is not None:
            give_up_s = loop.time() + stop.timeout_s
        if left is not None:
            batch = batch[:left]
            left -= len(batch)
        yield batch
