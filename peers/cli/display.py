"""Display: how `hub sub` brings the messages of a stream to standard output, and when it stops by itself.

```
Messages ────── batch ─▶ visible? ─▶ limit, timeout ─┬─ pretty, json ─▶ lines ─┬─▶ Output
                                                     └─ count ─▶ Tally ────────┘
```

Owner: one `hub sub`. Invariants: not more than `limit_messages` are shown; messages that are not visible (the hub's
own, which nobody has asked for) neither count nor put the end off. Cost: a batch at a time; the JSON of a Zeek record
takes longest, about 2.5 µs. Not here: what is subscribed (`peers.cli.sub`), how a message becomes a line
(`peers.cli.formats`).
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from hub.batch import Message
from peers.cli.formats import JsonFormat, PrettyFormat
from peers.cli.notices import Notices
from peers.cli.output import Output
from peers.cli.tally import Tally
from peers.cli.texts import counted

__all__ = ["CLEAR_LINE", "Format", "Look", "Messages", "Stop", "Visible", "count", "show"]

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
