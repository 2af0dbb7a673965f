"""Lives of hubs on one journal: load, SIGKILL at a moment that a seed decides, a look at what is left.

```
start ─▶ goes on where the file ends ─▶ load ─▶ SIGKILL ─▶ read what is left: by the file, or by the next hub
  ▲                                                              │
  └──────────────────────────────────────────────────────────────┘
```
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from peers.journal.store import Retention, Store
from peers.journal.view import View
from tests.faults.hubs import RunningHub, running_hub
from tests.faults.ledger import Ledger, topic_of, value_of
from tests.faults.loads import BatchWriter, Moment, publish_confirmed, publish_plain, read_history

__all__ = ["Life", "Lives", "read_on"]

_MOST_MESSAGES = 60_000
"""Sent in one life, about."""

_ALL = Retention(bytes=1 << 50, age_us=1 << 60)


class Life(NamedTuple):
    """How one life began, and what it left."""

    up_s: float
    """From the start of the process until the hub listens."""
    growing_bytes: int
    """Of the newest segment that the one before it has left: it is read when the journal is opened."""
    records: int
    """In the journal when it was killed."""
    confirmed: int
    """In this life."""
    opened_s: float
    """For the first who opened the file after the kill; 0 if that was the next hub itself."""


async def read_on(hub: RunningHub, ledger: Ledger, name: str) -> None:
    """Read over the wire what was not read yet; then publish a message under a name: it stands behind all of it.

    Raises:
        AssertionError: It does not, or what was promised of the others does not hold.
    """
    async with hub.connect() as client:
        head = (await client.journal()).head
        async for block in client.read(start=ledger.position).blocks(verify=True):
            ledger.take(block)
        assert ledger.position == head
        ledger.check_confirmed()
        ledger.sent[name] = 1
        assert await client.publish_confirmed(topic_of(name, 0), value_of(name, 0)) == head
        ledger.confirmed[name, 0] = head


class Lives:
    """One journal and the hubs that are killed on it.

    Args:
        path: Of the journal.
        sync: `normal` or `full`.
        random: Decides about the moments.
        writes: Whether each kill comes while a batch is being committed.
    """

    def __init__(self, path: Path, sync: str, random: Random, *, writes: bool = False) -> None:
        self.ledger = Ledger()
        self.writer = BatchWriter(self.ledger, "query")
        self._path = path
        self._sync = sync
        self._random = random
        self._writes = writes
        self._lives = 0

    async def live(self) -> Life:
        """Start a hub, load it, kill it, and look at what is left.

        Raises:
            AssertionError: Something that was promised does not hold.
        """
        ledger = self.ledger
        growing_bytes = max(self._path.iterdir()).stat().st_size if self._path.exists() else 0
        async with running_hub(self._path, "--journal-sync", self._sync) as hub:
            await read_on(hub, ledger, f"{self._lives}.first")
            assert self.writer.recorded >= self.writer.next_batch
            before = len(ledger.confirmed)
            await self._load(hub)
        confirmed = len(ledger.confirmed) - before
        opened_s = self._random.choice([self._open_for_reading_s, self._open_for_writing_s, self._leave_s])()
        self._lives += 1
        return Life(hub.up_s, growing_bytes, ledger.position, confirmed, opened_s)

    async def _load(self, hub: RunningHub) -> None:
        """Put load on it and kill it in the middle."""
        ledger, life, writer = self.ledger, self._lives, self.writer
        confirmed = len(ledger.confirmed)

        def suits() -> bool:
            return writer.is_committing if self._writes else len(ledger.confirmed) > confirmed

        moment = Moment(self._random.randrange(1_000, _MOST_MESSAGES), suits, hub.strike)
        work: list[Coroutine[Any, Any, None]] = [
            publish_confirmed(hub, ledger, f"{life}.one", moment, together=1),
            publish_confirmed(hub, ledger, f"{life}.many", moment, together=64),
            publish_plain(hub, ledger, f"{life}.plain", moment),
            publish_plain(hub, ledger, f"{life}.more", moment),
            writer.write(hub, moment),
            read_history(hub, ledger.position),
        ]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await moment.wait()
        finally:
            hub.strike()
            await asyncio.gather(*tasks)

    def _open_for_reading_s(self) -> float:
        """Be the first with a reader."""
        began_s = time.perf_counter()
        with closing(View(str(self._path))) as view:
            assert view.extent.next >= self.ledger.position
            opened_s = time.perf_counter() - began_s
        self._look()
        return opened_s

    def _open_for_writing_s(self) -> float:
        """Be the first as a hub is, and close the file as one that stops in order."""
        began_s = time.perf_counter()
        with closing(Store(str(self._path), full_sync=False, retention=_ALL)) as store:
            opened_s = time.perf_counter() - began_s
            assert store.first == 0
        self._look()
        assert store.next == self.ledger.position
        return opened_s

    @staticmethod
    def _leave_s() -> float:
        """Leave it to the next hub."""
        return 0.0

    def _look(self) -> None:
        self.ledger.read(self._path)
        self._check()

    def _check(self) -> None:
        self.ledger.check_confirmed()
        assert self.writer.recorded >= self.writer.next_batch

    def end(self) -> None:
        """Look at everything once more, from the beginning, with the eyes of one who was not there.

        Raises:
            AssertionError: Something that was promised does not hold.
        """
        self._look()
        again = Ledger()
        again.sent = self.ledger.sent
        again.read(self._path)
        assert again.offsets == self.ledger.offsets
