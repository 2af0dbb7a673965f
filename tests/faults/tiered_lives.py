"""Lives of hubs on one journal with a tier: load, something goes wrong with the copying, SIGKILL, and the next hub.

```
start ─▶ reads on ─▶ load ─▶ the tier is spoiled ─▶ more load ─▶ SIGKILL of the hub ─▶ the tier is healed ─▶ ...
                             (tests.faults.tiers)
```

The journal keeps so little here that most is read from the tier. Moments are numbers of messages, which a seed decides.
The load after the tier was spoiled is confirmed, and read back: nobody waits for the tier but who reads from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hub.errors import JournalUnavailableError
from hub.journal.block import Block
from peers.journal.history import History
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.files import TierFiles, data_name
from peers.journal.view import View
from tests.faults.hubs import DEADLINE_S, RunningHub, running_hub
from tests.faults.kills import read_on
from tests.faults.ledger import Ledger
from tests.faults.loads import BatchWriter, Moment, publish_confirmed, read_history
from tests.faults.tiers import SpoiledTier
from tests.journal.tier.made import files_of

__all__ = ["STAGES", "TieredLife", "TieredLives"]

STAGES = ("written", "named", "deleted")
"""When it goes wrong: once this life has written a file, named one in the manifest, deleted here what was copied."""

_KEEP = "2MiB"

_MOST_MESSAGES = 30_000
"""Sent before something goes wrong, and again before the hub is killed, about."""

_COPIES = b"peers.journal.tier.copier"

_LOOK_S = 0.02


class TieredLife(NamedTuple):
    trouble: str
    stage: str
    """When that came."""
    records: int
    """Of all lives, as far as they were read."""
    first_here: int
    """The oldest offset that is not in the tier alone."""


class _Moments(Moment):
    def __init__(self, before: Moment, messages: int, suits: Callable[[], bool], act: Callable[[], None]) -> None:
        super().__init__(messages, suits, act)
        self._before = before

    def count(self, messages: int) -> None:
        if self._before.has_come:
            super().count(messages)
        else:
            self._before.count(messages)


class TieredLives:
    """One journal, its tier, and the hubs that are killed on it.

    Args:
        folder: Where the journal stands.
        tier: Its tier.
        random: Decides about the moments.
    """

    def __init__(self, folder: Path, tier: SpoiledTier, random: Random) -> None:
        self.ledger = Ledger()
        self.path = folder / "journal"
        self.tier = tier
        self._writer = BatchWriter(self.ledger, "query")
        self._random = random
        self._lives = 0

    async def live(self, trouble: str, stage: str) -> TieredLife:
        """Start a hub, load it, let something go wrong with the copying, kill the hub.

        Args:
            trouble: What goes wrong, of those of the tier.
            stage: When, of `STAGES`.

        Raises:
            AssertionError: Something that was promised does not hold.
        """
        flags = ("--journal-tier", self.tier.address, "--journal-keep-bytes", _KEEP, "--journal-compression", "none")
        async with running_hub(self.path, *flags, wrap=self.tier.wrap) as hub:
            await read_on(hub, self.ledger, f"{self._lives}.first")
            assert self._writer.recorded >= self._writer.next_batch
            await self._load(hub, trouble, stage)
        self.tier.heal()
        self._lives += 1
        with closing(View(str(self.path))) as view:
            return TieredLife(trouble, stage, self.ledger.position, view.extent.first)

    async def _load(self, hub: RunningHub, trouble: str, stage: str) -> None:
        ledger, life = self.ledger, self._lives
        confirmed, done = len(ledger.confirmed), self._done(stage)

        def goes() -> bool:
            return self._done(stage) > done and _copier_of(hub) is not None

        def suits() -> bool:
            return len(ledger.confirmed) > confirmed

        def spoil() -> None:
            nonlocal confirmed
            confirmed = len(ledger.confirmed)  # from here on some more must be, whatever becomes of the tier
            pid = _copier_of(hub)
            assert pid is not None
            self.tier.spoil(trouble, pid)

        before = Moment(self._random.randrange(1_000, _MOST_MESSAGES), goes, spoil)
        moment = _Moments(before, self._random.randrange(1_000, _MOST_MESSAGES), suits, hub.strike)
        work: list[Coroutine[Any, Any, None]] = [
            publish_confirmed(hub, ledger, f"{life}.one", moment, together=1),
            publish_confirmed(hub, ledger, f"{life}.many", moment, together=64),
            self._writer.write(hub, moment),
            read_history(hub, self._random.randrange(ledger.position + 1)),
        ]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await moment.wait()
        finally:
            hub.strike()
            await asyncio.gather(*tasks)

    def _done(self, stage: str) -> str:
        """Return what grows when copying gets so far: the newest of these files, or the oldest segment here."""
        if stage == "deleted":
            return min(path.name for path in self.path.glob("*.seg"))
        place = self.tier.place
        if stage == "written":
            return max((name for journal in place.folders() for name in place.sizes(f"{journal}/data")), default="")
        held = [TierFiles(place, bytes.fromhex(journal)) for journal in place.folders()]
        for one in held:
            one.refresh()
        return max((f"{one.next:020}" for one in held if one.next is not None), default="")

    async def end(self) -> None:
        """Copy the rest, and read everything, here and there, with the eyes of one who was not there.

        Raises:
            AssertionError: Something that was promised does not hold.
        """
        await self._copy_rest()
        self._read(self.ledger)
        self.ledger.check_confirmed()
        assert self._writer.recorded >= self._writer.next_batch
        again = Ledger()
        again.sent = self.ledger.sent
        self._read(again)
        assert again.offsets == self.ledger.offsets
        self._check_tier()

    async def _copy_rest(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                with suppress(JournalUnavailableError):
                    copier = Copier(str(self.path), self.tier.place, TierRetention(0, 0))
                    break
                await asyncio.sleep(_LOOK_S)
        with closing(copier):
            while copier.step(0):
                pass

    def _read(self, ledger: Ledger) -> None:
        with closing(History(str(self.path), self.tier.place.address)) as history:
            extent = history.fetch(0, None, ("",), 0).extent
            assert extent.first == 0
            while ledger.position < extent.next:
                found = history.fetch(ledger.position, None, ("",), 1 << 22)
                for data in found.blocks:
                    ledger.take(Block.parse(data))
                assert ledger.position == found.next

    def _check_tier(self) -> None:
        with closing(View(str(self.path))) as view:
            journal, sealed = view.id, view.firsts[-1]
            assert view.extent.first > 0, "nothing was deleted here"
        place = self.tier.place
        held = files_of(place, journal)
        entries = list(held.entries())
        assert [entry.first for entry in entries] == [0, *(entry.next for entry in entries[:-1])]
        assert entries[-1].next == sealed
        assert not any(entry.holes or held.flaw_of(entry) for entry in entries)
        names = {data_name(journal, entry) for entry in entries}
        assert {f"{journal.hex()}/data/{name}" for name in place.sizes(f"{journal.hex()}/data")} == names
        read = [pq.read_table(pa.BufferReader(place.read(name)), columns=["offset"]) for name in names]
        offsets = pa.concat_tables(read).column("offset").to_numpy()
        assert np.array_equal(np.sort(offsets), np.arange(sealed))


def _copier_of(hub: RunningHub) -> int | None:
    for children in Path(f"/proc/{hub.process.pid}/task").glob("*/children"):
        for pid in children.read_text().split():
            with suppress(OSError):
                if _COPIES in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return int(pid)
    return None
