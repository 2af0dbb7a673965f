"""`Copying`: keeps a `hub.stores.replica.Replica` equal to its master, over a client that may lose its connection.

```
stream of changes ─▶ Replica.hear ─▶ what was applied ─▶ on_changes
requests ──────────▶ pages, missed changes, the state once a second ─▶
```

It subscribes first and takes a snapshot then, so that nothing falls in between. What the replica misses is asked for
at once; once a second the master is asked how far it is, so that a loss is found behind which nothing came, and so that
the replica knows how old it is.

Owner: a watch or a replica of a client. Invariants: `on_changes` gets each change once, in order. Bounds: those of the
replica; while whoever it belongs to has no room, nothing is read, and the client's own limits hold.

Not here: what is missing (`hub.stores.replica`), what programs see (`watch`, `replica`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hub.errors import ClosedError, HubError, RequestOverflowError
from hub.stores.command import Change, ChangeKind
from hub.stores.replica import Needs, Replica
from hub.stores.snapshot import text_begins
from peers.client.stream import MessageStream
from peers.stores.wire import heard

__all__ = ["CHECK_S", "Copying"]

CHECK_S = 1.0
"""How often the master is asked how far it is, seconds."""

_RETRY_S = 0.2
"""How long after a failure the master is asked again, seconds; twice as long after each further one."""

_RETRY_MAX_S = 5.0

_FIRST_S = 300.0
"""How long the first state may take, seconds, where many want one at the same time."""

_PAGES_AHEAD = 4
"""How many pages of a snapshot, a quarter of a MiB each, are asked for while the one before is taken in: so hub and
client work side by side."""


class Copying:
    """One copy in the making.

    Args:
        read: Asks the master something, and returns the answer.
        stream: Of its changes, not open.
        prefix: Only entries whose keys are strings that begin like this are copied; empty: all.
        on_changes: Called with what was applied, in order, and whether only all of it together makes a state that the
            store had: it was read as entries.
        tells_loaded: Whether `on_changes` hears of entries that came with a snapshot.
    """

    def __init__(
        self,
        read: Callable[[list[Any]], Awaitable[Any]],
        stream: MessageStream,
        prefix: str,
        on_changes: Callable[[list[Change], bool], object],
        *,
        tells_loaded: bool,
    ) -> None:
        self._read = read
        self._stream = stream
        self._prefix = prefix
        self._packed_prefix = prefix.encode(errors="surrogateescape")
        self._on_changes = on_changes
        self.replica = Replica(tells_loaded=tells_loaded)
        self._loaded = 0
        self.error: HubError | None = None
        """Why nothing comes any more; None as long as it does."""
        self.room = asyncio.Event()
        """Set while its owner takes changes."""
        self.room.set()
        self._needed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        # Those who wait for the next change, or for the end.
        self._advanced = asyncio.Event()

    async def open(self) -> None:
        """Begin, and wait for the first state.

        Raises:
            HubError: There is none; nothing is left open.
            TimeoutError: There is none within some minutes, likewise.
        """
        await self._stream.open()
        self._start(self._hear())
        try:
            await self._fill_first()
            await self._check()
        except BaseException:
            await self.close()
            raise
        self._start(self._keep())

    async def _fill_first(self) -> None:
        """Get the first state, also where others are before this one."""
        async with asyncio.timeout(_FIRST_S):
            while self.replica.needs is not Needs.NOTHING:
                try:
                    await self._fill()
                except RequestOverflowError:
                    await asyncio.sleep(_RETRY_S)

    async def close(self) -> None:
        """End it."""
        self._end(ClosedError("the store is not copied any more"))
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stream.close()

    async def wait_number(self, number: int) -> None:
        """Wait until the change with this number was applied.

        Raises:
            HubError: It has ended before.
        """
        while self.replica.number < number or not self.replica.is_ready:
            if self.error is not None:
                raise self.error
            self._advanced.clear()
            self._needed.set()
            await self._advanced.wait()

    def _start(self, act: Any) -> None:
        task = asyncio.get_running_loop().create_task(act)
        task.add_done_callback(self._done)
        self._tasks.append(task)

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        self._end(error if isinstance(error, HubError) else ClosedError(f"the store is not copied any more: {error!r}"))

    def _end(self, error: HubError) -> None:
        if self.error is None:
            self.error = error
            self._on_changes([], False)
        self._advanced.set()

    def _apply(self, changes: list[Change]) -> None:
        are_loaded = self.replica.loaded_total != self._loaded
        self._loaded = self.replica.loaded_total
        if changes:
            prefix = self._packed_prefix
            if prefix:
                changes = [each for each in changes if each.kind == ChangeKind.CLEAR or text_begins(each.key, prefix)]
            self._on_changes(changes, are_loaded)
        self._advanced.set()

    # What the master tells.

    async def _hear(self) -> None:
        """Read the stream until it ends."""
        while True:
            await self.room.wait()
            messages = await self._stream.batch()
            if not messages:
                raise ClosedError("the client is closed")
            for message in messages:
                epoch, rows = message.value
                self._apply(self.replica.hear(epoch, self._wanted(rows)))
            if self.replica.needs is not Needs.NOTHING:
                self._needed.set()

    def _wanted(self, rows: Sequence[Any]) -> list[Change]:
        """Return changes, those of entries that are not copied as ones that do nothing."""
        changes = heard(rows, time.time_ns())
        if not self._packed_prefix:
            return changes
        return [
            change
            if change.kind == ChangeKind.CLEAR or text_begins(change.key, self._packed_prefix)
            else change._replace(kind=int(ChangeKind.ERASE), value=None)
            for change in changes
        ]

    # What the master is asked.

    async def _keep(self) -> None:
        """Ask for what is missing, whenever something is, and how far the master is, from time to time."""
        wait_s = CHECK_S
        failures = 0
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await self._needed.wait()
            except TimeoutError:
                pass
            self._needed.clear()
            await self.room.wait()
            try:
                if self.replica.needs is Needs.NOTHING:
                    await self._check()
                while self.replica.needs is not Needs.NOTHING:
                    await self._fill()
            except ClosedError:
                raise
            except HubError:
                if self.error is not None:
                    return
                wait_s = min(_RETRY_MAX_S, _RETRY_S * 2**failures)
                failures = min(failures + 1, 10)
            else:
                wait_s, failures = CHECK_S, 0

    async def _check(self) -> None:
        now_ns = time.monotonic_ns()
        epoch, number, _, _ = await self._read(["state"])
        self.replica.heard(epoch, number, now_ns)
        self._advanced.set()

    async def _fill(self) -> None:
        """Ask for what is missing, once."""
        if self.replica.needs is Needs.SNAPSHOT:
            await self._load()
            return
        answer = await self._read(["since", self.replica.number])
        if answer is None:
            self.replica.forgotten()
        else:
            epoch, _, rows = answer
            self._apply(self.replica.hear(epoch, self._wanted(rows)))

    async def _load(self) -> None:
        """Read a snapshot. Where it is lost on the way, the replica goes on needing one."""
        ahead: deque[asyncio.Future[Any]] = deque()
        try:
            epoch, reading, first, number, rows = await self._read(["rows", self._prefix, True])
            self.replica.begin(epoch, first)
            while True:
                while reading and len(ahead) < _PAGES_AHEAD:
                    ahead.append(asyncio.ensure_future(self._read(["more", reading])))
                    ahead[-1].add_done_callback(_looked_at)
                await asyncio.sleep(0)  # until it has run, a task has asked nothing, and the hub would wait meanwhile
                self.replica.take_rows(rows)
                if not reading:
                    break
                _, reading, _, number, rows = await ahead.popleft()
        except HubError:
            self.replica.forgotten()
            raise
        finally:
            for asked in ahead:
                asked.cancel()
        self._apply(self.replica.finish(number))


def _looked_at(asked: asyncio.Future[Any]) -> None:
    """Take note of what a page that nobody waits for has failed with: it was asked for behind the last one."""
    if not asked.cancelled():
        asked.exception()
