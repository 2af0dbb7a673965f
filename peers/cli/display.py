"""Display: how the messages of a stream become lines of standard output, and when that stops by itself.

```
Messages ────── batch ─▶ visible? ─▶ limit, timeout ─┬─ pretty, json ─▶ lines ─┬─▶ Output
                                                     └─ count ─▶ Tally ────────┘
```

Values become JSON as on the hub's WebSocket; what has no JSON form is counted (`JsonFormat`) or shown as Python writes
it (`PrettyFormat`). Not more than `limit_messages` are shown; messages that are not visible (the hub's own) neither
count nor put the end off. What a publisher sends cannot steer the terminal.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from hub.batch import Message
from hub.journal.message import RecordedMessage
from hub.tags.envelope import TaggedMessage
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

    def render(self, messages: Sequence[Message], epoch: int = 0) -> bytes:
        """Return the lines of `messages`.

        Args:
            messages: Any number.
            epoch: The epoch of the journal in which their offsets are told; 0 where nobody knows.
        """
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
    """Return labels, names and the place in a journal, for an object that has fields of its own."""
    line = _line_of(message, epoch)
    line.topic, line.value = "", None
    members: dict[str, Any] = msgspec.to_builtins(line)
    del members["topic"], members["value"]
    return members


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


EXIT_INCOMPLETE = 2
"""Time is up and `--limit` was not reached."""

CLEAR_LINE = "\r\x1b[K"
"""What wipes out the line that the cursor of a terminal stands in."""

_TELL_S = 1.0
"""How often `count` writes what it has counted."""

Format = Literal["pretty", "json", "count"]

Visible = Callable[[list[Message]], list[Message]]
"""Returns those messages of a batch that are to be shown."""


class Messages(Protocol):
    """What is shown: a `MessageStream`, or what reads like one."""

    async def batch(self) -> list[Message]:
        """Wait for messages, and return them; empty only at the end."""

    @property
    def epoch(self) -> int:
        """The epoch of the journal that goes with the offsets; 0 where there are none."""


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
    """How long it waits for a message to show."""

    def exit_code(self, shown_messages: int) -> int:
        """Return what the command ends with, after so many messages."""
        return EXIT_INCOMPLETE if self.limit_messages is not None and shown_messages < self.limit_messages else 0


async def show(  # noqa: PLR0913, PLR0917 -- of the command's flags
    messages: Messages, visible: Visible, stop: Stop, look: Look, output: Output, notices: Notices
) -> int:
    """Write each message on a line, until it is time to stop; return the exit code."""
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
    """Yield what is to be shown of each batch, until it is time to stop."""
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


async def count(messages: Messages, visible: Visible, stop: Stop, output: Output) -> int:
    """Write the count and the rate once a second, and the total at the end; return the exit code."""
    now = asyncio.get_running_loop().time
    tally = Tally(now())
    start, end = (CLEAR_LINE, "") if sys.stdout.isatty() else ("", "\n")
    limit = stop.limit_messages if stop.limit_messages is not None else sys.maxsize
    patience_s = math.inf if stop.timeout_s is None else stop.timeout_s
    tell_s, give_up_s = now() + _TELL_S, now() + patience_s
    try:
        while tally.messages < limit and now() < give_up_s:
            if now() >= tell_s:
                await output.write(f"{start}{tally.tell(now())}{end}".encode())
                tell_s = now() + _TELL_S
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(tell_s, give_up_s)):
                    batch = visible(await messages.batch())
                tally.messages = min(limit, tally.messages + len(batch))
                if batch:
                    give_up_s = now() + patience_s
    finally:
        await output.flush()  # its thread may not have written yet, and the total is the last line
        print(f"{start}{tally.total(now())}", flush=True)
    return stop.exit_code(tally.messages)
