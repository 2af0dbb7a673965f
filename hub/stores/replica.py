"""`Replica`: a copy of a store, made of a snapshot and the changes after it.

```
            begin ─▶ take_rows, take_rows, ... ─▶ finish ─▶ is_ready: reads are allowed
hear(changes) ──────────▶ held until they are next ─▶ applied in the order of their numbers
                                   └─ `needs`: CHANGES after `number`, or a SNAPSHOT, if something was missed
```

Changes may come in any order, twice, or not at all: each is applied once, in order. Once `is_ready`, `entries` is the
master's state after change `number`, and `hear` and `finish` return the changes since the state before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from hub.stores.command import Change, ChangeKind

HELD = 65_536  # most changes that wait for an earlier one. More are dropped, and requested again in their turn.


class Needs(Enum):
    """Missing data of a replica."""

    NOTHING = auto()
    CHANGES = auto()  # the changes after its `number`
    SNAPSHOT = auto()


@dataclass(slots=True)
class _Loading:
    """A snapshot that is being read."""

    epoch: int
    number: int  # all changes up to this one are applied: at first those from before the snapshot began
    until: int | None = None  # its pages are one state once this change is applied; None while there are more pages
    entries: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)


class Replica:
    """One copy; `tells_loaded`: report a snapshot as changes, at a cost for each entry."""

    def __init__(self, *, tells_loaded: bool = True) -> None:
        self._tells_loaded = tells_loaded
        self.entries: dict[bytes, tuple[bytes, int]] = {}  # key → value, version, as of `number`. Read-only.
        self.epoch = 0
        self.is_ready = False
        self.loaded_total = 0  # snapshots loaded
        self._number = 0
        self._loading: _Loading | None = None
        self._must_load = True
        # The highest epoch that was heard of; in it, the highest number, when that was heard (0: never), and changes
        # that wait for one before them, by number.
        self._heard_epoch = self._last = self._heard_ns = 0
        self._held: dict[int, Change] = {}
        self._fresh_ns: int | None = None  # the master's state was this one at that time

    @property
    def number(self) -> int:
        """Number of the last applied change, of the snapshot that is being read if there is one."""
        return self._number if self._loading is None else self._loading.number

    @property
    def needs(self) -> Needs:
        """What is missing now; nothing while the pages of a snapshot are read."""
        loading = self._loading
        if loading is not None:
            if loading.until is None:
                return Needs.NOTHING
            return Needs.CHANGES if loading.number < max(loading.until, self._last) else Needs.NOTHING
        if self._must_load:
            return Needs.SNAPSHOT
        return Needs.CHANGES if self._number < self._last else Needs.NOTHING

    def begin(self, epoch: int, number: int) -> None:
        """Begin a snapshot, in place of an unfinished one; `number` is that of the last change before it."""
        self._turn_to(epoch)
        self._loading = None
        self._must_load = epoch < self._heard_epoch  # it is of a life that is over
        if not self._must_load:
            self._loading = _Loading(epoch, number)
            self._held = {each: change for each, change in self._held.items() if each > number}

    def take_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add a page: rows of canonical key, value, version, and perhaps more."""
        if self._loading is not None:
            self._loading.entries.update({row[0]: (row[1], row[2]) for row in rows})

    def finish(self, number: int) -> list[Change]:
        """End a snapshot; `number` is the master's last change at its last page. Returns changes as `hear`."""
        if self._loading is None:
            return []
        self._loading.until = number
        return self._go_on()

    def forgotten(self) -> None:
        """The master does not have the missing changes any more, or has ended the snapshot."""
        self._loading = None
        self._must_load = True

    def hear(self, epoch: int, changes: Iterable[Change]) -> list[Change]:
        """Take changes, in any order.

        Returns the applied changes in order, with the old values of this replica. If they complete a snapshot: the
        differences to the state before, as changes.
        """
        self._turn_to(epoch)
        if epoch < self._heard_epoch:
            return []  # it is late
        number, held = self.number, self._held
        if epoch != self._copied_epoch:
            number = 0
        for change in changes:
            if change.number > number:
                self._last = max(self._last, change.number)
                if change.number - number <= HELD or (self._must_load and len(held) < HELD):
                    held[change.number] = change
        return self._go_on()

    def heard(self, epoch: int, number: int, now_ns: int) -> None:
        """The master's last change had this number, at a time not before `now_ns`."""
        self._turn_to(epoch)
        if epoch == self._heard_epoch and number >= self._last:
            self._last = number
            self._heard_ns = now_ns
            self._refresh()

    def age_ns(self, now_ns: int) -> int | None:
        """Return the least age of this state of the master; None if unknown."""
        return None if self._fresh_ns is None else max(0, now_ns - self._fresh_ns)

    def _turn_to(self, epoch: int) -> None:
        if epoch > self._heard_epoch:
            self._heard_epoch = epoch
            self._last = self._heard_ns = 0
            self._held = {}
            self.forgotten()

    @property
    def _copied_epoch(self) -> int:
        return self.epoch if self._loading is None else self._loading.epoch

    def _refresh(self) -> None:
        if self.needs is Needs.NOTHING and self._loading is None and self._heard_ns:
            self._fresh_ns = self._heard_ns

    def _go_on(self) -> list[Change]:
        loading = self._loading
        if loading is None:
            if self._must_load:
                return []
            applied, self._number = self._apply(self.entries, self._number)
            self._refresh()
            return applied
        if loading.until is None:
            return []
        _, loading.number = self._apply(loading.entries, loading.number)
        if loading.number < loading.until:
            return []
        before, self.entries = self.entries, loading.entries
        self.epoch, self._number = loading.epoch, loading.number
        self.is_ready, self._loading = True, None
        self.loaded_total += 1
        self._last = max(self._last, self._number)
        self._refresh()
        return _differences(before, self.entries, self._number) if self._tells_loaded else []

    def _apply(self, entries: dict[bytes, tuple[bytes, int]], number: int) -> tuple[list[Change], int]:
        """Apply consecutive held changes; return them, and the last number."""
        held = self._held
        applied: list[Change] = []
        while (change := held.pop(number + 1, None)) is not None:
            number += 1
            applied.append(_apply(entries, change))
        return applied, number


def _apply(entries: dict[bytes, tuple[bytes, int]], change: Change) -> Change:
    """Apply a change to an older entry (a snapshot may have a newer one); return it with the old value."""
    number, key, value = change.number, change.key, change.value
    if change.kind == ChangeKind.CLEAR:
        for each in [each for each, (_, version) in entries.items() if version < number]:
            del entries[each]
        return change
    entry = entries.get(key)
    if entry is None:
        if value is not None:
            entries[key] = (value, number)
        return change
    if entry[1] < number:
        if value is None:
            del entries[key]
        else:
            entries[key] = (value, number)
    return change._replace(old=entry[0])


def _differences(
    before: dict[bytes, tuple[bytes, int]], behind: dict[bytes, tuple[bytes, int]], number: int
) -> list[Change]:
    """Return the differences of two states as changes: puts have the versions of their entries, erases come last."""
    gone = [
        Change(number, int(ChangeKind.ERASE), key, None, entry[0], None, None)
        for key, entry in before.items()
        if key not in behind
    ]
    new = [
        Change(entry[1], int(ChangeKind.PUT), key, entry[0], old[0] if (old := before.get(key)) else None, None, None)
        for key, entry in behind.items()
        if before.get(key) != entry
    ]
    return sorted(new) + gone
