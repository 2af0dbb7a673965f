"""`Outgoing`: what one link is still to be told of the mesh.

It holds no texts, only what has changed since the far side was told: so changes that a far side does not read merge,
and a link that does not read holds no more than the mesh has.

```
hub A: announcements 7, 8, 9 come ─▶ due: base 6, prefixes touched {/a, /b}, neighbours? no
take() ─▶ Announcement(A, base 6, seq 9, added: those of the touched that A wants now, removed: the others)
```

Owner: `hub.mesh.knowledge`, one for each link. Invariant: the far side knows of each hub at least what stood at the
`base` of what is due, and its topics of `since`: it was told that on this link, or has told it. Topics that are not
known here are owed, and told once they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from hub.mesh.announcement import Announcement, Digest, Interest, Told, Wanted
from hub.mesh.pace import Pace
from hub.mesh.record import Record, is_topic

__all__ = ["Outgoing"]

_ANSWERS_AT_ONCE = 8
_ANSWER_EVERY_S = 1.0
"""How often a far side gets what it asks for: so many times at once, and as often in the long run. Two small frames
that ask would otherwise bring it all that is known, as often as it likes."""

_TOUCHED_LIMIT = 1_000
"""More prefixes than these, and than a hub wants, are not told one by one: a full copy is less."""


class _Due:
    """What of one hub is to be told."""

    __slots__ = ("base", "neighbours", "since", "touched")

    def __init__(self, base: int, since: int) -> None:
        # The announcement up to which the far side knows it, and that up to which it knows its topics, which is not
        # above the other; 0: a full copy is due, whatever else stands here.
        self.base, self.since = base, since
        # Whether its neighbours have changed.
        self.neighbours = False
        # The prefixes and rules that have come or gone since.
        self.touched: dict[Interest, None] = {}

    def keep(self, seq: int) -> None:
        """The far side knows the hub up to this number, but for its topics."""
        self.base, self.neighbours = seq, False
        self.touched = dict.fromkeys(filter(is_topic, self.touched)) if self.since else {}


class Outgoing:
    """One link."""

    __slots__ = ("_asked_hubs", "_compared", "_digest", "_due", "_owed", "_wanted", "answers", "is_told")

    def __init__(self, digest: Digest) -> None:
        self._digest: Digest | None = digest
        # False until the digest of the far side has come: before, nobody knows what it must be told.
        self.is_told = False
        # Hub → what is due, in the order in which it became that.
        self._due: dict[bytes, _Due] = {}
        # The same of hubs whose topics are not known here: what is due once they are.
        self._owed: dict[bytes, _Due] = {}
        # Hubs of which a full copy is to be asked for.
        self._wanted: dict[bytes, None] = {}
        # What the far side has asked for since the last `answer`: hubs, and the last digest that it has told.
        self._asked_hubs: dict[bytes, None] = {}
        self._compared: Digest | None = None
        # How often it is answered.
        self.answers = Pace(_ANSWERS_AT_ONCE, _ANSWER_EVERY_S)

    def __bool__(self) -> bool:
        """Return whether there is something to be told."""
        return bool(self._digest is not None or self._due or self._wanted)

    def copy(self, hub: bytes) -> None:
        """A full copy of what is known of a hub is due."""
        self._owed.pop(hub, None)
        self._due[hub] = _Due(0, 0)

    def change(self, record: Record, bases: tuple[int, int], touched: Iterable[Interest], *, neighbours: bool) -> None:
        """Something has changed at a hub, of which the far side knows what stood at the first of `bases`.

        The second is the number up to which it knows its topics. 0: it needs a full copy.
        """
        if not self.is_told:
            return  # the digest of the far side will be compared with what is known by then
        hub, (base, since) = record.hub, bases
        due = self._due.get(hub)
        if due is None:
            due = self._owed.pop(hub, None) or _Due(base, since)
            # What is said of topics that are not known up to now is nothing that the far side can take.
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

    # What the far side asks for.

    def ask_copy(self, hub: bytes) -> None:
        """The far side wants a full copy of a hub that is known."""
        self._asked_hubs[hub] = None

    def ask_newer(self, digest: Digest) -> None:
        """The far side wants whatever is newer than what it knows."""
        self.is_told = True
        self._compared = digest

    def answer(self, records: dict[bytes, Record]) -> None:
        """Have that told which the far side has asked for.

        Hubs that are lost are left out where the far side does not know them: else those who have forgotten one would
        be told again by those who have not yet, and it would go around among them for ever.
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
        """The far side has told of a hub itself, of which this is known."""
        hub = announcement.hub
        if announcement.seq < record.seq or record.is_whole > announcement.is_whole:
            return
        due = self._due.pop(hub, None)
        if announcement.is_whole:
            self._owed.pop(hub, None)
        elif due is not None:
            due.keep(record.seq)
            self._owed[hub] = due

    def tell_digest(self, digest: Digest) -> None:
        """Tell what is known here; the far side answers with what it knows beyond that."""
        self._digest = digest

    @property
    def wanted(self) -> int:
        """Of how many hubs a full copy is to be asked for."""
        return len(self._wanted)

    def want(self, hub: bytes) -> None:
        """Ask for a full copy of a hub."""
        self._wanted[hub] = None

    def forget(self, hub: bytes) -> None:
        """A hub is forgotten."""
        self._due.pop(hub, None)
        self._owed.pop(hub, None)

    def take(self, records: dict[bytes, Record]) -> list[Told]:
        """Return what is to be told now, and forget it."""
        told: list[Told] = []
        if self._digest is not None:
            told.append(self._digest)
            self._digest = None
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
