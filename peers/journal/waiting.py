"""`WaitingFetches`: FETCHes that wait for a commit, and which commit each of them waits for.

```
commit of offsets 40 to 49, topics /a/x and /b ─▶ /a/  ─▶ read from 40        (nothing it wants was before that)
                                                  /c   ─▶ waits on            (costs nothing)
                          its time is up ───────▶ /c   ─▶ read from 50: an empty answer
```

A FETCH with `wait_ms` waits for a record that it wants, so that a hub that records much else asks no reader process on
its behalf. One without waits for what is on its way to the disk; one with an `end` has to know when that is reached:
both go on with the next commit behind their start.

Owner: one `Journal`, in the event loop. Cost: a dictionary hit for each topic of a commit and each length of a prefix.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial

import msgspec

from hub.quotas.usage import Usage
from peers.journal.forms import may_read
from peers.journal.readers import Deliver
from peers.journal.recording import Cancel
from peers.wire.records import Fetch

__all__ = ["WaitingFetches"]


class _Waiting:
    """One FETCH; freed as soon as it is over, as streams make many of them."""

    __slots__ = ("allows", "deliver", "fetch", "timer", "usage")

    def __init__(self, fetch: Fetch, deliver: Deliver, usage: Usage | None) -> None:
        self.fetch = fetch
        self.deliver = deliver
        self.usage = usage
        # Whether a topic may be read by who asks; None: all.
        self.allows = may_read(fetch)
        # The end of waiting; None before and after.
        self.timer: asyncio.TimerHandle | None = None

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes whose records it waits for; none where it waits for any commit."""
        return self.fetch.prefixes if self.fetch.wait_ms and self.fetch.end is None else ()


class WaitingFetches:
    """FETCHes that wait.

    Args:
        read: Has one read now.
        head: Returns the offset behind all that is committed.
    """

    def __init__(self, read: Callable[[Fetch, Deliver, Usage | None], None], head: Callable[[], int]) -> None:
        self._read = read
        self._head = head
        self._loop = asyncio.get_running_loop()
        # All of them, in the order in which they came.
        self._all: dict[_Waiting, None] = {}
        # Those that wait for any commit.
        self._any: dict[_Waiting, None] = {}
        # Those that wait for records, by each of their prefixes.
        self._by_prefix: dict[str, dict[_Waiting, None]] = {}
        # Length of a prefix → how many of these prefixes have it.
        self._lengths: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, fetch: Fetch, deliver: Deliver, usage: Usage | None, wait_s: float) -> Cancel:
        """Have a FETCH read at the commit that it waits for, or after so long; return what cancels that.

        Args:
            fetch: Starts at or behind what is committed.
            deliver: Gets the answer.
            usage: Of the user who asks.
            wait_s: The longest wait, seconds.
        """
        waiting = _Waiting(fetch, deliver, usage)
        waiting.timer = self._loop.call_later(wait_s, lambda: self._wake(waiting, self._head()))
        self._all[waiting] = None
        if not waiting.prefixes:
            self._any[waiting] = None
        for prefix in set(waiting.prefixes):
            if prefix not in self._by_prefix:
                self._by_prefix[prefix] = {}
                self._lengths[len(prefix)] = self._lengths.get(len(prefix), 0) + 1
            self._by_prefix[prefix][waiting] = None
        return partial(self._forget, waiting)

    def committed(self, first: int, head: int, topics: Collection[str] | None) -> None:
        """Wake those whose records are committed now.

        Args:
            first: Offset of the first record of the commit.
            head: The offset behind the last one.
            topics: The topics of the commit. None: nobody knows, as the journal has failed or works again.
        """
        if topics is None:
            for waiting in list(self._all):
                self._wake(waiting, waiting.fetch.start)
            return
        for waiting in [waiting for waiting in self._any if waiting.fetch.start < head]:
            self._wake(waiting, waiting.fetch.start)
        if self._by_prefix:
            for waiting in self._wanting(topics):
                self._wake(waiting, first)

    def _wanting(self, topics: Collection[str]) -> dict[_Waiting, None]:
        due: dict[_Waiting, None] = {}
        for topic in topics:
            for size in self._lengths:
                for waiting in self._by_prefix.get(topic[:size], ()):
                    if waiting not in due and (waiting.allows is None or waiting.allows(topic)):
                        due[waiting] = None
        return due

    def _wake(self, waiting: _Waiting, start: int) -> None:
        """Have one read; before `start` is nothing that it wants."""
        self._forget(waiting)
        fetch = waiting.fetch
        if waiting.prefixes and start > fetch.start:
            fetch = msgspec.structs.replace(fetch, start=start)
        self._read(fetch, waiting.deliver, waiting.usage)

    def _forget(self, waiting: _Waiting) -> bool:
        """Forget one; return whether it was waiting."""
        if self._all.pop(waiting, self) is self:
            return False
        if waiting.timer is not None:
            waiting.timer.cancel()
            waiting.timer = None
        self._any.pop(waiting, None)
        for prefix in set(waiting.prefixes):
            of_prefix = self._by_prefix[prefix]
            del of_prefix[waiting]
            if not of_prefix:
                del self._by_prefix[prefix]
                self._lengths[len(prefix)] -= 1
                if not self._lengths[len(prefix)]:
                    del self._lengths[len(prefix)]
        return True
