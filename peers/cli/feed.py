"""`Feed`: sends what a `Replay` makes of an input, no faster than its pace and the hub allow, and keeps the account.

```
Input.lines ─▶ Replay.messages ─▶ wait until due ─▶ publish_nowait ──buffer full──▶ publish (waits for the hub)
```

Owner: one `hub pub`. Cost at full speed: about 5 µs a Zeek record, most of it reading and writing JSON and msgpack. The
loop gets its turn after each piece of the input, a few milliseconds apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from hub.errors import BusyError, CloseCode, InvalidTopicError, RejectedError
from peers.cli.lines import Input, InputError
from peers.cli.pace import Schedule
from peers.cli.progress import Progress
from peers.cli.replay import Replay
from peers.cli.texts import counted
from peers.client import Client, InvalidValueError

__all__ = ["Feed"]


class Beside(NamedTuple):
    """What all messages of a run bear beside their topics."""

    labels: tuple[str, ...] = ()
    to: str = ""
    """The name to whose owner alone the messages go; empty for all who subscribe."""


class Feed:
    """Sends one run of messages.

    Args:
        client: It is connected.
        replay: Makes the messages.
        limit_messages: Where to stop, None at the end of the input.
        beside: What the messages bear beside their topics.
    """

    def __init__(
        self, client: Client, replay: Replay, *, limit_messages: int | None = None, beside: Beside | None = None
    ) -> None:
        self._client = client
        self._replay = replay
        self._limit_messages = limit_messages
        self._beside = beside or Beside()
        self._now = asyncio.get_running_loop().time
        # When each message is due; None where none has to wait.
        self._schedule = Schedule(self._now()) if replay.paced else None
        # When the run began, by the clock of the loop.
        self._started_s = self._now()
        # How many messages the client has taken; never more than `limit_messages`.
        self.sent_messages = 0
        self.source: Input | None = None
        """The input that is read now, or was read last; None before the first."""

    @property
    def finished(self) -> bool:
        """Whether the limit is reached."""
        return self.sent_messages == self._limit_messages

    @property
    def rate_per_s(self) -> float:
        """How many messages a second were sent since the start."""
        passed_s = self._now() - self._started_s
        return self.sent_messages / passed_s if passed_s > 0 else 0.0

    def progress(self) -> Progress:
        """Return how far it has come."""
        text = f"{counted(self.sent_messages, 'message')}  {self.rate_per_s:,.0f}/s"
        return Progress(text) if self.source is None else Progress(text, self.source.read_bytes, self.source.size_bytes)

    async def send(self, path: str, *, again: bool = False) -> None:
        """Publish what a file or standard input holds, to its end or to the limit.

        Args:
            path: Of the file, or `STDIN`.
            again: Begin anew at the end, until the limit.

        Raises:
            InputError, BadLineError: It cannot be read, or a line of it cannot be published.
            PeerError: The hub is gone for good.
        """
        while True:
            before = self.sent_messages
            with Input(path) as self.source:
                self._replay.begin(self.source.name)
                await self._send_source(self.source)
            if not again or self.finished:
                return
            if self.sent_messages == before:
                raise InputError(f"{path}: holds nothing to send, going on would never end")

    async def _send_source(self, source: Input) -> None:
        """Publish the lines of one input; let others run after each piece."""
        async for lines in source.lines():
            await self._send_lines(lines)
            if self.finished:
                return
            await asyncio.sleep(0)

    def summary(self) -> str:
        """Return what was sent and what was passed over, for people."""
        passed_s = self._now() - self._started_s
        sent = counted(self.sent_messages, "message")
        text = f"published {sent} in {passed_s:.2f} s, {self.rate_per_s:,.0f} messages/s"
        replay = self._replay
        if replay.bad_lines:
            text += f"; {counted(replay.bad_lines, 'bad line')} passed over, the first: {replay.first_bad}"
        return text

    async def _send_lines(self, lines: Sequence[bytes]) -> None:
        """Publish the messages of some lines, each when it is due, up to the limit."""
        beside = self._beside
        publish_nowait: Callable[[str, Any], None] = self._client.publish_nowait
        publish: Callable[[str, Any], Awaitable[None]] = self._client.publish
        if any(beside):
            publish_nowait = partial(publish_nowait, **beside._asdict())
            publish = partial(publish, **beside._asdict())
        schedule = self._schedule
        for topic, value, pause_s in self._replay.messages(lines):
            if schedule is not None:
                wait_s = schedule.wait_s(pause_s, self._now())
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
            try:
                publish_nowait(topic, value)
            except BusyError:
                await publish(topic, value)
            except (InvalidTopicError, InvalidValueError) as error:
                self._replay.reject(str(error))
                continue
            except RejectedError as error:
                if error.code != CloseCode.TOO_BIG:  # not this message, but the hub has refused us
                    raise
                self._replay.reject(error.text)
                continue
            self.sent_messages += 1
            if self.sent_messages == self._limit_messages:
                return
