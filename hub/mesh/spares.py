"""`Spares`: which hubs this one dials beside those that it was told to, so that the mesh does not fall apart.

All hubs that could be dialled stand on a ring, by their ids, which are drawn at random. Each hub sees to it that there
are `degree` ways, with no hub in common, between itself and the next ones on the ring: half of `degree`, rounded up, in
both directions. Where there are fewer, it dials that hub.

```
  b ── c ── d ── a      a row of hubs, and the ring a b c d. With degree 2, d has one way to a, and dials it: now there
  ╰ ─ ─ ─ ─ ─ ─ ╯       is a ring of links, too, any hub or link may fail, and nobody else needs a spare
```

**Why that suffices.** Say that fewer than `degree` hubs fail, and those that are left are in two parts. Going around
the ring, one comes from one part to the other twice at least. To hide that from all hubs near there, half of `degree`
hubs behind one another must have failed at both places, which are more than have. So somewhere hubs of both parts are
near each other on the ring, and had `degree` ways between them, one of which is left. Failed links are no worse.

**No more than needed.** Who comes after it on the ring is dialled after a random while, if that is needed still; who
comes before it, some seconds later, as that is first the other one's business: it may be unable to. A spare between two
hubs that have enough ways without it is let go after a minute or two: what is connected by as many ways stays so, as
whatever separates it now would have had to separate these two.

**Hubs that are lost**, whose addresses were known, may be there, and only the way to them is gone. So the two hubs next
to them on the ring dial the first of them that answers, for an hour; then the two parts are one again.

Where an address has failed, it and its hub are left alone until some time is over, which doubles. Both are: many hubs
may tell of one address, and a hub of many. The next hub on the ring takes the place; a few that have failed are tried
again beside it. So those at whose addresses nobody is cannot keep others from being found.

Owner: the node; `peers.connections.spare_dialler` does what it says. Invariants: of one hub there is at most one
attempt or spare; there are at most `limit` of both together, and there is one attempt at a time. No I/O, no clock.
Cost: nothing where `degree` is 0; else a look costs 1 µs a hub, and where links have changed `has_ways` for a few hubs.

Not here: which addresses are trusted, and with what (`peers.connections.learned`).
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from random import Random
from typing import Final, NamedTuple

from hub.mesh.disjoint import has_ways
from hub.mesh.tree import Links

__all__ = ["REMEMBER_S", "RETRY_CAP_S", "STEADY_S", "Dial", "Spares", "SparesStatistics", "Steps", "View"]

SOON_S: Final = 2.0
"""Within so long after a spare is found to be needed, it is dialled, seconds: spread, so that others see it."""

LATER_S: Final = 6.0
"""So much later it dials a hub that comes before it on the ring, or is lost: that one should have dialled meanwhile."""

LET_GO_S: Final = 60.0
"""After so long, and as long again by chance, a spare is let go that nobody has needed, seconds."""

RETRY_FIRST_S: Final = 2.0
RETRY_CAP_S: Final = 60.0
"""How long whatever has failed is left alone: the first time, and at most, seconds; half of it by chance."""

STEADY_S: Final = 10.0
"""A spare that does not last as long has failed: what is dialled again at once would come and go, seconds."""

REMEMBER_S: Final = 3600.0
"""How long a hub's addresses are remembered after it was reached last, seconds."""

REMEMBERED_LIMIT: Final = 1024
"""Of how many hubs that are lost: half of a large mesh. The oldest are forgotten."""

FAILURES_LIMIT: Final = 4096
"""Of how many addresses and hubs it is remembered that they have failed; the oldest are forgotten."""


RETRIED_LIMIT: Final = 8
"""How many hubs that have failed are tried again in each direction: about one attempt in three seconds, at most."""


class View(NamedTuple):
    """The mesh as this hub knows it now."""

    links: Links
    reached: AbstractSet[bytes]
    """The hubs that can be reached, this one with them."""
    changes: int
    """How often `links` have changed."""
    linked: Callable[[bytes], bool]
    """Whether this hub has a link to another one; it may not be announced yet."""
    addresses: Mapping[bytes, tuple[str, ...]]
    """Of each hub that is known, where it says that it may be dialled."""
    may_dial: Callable[[str], bool]
    """Whether this hub would dial an address."""


class Dial(NamedTuple):
    """A hub that is to be dialled."""

    hub: bytes
    address: str


class Steps(NamedTuple):
    """What is to be done now."""

    dial: Dial | None = None
    let_go: bytes | None = None


