"""Limits of one connection: bytes that it holds, the publish rate of its user, and time.

`Connection` owns one of each and acts on their results; none of them knows the connection. A frame of 16 MiB stands
in no queue until its last byte has come, and bytes in a transport stand in none any more: `Holding` charges both.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from hub.handlers.handler import Handler
from hub.quotas import FREE_BYTES, Rate, Usage
from hub.scheduling.memory import Account, Memory
from hub.settings.settings import Limits

LINGER_S = 2.0  # between two checks, seconds; and how long a far side that has everything may take to close
_LEAST_S = 0.001  # waiting for less is not worth a timer


class Holding:
    """Bytes of one connection, charged to an account of the hub's memory and to its user; a little is free."""

    __slots__ = ("_account", "_acted_bytes", "_usage", "begun_bytes", "free_bytes", "refusal", "unwritten_bytes")

    def __init__(self, account: Account) -> None:
        self._account = account
        self._usage: Usage | None = None
        self.free_bytes = FREE_BYTES  # free in each direction; less where the user has very many connections
        self.refusal = ""  # why the user may not hold `begun_bytes`; empty if they may
        self.begun_bytes = 0  # charged for bytes that were read and not acted on
        self._acted_bytes = 0  # `begun_bytes` when all that was read had last been acted on
        self.unwritten_bytes = 0  # charged for bytes in the transport

    def grow(self, size_bytes: int, memory: Memory, *, waits: bool = False) -> str:
        """Charge bytes that were read and not acted on; return why they should not have grown, or nothing.

        Args:
            size_bytes: How many are held.
            memory: The hub's.
            waits: Whether they wait for their turn, so that they are one read at most and may be whole messages: then
                they are refused only where the hub itself has no memory.
        """
        if self.begin(max(size_bytes, self.begun_bytes) if waits else size_bytes):
            if memory.is_due or memory.is_over:  # a connection that was ended just now may have left room enough
                memory.look()
            if memory.is_over:
                return memory.refusal()
        if waits:
            return ""
        has_grown, self._acted_bytes = self.begun_bytes > self._acted_bytes, self.begun_bytes
        if not has_grown or (self._usage is not None and self._usage.room):
            self.refusal = ""
        return self.refusal

    def begin(self, size_bytes: int) -> bool:
        """Charge bytes that were read and not acted on; return whether that is more than before."""
        charged = size_bytes if size_bytes > self.free_bytes else 0
        more = charged - self.begun_bytes
        if more:
            self.begun_bytes = charged
            self._account.charge(more)
            usage = self._usage
            if usage is not None and more < 0:
                usage.give_back(-more)
            elif usage is not None and not usage.take(more):  # it is held, whether the user may hold it or not
                self.refusal = usage.rejection(more).text
                usage.add(more)
        return more > 0

    def leave_unwritten(self, size_bytes: int) -> None:
        charged = size_bytes if size_bytes > self.free_bytes else 0
        more = charged - self.unwritten_bytes
        if more:
            self._account.charge(more)
            self.unwritten_bytes = charged
            if self._usage is not None:
                if more > 0:
                    self._usage.add(more)
                else:
                    self._usage.give_back(-more)

    def charge(self, usage: Usage, free_bytes: int) -> None:
        self._usage = usage
        self.free_bytes = free_bytes
        usage.add(self.begun_bytes + self.unwritten_bytes)

    def give_back(self) -> None:
        self.begin(0)
        self.leave_unwritten(0)
        self._usage = None


