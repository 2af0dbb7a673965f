"""`hub sub`: show what comes under some prefixes, until Ctrl-C.

```
hub ─▶ client ─ batch ─▶ format ─▶ Output (a thread) ─▶ standard output            losses, reconnects ─▶ standard error
```

It asks for a queue as large as hubs usually grant, so that a burst (a replay at full speed) is not lost while a
terminal scrolls. Cost: a batch at a time; the JSON of a Zeek record takes longest, about 2.5 µs.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from cyclopts import Parameter

from hub.batch import Message
from hub.config import parse_size
from hub.overflow import Overflow
from hub.topics import RESERVED
from peers.cli.errors import FlagError
from peers.cli.formats import JsonFormat, PrettyFormat, Tally, counted, escaped
from peers.cli.moments import with_zone
from peers.cli.notices import Notices
from peers.cli.output import Output
from peers.cli.url import DEFAULT_URL, ClientName, HubUrl
from peers.client import Client, MessageStream, connect
from peers.wire.hello import QueueWish

__all__ = ["sub"]

EXIT_INCOMPLETE = 2
"""Time is up and `--limit` was not reached."""

_QUEUE_MESSAGES = 1_000_000
_QUEUE_BYTES = "256MiB"
"""What a hub grants at most by default (`queue_max`): a burst of millions of small messages passes without loss."""

_TELL_S = 1.0
_CLEAR_LINE = "\r\x1b[K"

Format = Literal["pretty", "json", "count"]


def sub(  # noqa: PLR0913 -- one flag each
    *prefixes: Annotated[
        str,
        Parameter(help="Topics that start with one of these; without any, all but the hub's own, $hub/."),
    ],
    url: HubUrl = DEFAULT_URL,
    name: ClientName = "hub sub",
    format: Annotated[  # noqa: A002 -- the flag's name
        Format | None, Parameter(help="pretty (default on a terminal), json (default elsewhere), or count.")
    ] = None,
    zeek: Annotated[
        bool, Parameter(help="Show Zeek events as Zeek writes them: name(arguments).", negative=())
    ] = False,
    full: Annotated[bool, Parameter(help="Do not cut pretty lines to the terminal's width.", negative=())] = False,
    limit: Annotated[int | None, Parameter(help="Stop after so many messages.")] = None,
    timeout: Annotated[float | None, Parameter(help="Stop after so long without a message, seconds.")] = None,
    queue_messages: Annotated[int, Parameter(help="Queue to ask the hub for, messages.")] = _QUEUE_MESSAGES,
    queue_bytes: Annotated[str, Parameter(help="Queue to ask the hub for, bytes, such as 64MiB.")] = _QUEUE_BYTES,
    overflow: Annotated[
        Overflow | None, Parameter(help="What to lose when it is full; the hub's own policy without it.")
    ] = None,
    from_offset: Annotated[
        int | None, Parameter(help="Begin with what the hub's journal has from this offset on, then go on live.")
    ] = None,
    from_time: Annotated[
        datetime | None,
        Parameter(help="The same, from the first record that is not older; UTC unless it names a zone."),
    ] = None,
    rule: Annotated[
        str | None, Parameter(help="Messages that bear all these labels, as a,b; see docs/names-and-labels.md.")
    ] = None,
    sender: Annotated[str, Parameter(help="Messages whose sender has this name.")] = "",
) -> int:
    """Subscribe and show what comes, until Ctrl-C, --limit or --timeout.

    What is lost on the way, because this reads too slowly, is told on standard error.
    Exit code 2 if --timeout ends it before --limit is reached.
    """
    if limit is not None and limit < 1:
        raise FlagError(f"--limit {limit}: give 1 or more")
    if timeout is not None and timeout <= 0:
        raise FlagError(f"--timeout {timeout:g}: give more than 0 seconds")
    if queue_messages < 1:
        raise FlagError(f"--queue-messages {queue_messages}: give 1 or more")
    wish = QueueWish(queue_messages, _size(queue_bytes), overflow)
    chosen: Format = format or ("pretty" if sys.stdout.isatty() else "json")
    stop = _Stop(limit, timeout)
    if from_offset is not None and (from_offset < 0 or from_time is not None):
        raise FlagError("--from-offset: give 0 or more, and not --from-time as well")
    labels = tuple(label for label in (rule or "").split(",") if label)
    since = None if from_time is None else with_zone(from_time)
    wanted = _Wanted(prefixes or ("",), from_offset, since, labels, sender, hides_hub=not prefixes)
    wanted.check()
    if wildcard := _wildcard(prefixes):
        print(f"hub sub: {wildcard}", file=sys.stderr, flush=True)
    return asyncio.run(_subscribe(wanted, url, name, wish, stop, _Look(chosen, full, zeek)))


class _Wanted(NamedTuple):
    """What is shown."""

    prefixes: tuple[str, ...]
    from_offset: int | None
    from_time: datetime | None
    labels: tuple[str, ...]
    sender: str
    hides_hub: bool
    """Whether the hub's own messages are left out: nobody has asked for them."""

    @property
    def is_rule(self) -> bool:
        """Whether it is a rule, not prefixes alone."""
        return bool(self.labels or self.sender)

    def check(self) -> None:
        """Raise UsageError where its parts do not go together."""
        if self.is_rule and (len(self.prefixes) > 1 or self.from_offset is not None or self.from_time is not None):
            raise FlagError("--rule and --sender take one prefix at most, and go on live only: no journal keeps labels")

    def open(self, client: Client) -> MessageStream:
        """Return the subscription."""
        if self.is_rule:
            return client.subscribe_rule(self.labels, prefix=self.prefixes[0], sender=self.sender)
        return client.subscribe(*self.prefixes, from_offset=self.from_offset, from_time=self.from_time)

    def visible(self, batch: list[Message]) -> list[Message]:
        """Return what of a batch is to be shown."""
        return [message for message in batch if not message.topic.startswith(RESERVED)] if self.hides_hub else batch

    def __str__(self) -> str:
        parts = [prefix or "everything" for prefix in self.prefixes]
        parts += [f"label {label}" for label in self.labels]
        return ", ".join(parts + [f"sender {self.sender}"] * bool(self.sender))


