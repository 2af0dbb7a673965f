"""`FloodQueue`: the changes that are due on one link.

```
hub A: announcements 7, 8, 9 come ─▶ due: base 6, interests touched {/a, /b}, neighbours? no
take() ─▶ Announcement(A, base 6, seq 9, added: those of the touched that A wants now, removed: the others)
```

`FloodQueue` has no texts, only changes that the far side does not have yet. So changes merge while a far side does not
read, and a link never holds more than the mesh has. The far side knows of each hub at least the state at the `base` of
what is due, and its topics of `since`. Topics that are not known here are owed, and sent once they are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hub.mesh.announcement import Announcement, Digest, Interest, Record, Told, Wanted, is_topic

_ANSWERS_AT_ONCE: Final = 8
_ANSWER_EVERY_S: Final = 1.0
"""How often a far side gets an answer: so many times at once, and as often in the long run. Otherwise two small
frames would bring it all that is known, as often as it likes."""

_TOUCHED_LIMIT: Final = 1_000  # With more touched interests than this, and than the hub has, a full copy is less


class Pace:
    """A limit of a rate: `burst` at once, after a quiet time, and one in `every_s` in the long run."""

    __slots__ = ("_burst", "_every_s", "_full_s")

    def __init__(self, burst: int, every_s: float) -> None:
        self._burst = burst
        self._every_s = every_s
        # When the whole burst is available again; each use delays it.
        self._full_s = 0.0

    def ready_s(self, now_s: float) -> float:
        """Return when it may be used next: now, or later."""
        return max(now_s, self._full_s - (self._burst - 1) * self._every_s)

    def use(self, now_s: float) -> None:
        self._full_s = max(self._full_s, now_s) + self._every_s


class _Due:
    """The changes of one hub that are to be sent."""

    __slots__ = ("base", "neighbours", "since", "touched")

    def __init__(self, base: int, since: int) -> None:
        # The number up to which the far side knows the hub, and that up to which it knows its topics, which is not
        # above the other; 0: a full copy is due.
        self.base, self.since = base, since
        # Whether its neighbours have changed.
        self.neighbours = False
        # The interests that have come or gone since.
        self.touched: dict[Interest, None] = {}

    def keep(self, seq: int) -> None:
        """The far side knows the hub up to this number, but for its topics."""
        self.base, self.neighbours = seq, False
        self.touched = dict.fromkeys(filter(is_topic, self.touched)) if self.since else {}


class FloodQueue:
    """One link, whose far side is sent `digest` first."""

    __slots__ = ("_asked_hubs", "_compared", "_due", "_owed", "_wanted", "answers", "digest", "is_told")

    def __init__(self, digest: Digest) -> None:
        # The known hubs, if they are still to be sent: the far side answers with newer announcements.
        self.digest: Digest | None = digest
        # False until the digest of the far side has come: before, it is unknown which announcements it needs.
        self.is_told = False
        # Hub → the changes to be sent, in the order in which they came.
        self._due: dict[bytes, _Due] = {}
        # The same of hubs whose topics are not known here; they are sent once they are known.
        self._owed: dict[bytes, _Due] = {}
        # Hubs of which a full copy is to be asked for.
        self._wanted: dict[bytes, None] = {}
        # Requested by the far side since the last `answer`: hubs, and all announcements beyond its last digest.
        self._asked_hubs: dict[bytes, None] = {}
        self._compared: Digest | None = None
        self.answers = Pace(_ANSWERS_AT_ONCE, _ANSWER_EVERY_S)

    def __bool__(self) -> bool:
        return bool(self.digest is not None or self._due or self._wanted)

    def copy(self, hub: bytes) -> None:
        self._owed.pop(hub, None)
        self._due[hub] = _Due(0, 0)

    def change(self, record: Record, bases: tuple[int, int], touched: Iterable[Interest], *, neighbours: bool) -> None:
        """Note a change of a hub.

        Args:
            record: Of the hub.
            bases: The number up to which the far side knows the hub, and that for its topics; 0: it needs a full copy.
            touched: The interests that have come or gone.
            neighbours: Whether its links may have changed.
        """
        if not self.is_told:
            return  # the digest of the far side will be compared with the records of then
        hub, (base, since) = record.hub, bases
        due = self._due.get(hub)
        if due is None:
            due = self._owed.pop(hub, None) or _Due(base, since)
            # The far side cannot use topics that are not known up to now.
            where = self._due if record.is_whole or base < record.seq else self._owed
            where[hub] = due
        due.neighbours = due.neighbours or neighbours
        due.base, due.since = base and due.base, since and due.since
        if not due.base:
            return
        due.touched.update(dict.fromkeys(touched))
        if not due.since:
            due.touched = {one: None for one in due.touched if not is_topic(one)}
        if len(due.touched) > max(_TOUCHED_LIMIT, len(record.wants)):
            if hub in self._due:
                self.copy(hub)
            else:
                due.since = 0
                due.touched.clear()

    # Requests of the far side.

    def ask_copy(self, hub: bytes) -> None:
        self._asked_hubs[hub] = None

    def ask_newer(self, digest: Digest) -> None:
        self.is_told = True
        self._compared = digest

    def answer(self, records: dict[bytes, Record]) -> None:
        """Queue the copies that the far side has asked for.

        Lost hubs are left out where the far side does not know them: hubs that have forgotten one would hear of it from
        those that have not yet, and it would go around among them for ever.
        """
        for hub in self._asked_hubs:
            if hub in records:
                self.copy(hub)
        self._asked_hubs.clear()
        if self._compared is not None:
            known = dict(self._compared.known)
            self._compared = None
            for hub, record in records.items():
                seq = known.get(hub, 0)
                if record.seq > seq and (seq or not record.is_lost):
                    self.copy(hub)

    def heard(self, announcement: Announcement, record: Record) -> None:
        """The far side has announced a hub itself, with this record here."""
        hub = announcement.hub
        if announcement.seq < record.seq or record.is_whole > announcement.is_whole:
            return
        due = self._due.pop(hub, None)
        if announcement.is_whole:
            self._owed.pop(hub, None)
        elif due is not None:
            due.keep(record.seq)
            self._owed[hub] = due

    @property
    def wanted(self) -> int:
        return len(self._wanted)

    def want(self, hub: bytes) -> None:
        self._wanted[hub] = None

    def forget(self, hub: bytes) -> None:
        self._due.pop(hub, None)
        self._owed.pop(hub, None)

    def take(self, records: dict[bytes, Record]) -> list[Told]:
        told: list[Told] = []
        if self.digest is not None:
            told.append(self.digest)
            self.digest = None
        told.extend(Wanted(hub) for hub in self._wanted)
        self._wanted.clear()
        for hub, due in self._due.items():
            record = records[hub]
            told.append(_announcement(record, due))
            if not record.is_whole:
                due.keep(record.seq)
                self._owed[hub] = due
        self._due.clear()
        return told


def _announcement(record: Record, due: _Due) -> Announcement:
    wants, is_whole = record.wants, record.is_whole
    base = due.since if is_whole else due.base
    touched: Iterable[Interest] = due.touched if base else wants
    if not is_whole:
        touched = [one for one in touched if not is_topic(one)]
    return Announcement(
        record.hub,
        base,
        record.seq,
        "" if base else record.name,
        tuple(record.neighbours.items()) if due.neighbours or not base else None,
        tuple(one for one in touched if one in wants),
        tuple(one for one in touched if one not in wants),
        is_whole=is_whole,
    )