class Pacing:
    """How one connection keeps the publish rate of its user, which all of their connections share.

    It is not read while its user is over the rate. Bytes are counted as they are read, messages as they are routed.
    `on_over` is called when the connection may be read again.
    """

    __slots__ = (
        "_changes",
        "_counted_messages",
        "_handler",
        "_has_left",
        "_loop",
        "_on_over",
        "_since_s",
        "_timer",
        "rate",
    )

    def __init__(
        self, rate: Rate, handler: Handler, loop: asyncio.AbstractEventLoop, on_over: Callable[[], object]
    ) -> None:
        self.rate = rate
        self._handler = handler
        self._loop = loop
        self._on_over = on_over
        # How many of the handler's messages were counted, as of these limits: without a rate none are counted.
        self._counted_messages = handler.published_messages
        self._changes = rate.changes
        self._timer: asyncio.TimerHandle | None = None
        self._since_s = 0.0
        self._has_left = False

    def spend(self, size_bytes: int) -> bool:
        """While the rate is limited: count bytes read and messages routed; return whether to wait from now on."""
        rate = self.rate
        published = self._handler.published_messages
        if rate.changes != self._changes:
            self._changes = rate.changes
            self._counted_messages = published
        now_s = self._loop.time()
        wait_s = rate.spend(published - self._counted_messages, 0 if self._has_left else size_bytes, now_s)
        self._counted_messages = published
        if wait_s < _LEAST_S or self._timer is not None or self._has_left:
            return False
        self._since_s = now_s
        self._timer = self._loop.call_later(wait_s, self._look)
        return True

    def _look(self) -> None:
        wait_s = self.rate.wait_s(self._loop.time())
        if wait_s >= _LEAST_S:
            self._timer = self._loop.call_later(wait_s, self._look)
        else:
            self.end()
            self._on_over()

    def leave(self) -> None:
        self.end()
        self._has_left = True

    def end(self) -> None:
        """Wait no longer; does no harm if nothing waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.rate.held_back(self._loop.time() - self._since_s)


class Lingering:
    """How long a far side may take to read this side's last word.

    It gets `LINGER_S` once it has read all of it, up to `limits.linger_s` while it reads, and `limits.linger_unread_s`
    if it does not read.
    """

    __slots__ = ("_limit_s", "_read_s", "_unread_bytes", "_unread_s")

    def __init__(self, now_s: float, unread_bytes: int, limits: Limits) -> None:
        self._limit_s = now_s + limits.linger_s
        self._unread_s = limits.linger_unread_s
        self._read_s = now_s
        self._unread_bytes = unread_bytes

    def check(self, now_s: float, unread_bytes: int) -> float:
        """Return when to check again; infinity if the connection is to be closed now."""
        if unread_bytes < self._unread_bytes:
            self._read_s = now_s
            self._unread_bytes = unread_bytes
        if not unread_bytes or now_s >= min(self._limit_s, self._read_s + self._unread_s):
            return math.inf
        return now_s + LINGER_S


class Progress:
    """Whether the frame that a far side is sending grows.

    Each byte is a sign of life, so a far side that sends a frame very slowly is never silent. It is cut when, for
    `limits.frame_s`, no frame was completed and the one begun grew by less than `limits.frame_bytes_per_s`. A message
    may come in several frames, with others between them (WebSocket): then the whole message must grow.
    """

    __slots__ = ("_at_first_bytes", "_since_s", "_unfinished")

    def __init__(self) -> None:
        self._since_s = math.inf
        self._at_first_bytes = 0
        self._unfinished = 0

    def forget(self) -> None:
        self._since_s = math.inf

    def go_on(self, unfinished: int) -> None:
        """A frame was completed: start again, unless the next one belongs to the same message."""
        if not unfinished or unfinished != self._unfinished:
            self.forget()

    def is_stuck(self, now_s: float, held_bytes: int, limits: Limits, unfinished: int = 0) -> bool:
        """Check the bytes held of an incomplete frame, or of the message with the number `unfinished`."""
        if not held_bytes:
            self.forget()
        elif self._since_s == math.inf:
            self._since_s, self._at_first_bytes, self._unfinished = now_s, held_bytes, unfinished
        else:
            for_s = now_s - self._since_s
            return for_s >= limits.frame_s and held_bytes - self._at_first_bytes < limits.frame_bytes_per_s * for_s
        return False