def _wildcard(prefixes: tuple[str, ...]) -> str:
    """Return what to say to somebody who expects wildcards, as other brokers have them; empty for others."""
    for prefix in prefixes:
        if "*" in prefix or prefix.endswith(("/#", "/+", ">")) or "/+/" in prefix:
            return escaped(f"{prefix}: prefixes have no wildcards, each character stands for itself")
    return ""


class _Look(NamedTuple):
    """How messages are shown."""

    format: Format
    full: bool
    zeek: bool


class _Stop(NamedTuple):
    """When to end by itself."""

    limit_messages: int | None
    timeout_s: float | None


def _size(text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise FlagError(f"--queue-bytes {text!r}: {error}") from error
    if size < 1:
        raise FlagError(f"--queue-bytes {text!r}: give 1 or more")
    return size


async def _subscribe(  # noqa: PLR0913, PLR0917 -- the command's flags
    wanted: _Wanted, url: str, name: str, wish: QueueWish, stop: _Stop, look: _Look
) -> int:
    counting = look.format == "count"
    notices = Notices("sub", _CLEAR_LINE if counting and sys.stdout.isatty() else "")
    task = asyncio.current_task()
    output = Output(sys.stdout.fileno(), task.cancel if task is not None else None)
    try:
        async with connect(url, **notices.options(name, wish)) as client:
            try:
                async with wanted.open(client) as messages:
                    if sys.stderr.isatty():
                        notices.say(f"subscribed to {wanted} at hub {client.hub.name if client.hub else ''}")
                    if counting:
                        return await _count(messages, wanted, stop, output)
                    return await _show(_batches(messages, wanted, stop), stop, output, look, notices)
            finally:
                notices.finish()
    except asyncio.CancelledError:
        output.check()  # it may be the output that has cancelled us: then its error says why
        raise


async def _batches(messages: MessageStream, wanted: _Wanted, stop: _Stop) -> AsyncIterator[list[Message]]:
    """Yield what comes until it is time to stop."""
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
        batch = wanted.visible(came)
        if not batch:
            continue  # the hub's own messages alone: they do not put the end off
        if stop.timeout_s is not None:
            give_up_s = loop.time() + stop.timeout_s
        if left is not None:
            batch = batch[:left]
            left -= len(batch)
        yield batch


async def _show(
    batches: AsyncIterator[list[Message]], stop: _Stop, output: Output, look: _Look, notices: Notices
) -> int:
    """Write each message on a line."""
    on_terminal = sys.stdout.isatty()
    colour = on_terminal and not os.environ.get("NO_COLOR")
    json, pretty = JsonFormat(safe=on_terminal), PrettyFormat(colour=colour)
    if look.zeek:
        from peers.cli.zeek_values import event_fields, shown_event  # noqa: PLC0415 -- 20 ms that others need not wait

        json = JsonFormat(safe=on_terminal, fields=event_fields)
        pretty = PrettyFormat(colour=colour, show=shown_event)
    shown = 0
    try:
        async for batch in batches:
            if look.format == "json":
                lines = json.render(batch)
            else:
                width = shutil.get_terminal_size().columns if on_terminal and not look.full else None
                lines = pretty.render(batch, datetime.now().astimezone(), width)
            await output.write(lines)
            shown += len(batch)
        await output.flush()
    finally:
        if json.formless_messages:
            notices.say(f"{counted(json.formless_messages, 'message')} not shown: no JSON form")
    return EXIT_INCOMPLETE if stop.limit_messages is not None and shown < stop.limit_messages else 0


async def _count(messages: MessageStream, wanted: _Wanted, stop: _Stop, output: Output) -> int:
    """Write the count and the rate once a second, and the total at the end."""
    now = asyncio.get_running_loop().time
    tally = Tally(now())
    start, end = (_CLEAR_LINE, "") if sys.stdout.isatty() else ("", "\n")
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
                    batch = wanted.visible(await messages.batch())
                tally.messages = min(limit, tally.messages + len(batch))
                if batch:
                    give_up_s = now() + patience_s
    finally:
        print(f"{start}{tally.total(now())}", flush=True)
    return EXIT_INCOMPLETE if stop.limit_messages is not None and tally.messages < limit else 0
