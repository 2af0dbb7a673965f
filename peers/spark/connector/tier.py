"""`Tier`: what a query reads straight from the files of a journal's tier, so that the hub need not send it.

```
start ─── file ─── file ───┬─── gap ───┬─── file ───┬── behind the last file ─── end
        FileShare ...        OffsetRange  FileShare       OffsetRange ...
                             from the hub                 from the hub
```

The manifest says which files a range of offsets needs, and which of them cannot hold a topic or a time that is wanted;
those are left out. Where files are fewer than the tasks that could run, they are cut between their stripes.

Owner of the state: the driver's process, which keeps manifests between plans: a stream makes one for each micro-batch.
They are looked at again where a range begins behind what they name, once in `LOOK_EVERY_S` at most: what is not in them
yet comes from the hub.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import msgspec
from pyspark.sql.datasource import InputPartition

from hub.journal.manifest import Entry
from hub.journal.wanted import Wanted
from peers.journal.tier.files import TierFiles, data_name
from peers.journal.tier.parquet import Opened
from peers.journal.tier.place import place_at
from peers.spark.connector.ranges import split

LOOK_EVERY_S = 10.0
"""How often the manifest is looked at again by a stream that has read all of it, seconds."""

_OPENED_LIMIT = 256
"""Files whose stripes are remembered."""


class Sought(NamedTuple):
    """What a query reads of a journal."""

    start: int
    end: int
    """The offset behind the last."""
    journal: str
    """Its id, as hexadecimal digits."""
    topics: tuple[str, ...]
    """Prefixes."""
    epoch: int = 0
    """Of the journal, in which this is planned."""


@dataclass(frozen=True)
class FileShare(InputPartition):
    """The share of one task: a file, or some stripes of one."""

    start: int
    end: int
    """The offset behind the last."""
    journal: str
    tier: str
    """Its address."""
    entry: Entry
    """What the manifest says of the file, but for its topics."""


def plan(sought: Sought, tier: str, partitions: int) -> list[InputPartition]:
    """Return the shares of the tasks.

    Args:
        sought: What is to be read.
        tier: Address of the tier; empty if there is none.
        partitions: How many shares are wanted.

    Raises:
        UsageError: The address cannot be one.
        JournalCorruptError: The manifest is damaged.
        TierUnavailableError: It cannot be read now.
    """
    if not tier or sought.start >= sought.end:
        return list(split(sought.start, sought.end, partitions, sought.journal, sought.epoch))
    held = _manifests.looked_at(tier, sought)
    wanted = Wanted(sought.topics)
    files: list[FileShare] = []
    gaps: list[tuple[int, int]] = []
    at = sought.start
    for entry in held.entries(at):
        if entry.first >= sought.end:
            break
        if entry.first > at:
            gaps.append((at, entry.first))
        begin, at = max(at, entry.first), min(entry.next, sought.end)
        if entry.may_hold(wanted):
            known = msgspec.structs.replace(entry, topics=())
            files.append(FileShare(begin, at, sought.journal, tier, known))
    if at < sought.end:
        gaps.append((at, sought.end))
    found: list[InputPartition] = list(_cut(files, held, partitions))
    for begin, end in gaps:
        found += split(begin, end, max(1, partitions - len(files)), sought.journal, sought.epoch)
    return found


def _cut(files: Sequence[FileShare], held: TierFiles, partitions: int) -> Iterator[FileShare]:
    """Yield the shares, cut between stripes if they are fewer than wanted."""
    wanted = -(-partitions // len(files)) if files else 1
    for share in files:
        if wanted == 1:
            yield share
            continue
        edges = [edge for edge in _stripes.edges(held, share.entry) if share.start < edge < share.end]
        step = max(1, -(-(len(edges) + 1) // wanted))
        cuts = [share.start, *edges[step - 1 :: step], share.end]
        for begin, end in pairwise(cuts):
            yield FileShare(begin, end, share.journal, share.tier, share.entry)


class _Manifests:
    """The manifests that this process knows, each with the time at which it was looked at."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[TierFiles, float]] = {}

    def looked_at(self, tier: str, sought: Sought) -> TierFiles:
        """Return the manifest of a journal, as new as it need be."""
        key = (tier, sought.journal)
        now_s = time.monotonic()
        held, looked_s = self._known.get(key) or (
            TierFiles(place_at(tier), bytes.fromhex(sought.journal)),
            -LOOK_EVERY_S,
        )
        covers = held.next is not None and sought.end <= held.next
        if not covers and now_s - looked_s >= LOOK_EVERY_S:
            held.refresh()
            self._known[key] = held, now_s
        return held

    def forget(self) -> None:
        """Look at all of them again."""
        self._known.clear()


class _Stripes:
    """Where the stripes of files end, for files are never changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], list[int]] = {}

    def edges(self, held: TierFiles, entry: Entry) -> list[int]:
        """Return the offsets behind each stripe of a file.

        Raises:
            JournalCorruptError: The file is damaged.
            TierUnavailableError: It cannot be read now.
        """
        key = (held.place.address, held.journal.hex(), entry.name)
        edges = self._known.get(key)
        if edges is None:
            with held.place.open(data_name(held.journal, entry)) as file:
                edges = [stripe.next for stripe in Opened(file, entry, held.journal).stripes]
            if len(self._known) >= _OPENED_LIMIT:
                self._known.pop(next(iter(self._known)))
            self._known[key] = edges
        return edges


_manifests = _Manifests()
_stripes = _Stripes()