class SparesStatistics(NamedTuple):
    """How many spares there are; what ends with `_total` was counted since the start."""

    links: int
    attempts_total: int
    failed_total: int
    let_go_total: int


class _Failure(NamedTuple):
    times: int
    until_s: float


class _Spare:
    """A link that this hub has dialled to keep the mesh together."""

    __slots__ = ("address", "due_s", "is_leaving", "since_s")

    def __init__(self, address: str, since_s: float) -> None:
        self.address = address
        self.since_s = since_s
        # When it is let go; infinite while it is needed.
        self.due_s = math.inf
        # Whether it was told to end.
        self.is_leaving = False


class Spares:
    """The spares of one hub.

    Args:
        hub: Its id.
        degree: By how many ways it is to be connected with all others; 0 for no spares at all.
        chance: What is spread is drawn from it.
    """

    def __init__(self, hub: bytes, degree: int, chance: Random | None = None) -> None:
        self._hub = hub
        self._degree = degree
        self._near = -(-degree // 2)
        self.limit = 2 * self._near + 2
        """Most attempts and spares: one for each near hub, and one for lost ones in each direction."""
        self._chance = chance or Random()  # noqa: S311 -- spread, not secrecy
        # Hub → when it is dialled, if it is needed until then.
        self._wished: dict[bytes, float] = {}
        # Hub → the address at which it is dialled now.
        self._dialling: dict[bytes, str] = {}
        # Hub → the spare to it, from `linked` until `lost`.
        self._spares: dict[bytes, _Spare] = {}
        # Address, or hub → how often it has failed, one after the other, and until when it is left alone.
        self._failures: OrderedDict[str | bytes, _Failure] = OrderedDict()
        # Hub that was known → its addresses, and until when these are remembered; the one reached last is the last.
        self._remembered: OrderedDict[bytes, tuple[tuple[str, ...], float]] = OrderedDict()
        # Hub → whether there are enough ways to it; of the graph after so many changes.
        self._judged: dict[bytes, bool] = {}
        self._judged_at = -1
        self._attempts = self._failed = self._let_go = 0

    # What becomes of the steps.

    def linked(self, dialled: bytes, far: bytes, now_s: float) -> None:
        """An attempt has led to a link.

        Args:
            dialled: The hub that was dialled.
            far: The hub that has answered.
            now_s: The time.
        """
        self._spares[far] = _Spare(self._dialling.pop(dialled), now_s)

    def failed(self, hub: bytes, now_s: float) -> None:
        """An attempt has led to no link."""
        self._failed += 1
        self._fail(hub, self._dialling.pop(hub), now_s)

    def lost(self, far: bytes, now_s: float) -> None:
        """A spare is gone."""
        spare = self._spares.pop(far)
        if spare.is_leaving:
            return
        if now_s - spare.since_s < STEADY_S:
            self._fail(far, spare.address, now_s)
        else:
            self._failures.pop(spare.address, None)
            self._failures.pop(far, None)

    def _fail(self, hub: bytes, address: str, now_s: float) -> None:
        """An attempt was in vain."""
        which: str | bytes
        for which in (address, hub):
            before = self._failures.pop(which, None)
            count = 1 if before is None else before.times + 1
            bound_s = min(RETRY_CAP_S, RETRY_FIRST_S * 2 ** min(count - 1, 30))
            self._failures[which] = _Failure(count, now_s + self._chance.uniform(bound_s / 2, bound_s))
            if len(self._failures) > FAILURES_LIMIT:
                self._failures.popitem(last=False)

    def _is_left_alone(self, which: str | bytes, now_s: float) -> bool:
        failure = self._failures.get(which)
        return failure is not None and failure.until_s > now_s

    # What is to be done.

    def look(self, view: View, now_s: float) -> Steps:
        """Return what is to be done now; to be called about once a second."""
        if not self._degree:
            return Steps()
        if self._judged_at != view.changes:
            self._judged_at = view.changes
            self._judged.clear()
        self._remember(view, now_s)
        wished = self._wishes(view, now_s)
        due = [hub for hub, due_s in wished.items() if due_s <= now_s]
        self._wished = wished
        let_go = self._superfluous(view, now_s)
        if let_go is not None:
            self._let_go += 1
            self._spares[let_go].is_leaving = True
        if not due or self._dialling or len(self._spares) >= self.limit:
            return Steps(None, let_go)
        hub = min(due, key=lambda one: (one in self._failures, wished[one]))
        del wished[hub]
        usable = self._usable(view, hub, now_s)
        address = self._chance.choice([one for one in usable if one not in self._failures] or usable)
        self._dialling[hub] = address
        self._attempts += 1
        return Steps(Dial(hub, address), let_go)

    def _wishes(self, view: View, now_s: float) -> dict[bytes, float]:
        """Return the hubs that are to be dialled, each with the time: as it was, or drawn now."""
        wished: dict[bytes, float] = {}
        ring = sorted(self._remembered)
        here = bisect(ring, self._hub)
        after = ring[here:] + ring[:here]
        for order, wait_s in ((after, 0.0), (after[::-1], LATER_S)):
            for hub in self._near_on(order, view, now_s):
                if hub in self._dialling or view.linked(hub) or hub in wished:
                    continue
                is_lost = hub not in view.reached
                if is_lost or not self._has_ways(view, hub):
                    due_s = now_s + (LATER_S if is_lost else wait_s) + self._chance.uniform(0.0, SOON_S)
                    wished[hub] = self._wished.get(hub, due_s)
        return wished

    def _near_on(self, order: list[bytes], view: View, now_s: float) -> Iterator[bytes]:
        """Yield the next hubs on the ring, in one direction: one that is lost, and those that are to be near.

        Those that have failed and are worth another attempt come in addition.
        """
        near, has_lost, retried = 0, False, 0
        for hub in order:
            if near == self._near:
                return
            if hub == self._hub:
                continue
            is_reached = hub in view.reached
            if not is_reached and (near or has_lost):
                continue
            if hub in self._failures and not view.linked(hub):
                retried += 1
                if retried <= RETRIED_LIMIT and self._counts(view, hub, now_s):
                    yield hub
                continue
            if not self._counts(view, hub, now_s):
                continue
            near += is_reached
            has_lost = has_lost or not is_reached
            yield hub

    def _counts(self, view: View, hub: bytes, now_s: float) -> bool:
        """Return whether a hub is dialled, could be, or would be if there were not a link already."""
        if hub in self._dialling:
            return True
        if view.linked(hub):
            return any(map(view.may_dial, self._remembered[hub][0]))
        return bool(self._usable(view, hub, now_s))

    def _usable(self, view: View, hub: bytes, now_s: float) -> list[str]:
        """Return the addresses of a hub that are worth an attempt."""
        if self._is_left_alone(hub, now_s):
            return []
        addresses, _ = self._remembered[hub]
        return [one for one in addresses if not self._is_left_alone(one, now_s) and view.may_dial(one)]

    def _has_ways(self, view: View, hub: bytes) -> bool:
        judged = self._judged.get(hub)
        if judged is None:
            judged = self._judged[hub] = has_ways(view.links, self._hub, hub, self._degree, but_direct=True)
        return judged

    def _superfluous(self, view: View, now_s: float) -> bytes | None:
        """Return a spare that has not been needed for long."""
        found = None
        for far, spare in self._spares.items():
            if spare.is_leaving:
                continue
            if far not in view.links[self._hub] or not self._has_ways(view, far):
                spare.due_s = math.inf
            elif spare.due_s == math.inf:
                spare.due_s = now_s + LET_GO_S + self._chance.uniform(0.0, LET_GO_S)
            elif spare.due_s <= now_s:
                found = far
        return found

    def _remember(self, view: View, now_s: float) -> None:
        """Keep the addresses of all hubs that are known; of those that are lost, unless another hub has them now."""
        reached = view.reached
        remembered = self._remembered
        there: set[str] = set()
        for hub, addresses in view.addresses.items():
            if hub in reached and hub != self._hub:
                there.update(addresses)
                remembered[hub] = addresses, now_s + REMEMBER_S
                remembered.move_to_end(hub)
        lost = [hub for hub in remembered if hub not in reached]
        surplus = len(lost) - REMEMBERED_LIMIT
        for number, hub in enumerate(lost):
            addresses, until_s = remembered[hub]
            if number < surplus or until_s <= now_s or not there.isdisjoint(addresses):
                del remembered[hub]

    # Looking at it.

    @property
    def hubs(self) -> AbstractSet[bytes]:
        """The hubs to which there are spares."""
        return self._spares.keys()

    def statistics(self) -> SparesStatistics:
        """Return how many spares there are, and what was done so far."""
        return SparesStatistics(len(self._spares), self._attempts, self._failed, self._let_go)
