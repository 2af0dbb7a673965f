"""`Names`: how service names are claimed, change owners and are given up.

```
client: claim, release ─▶ Claimants ─▶ owner changes ─▶ $hub/names/appeared, gone; on_owner; old and new owner
other hubs: hear, forget ─┘      └─▶ held changes  ─▶ the mesh
```

A name has one owner: the earliest claim of those that clients of this hub and of other hubs hold. The mesh gets the
claims of clients of this hub, and the owner is the same on all hubs of a mesh, once they have exchanged theirs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec
from sortedcontainers import SortedDict

from hub.errors import CloseCode, ClosedError, InvalidNameError, RejectedError
from hub.handlers.delivery import RemoteHub
from hub.handlers.handler import Handler
from hub.limits import NameLimits
from hub.names.claim import Announced, Change, Claim, Owner, Standing, Tell, Wish, check_labels, check_name, untold
from hub.policy.policy import Action, check_granted
from hub.quotas import Resource
from hub.scheduling.memory import Account, Memory

_STEPS_PER_NAME = 2  # Taking a name out takes as long as two prefixes, about 20 µs, as peer hubs and subscribers get it

# Called with a name and its announcement, None if it is held no longer
OnNames = Callable[[str, Announced | None], object]
Announce = Callable[[Literal["appeared", "gone"], Claim], object]


@dataclass(slots=True)
class NamesStatistics:
    """Names at one moment. Totals count from the start of the hub."""

    names: int = 0
    far: int = 0  # Names announced by peer hubs, each as often as there are hubs that announce it
    waiting: int = 0  # Claims that wait for a name with another owner
    appeared_total: int = 0
    refused_total: int = 0  # Claims of clients that were refused
    lost_total: int = 0  # Owners here that lost their name to an earlier claim at a peer hub
    ignored_total: int = 0  # Names announced by peers that were invalid, or too many


class Names:
    """The names of one hub, with their owners and the clients that wait."""

    def __init__(  # noqa: PLR0913 -- all that it works with
        self,
        hub: bytes,
        register: Register,
        limits: NameLimits,
        memory: Memory,
        *,
        announce: Announce,
        on_owner: Callable[[str], object],
    ) -> None:
        self.register = register
        self.limits = limits
        self._hub = hub
        self._on_owner = on_owner
        self._announce = announce
        self._memory = memory
        # Handler → names: those that a client owns or waits for, and those that another hub announces.
        self._names: dict[Owner, dict[str, None]] = {}
        self._on_names: OnNames = _unheard  # Announces to the mesh
        self._counters = NamesStatistics()  # All names are counted in the register

    # Clients.

    def claim(self, handler: Handler, wish: Wish, now_us: int, tell: Tell = untold) -> Standing:
        """Claim a name. A client that has claimed it already changes labels and `queue` of that claim.

        Args:
            handler: Handler of the client.
            wish: The name that it asks for, and how.
            now_us: The time, µs since 1970.
            tell: Called later, when the claim stands otherwise than this returns: OWNED or QUEUED.

        Raises:
            InvalidNameError: The name, or a label, is invalid.
            RejectedError: It has another owner, it is not granted, or there are too many.
            ClosedError: The handler has left.
        """
        if handler.closed:
            raise ClosedError("the handler is not attached to this hub")
        try:
            name, labels = check_name(wish.name), check_labels(wish.labels)
            check_granted(handler.rights, Action.CLAIM, name)
            claim = Claim(name, handler, labels, now_us, self._hub, handler.id, wish.queue, tell)
            return self._claim(handler, claim)
        except (InvalidNameError, RejectedError):
            self._counters.refused_total += 1
            raise

    def _claim(self, handler: Handler, claim: Claim) -> Standing:
        name = claim.name
        self._take_out_left(name)
        contest = self.register.get(name)
        if contest is None or contest.owner is None:
            self._check_room(handler, name, None)
            contest = self.register.open(name)
            self._remember_name(handler, name)
        elif contest.held is None or contest.held.handler is not handler:
            return self._wait(handler, contest, contest.owner, claim)
        else:
            claim = claim._replace(time_us=contest.held.time_us)
        contest.held = claim
        self._settle(name, contest)
        return Standing.OWNED

    def _wait(self, handler: Handler, contest: Claimants, owner: Claim, claim: Claim) -> Standing:
        name, earlier = claim.name, contest.waiting.get(handler)
        if not claim.queue:
            if earlier is not None:
                self.release(handler, name)
            raise RejectedError(CloseCode.NOT_ALLOWED, f"name {name} is owned by {owner}")
        if earlier is None:
            self._check_room(handler, name, contest)
            self._remember_name(handler, name)
            self._counters.waiting += 1
            time_us = max(claim.time_us, owner.time_us + 1)  # a clock that is slow must not come before the owner
        else:
            time_us = earlier.time_us
        contest.waiting[handler] = claim._replace(time_us=time_us)
        return Standing.QUEUED

    def _check_room(self, handler: Handler, name: str, contest: Claimants | None) -> None:
        if self._memory.is_over:
            raise self._memory.rejection()
        per_client, queue, total, _ = self.limits
        if len(self._names.get(handler, ())) >= per_client:
            text = f"name {name}: this client has claimed {per_client} names, which is the limit"
            raise RejectedError(CloseCode.NOT_ALLOWED, text)
        if contest is None and len(self.register) >= total:
            text = f"name {name}: {total} names are claimed, which is the limit of this hub"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
        if contest is not None and len(contest.waiting) >= queue:
            text = f"name {name}: {queue} clients wait for it, which is the limit; it is owned by {contest.owner}"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
        if handler.share is not None:
            handler.share[Resource.NAMES].check(1)

    def release(self, handler: Handler, name: str) -> None:
        """Give a name up, or wait for it no longer.

        Raises:
            RejectedError: The client has not claimed it.
        """
        names = self._names.get(handler)
        if names is None or name not in names:
            owner = self.register.claim_of(name)
            by = f"it is owned by {owner}" if owner is not None else "it has no owner"
            raise RejectedError(CloseCode.NOT_ALLOWED, f"name {name} is not claimed by this client; {by}")
        self._forget_name(handler, name)
        self._take_out(handler, name)

    def of(self, handler: Owner) -> Iterable[str]:
        """Return the names that a client owns or waits for, or that another hub announces."""
        return self._names.get(handler, ())

    def take_away(self, handler: Handler, name: str) -> None:
        """Take a name, or the place in its queue, from a handler that may not claim it any more."""
        if name not in self.of(handler):
            return
        contest = self.register[name]
        held = contest.held
        claim = held if held is not None and held.handler is handler else contest.waiting.get(handler)
        self._forget_name(handler, name)
        self._take_out(handler, name)
        if claim is not None:
            claim.tell(Change(name, Standing.LOST, f"name {name} is no longer granted to you"))

    def forgetting(self, handler: Owner) -> Iterator[None]:
        """Take out the names of a handler that has left, or of a hub that is not reached, in steps.

        The next in their queues own them. A name that is left over has no owner that could be reached, and goes when it
        is claimed.
        """
        while names := self._names.get(handler):
            name = names.popitem()[0]
            self._settle_names(handler, names)
            self._take_out(handler, name)
            yield from repeat(None, _STEPS_PER_NAME)

    def _take_out(self, handler: Owner, name: str) -> None:
        contest = self.register[name]
        if isinstance(handler, Handler) and contest.waiting.pop(handler, None) is not None:
            self._counters.waiting -= 1
            return
        if contest.far.pop(handler, None) is not None:
            self._counters.far -= 1
        else:
            contest.held = None
        self._settle(name, contest)

    def _take_out_left(self, name: str) -> None:
        while (owner := self.register.claim_of(name)) is not None and owner.handler.closed:
            self._forget_name(owner.handler, name)
            self._take_out(owner.handler, name)

    def _remember_name(self, handler: Owner, name: str) -> None:
        names = self._names.setdefault(handler, {})
        if name not in names:
            names[name] = None
            if handler.share is not None:
                handler.share[Resource.NAMES].add(1)

    def _forget_name(self, handler: Owner, name: str) -> None:
        names = self._names[handler]
        del names[name]
        self._settle_names(handler, names)

    def _settle_names(self, handler: Owner, names: dict[str, None]) -> None:
        if not names:
            del self._names[handler]
        if handler.share is not None:
            handler.share[Resource.NAMES].give_back(1)

    # Peer hubs.

    def tell(self, on_names: OnNames) -> None:
        self._on_names = on_names
        for name, contest in self.register.contests():
            if contest.announced is not None:
                on_names(name, contest.announced)

    def hear(self, far: RemoteHub, held: Iterable[Announced], released: Iterable[str]) -> None:
        """Take the announcement of another hub. The valid part of it is accepted.

        Raises:
            RejectedError: Some of it is no name, or there is too much; the text says how much, and why.
        """
        ignored = 0
        cause: RejectedError | None = None
        for announced in held:
            try:
                self._hear(far, announced)
            except InvalidNameError as error:
                ignored, cause = ignored + 1, cause or RejectedError(CloseCode.BAD_DATA, str(error))
            except RejectedError as error:
                ignored, cause = ignored + 1, cause or error
        names = self._names.get(far, {})
        for name in released:
            if name in names:
                self._forget_name(far, name)
                self._take_out(far, name)
        if cause is not None:
            self._counters.ignored_total += ignored
            raise RejectedError(cause.code, f"{ignored} announced names are rejected: {cause.text}")

    def _hear(self, far: RemoteHub, announced: Announced) -> None:
        name = check_name(announced.name)
        labels = check_labels(announced.labels)
        check_granted(far.rights, Action.CLAIM, name)
        contest = self.register.get(name)
        names = self._names.get(far, {})
        if name not in names and len(names) >= self.limits.per_peer:
            text = f"{self.limits.per_peer} names of this peer are known, which is the limit for a peer"
            raise RejectedError(CloseCode.NOT_ALLOWED, text)
        if contest is None:
            if self._memory.is_over:
                raise self._memory.rejection()
            if len(self.register) >= self.limits.total:
                text = f"{self.limits.total} names are known, which is the limit of this hub"
                raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
            contest = self.register.open(name)
        self._counters.far += name not in names
        self._remember_name(far, name)
        contest.far[far] = Claim(name, far, labels, announced.time_us, far.hub, announced.owner)
        self._settle(name, contest)

    # Settling.

    def _settle(self, name: str, contest: Claimants) -> None:
        before, was_announced = contest.owner, contest.announced
        raised, lost, passed_over = contest.settle()
        held = contest.held
        contest.announced = None if held is None else held.announced
        if raised is not None:
            self._counters.waiting -= 1
        for handler in passed_over:
            self._counters.waiting -= 1
            self._forget_name(handler, name)
        if lost is not None:
            self._counters.lost_total += 1
            if lost.queue:
                self._counters.waiting += 1
            else:
                self._forget_name(lost.handler, name)
        owner = contest.owner
        if not contest:
            self.register.close(name)
        if contest.announced != was_announced:
            self._on_names(name, contest.announced)
        self._tell_owner(name, before, owner)
        if raised is not None:
            raised.tell(Change(name, Standing.OWNED))
        if lost is not None:
            standing = Standing.QUEUED if lost.queue else Standing.LOST
            lost.tell(Change(name, standing, f"name {name} is owned by {owner}, which claimed it earlier"))

    def _tell_owner(self, name: str, before: Claim | None, owner: Claim | None) -> None:
        if (before and before.handler) is not (owner and owner.handler):
            self._on_owner(name)
        if owner is not None and owner.is_same_to_others(before):
            return
        if before is not None and (owner is None or (owner.hub, owner.owner) != (before.hub, before.owner)):
            self._announce("gone", before)
        if owner is not None:
            self._counters.appeared_total += 1
            self._announce("appeared", owner)

    def statistics(self) -> NamesStatistics:
        return replace(self._counters, names=len(self.register))


def _unheard(_name: str, _announced: Announced | None) -> None:
    """Stand in for the mesh before the first link."""


# Every claimed name, with the contest for it.


_rank = attrgetter("rank")


class Settled(NamedTuple):
    """Changes for clients of this hub, after a name was settled."""

    raised: Claim | None = None  # A claim that had waited, and is the owner now
    lost: Claim | None = None  # A claim that was the owner until a peer hub announced an earlier one
    passed_over: tuple[Owner, ...] = ()
    """Clients that waited before the one that was raised, but have left: their claims are dropped."""


@dataclass(slots=True, eq=False)
class Claimants:
    """The claims to one name, here and at peer hubs."""

    held: Claim | None = None  # The claim of a client of this hub that is announced to peers
    owner: Claim | None = None  # The earliest claim as of the last `settle`
    announced: Announced | None = None  # The last announcement to peers, until its end was announced
    # In the order of their coming; a plain dict would walk over all that had gone to find the first.
    waiting: OrderedDict[Owner, Claim] = field(default_factory=OrderedDict)
    far: dict[Owner, Claim] = field(default_factory=dict)  # Hub of the mesh, or link → the claim that it announces

    def __bool__(self) -> bool:
        return self.held is not None or bool(self.far) or bool(self.waiting)

    def settle(self) -> Settled:
        first = min(self.far.values(), key=_rank) if self.far else None
        held = self.held
        settled = Settled()
        if held is not None and first is not None and first.rank < held.rank:
            self.held = None
            if held.queue:
                self.waiting[held.handler] = held
                self.waiting.move_to_end(held.handler, last=False)
            settled = Settled(lost=held)
        elif held is None and first is None:  # the first client that waits, and has not left, holds the name
            passed_over: list[Owner] = []
            while self.waiting and self.held is None:
                handler, claim = self.waiting.popitem(last=False)
                if handler.closed:
                    passed_over.append(handler)
                else:
                    self.held = claim
            settled = Settled(raised=self.held, passed_over=tuple(passed_over))
        self.owner = self.held or first
        return settled


LIST_LIMIT = 1_000  # Most names of one answer: 2 ms of work
_NAME_BYTES = 700  # Memory of a name, with its claim and its labels, measured over 50,000 of them
Descriptions = list[dict[str, Any]]


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    prefix: str = ""
    after: str = ""


class Register:
    """The names of one hub."""

    __slots__ = ("_account", "_contests")

    def __init__(self, account: Account) -> None:
        self._account = account
        # Name → the contest for it. A name comes with its first claim (`open`) and goes with its last (`close`).
        self._contests: SortedDict[str, Claimants] = SortedDict()

    def __len__(self) -> int:
        return len(self._contests)

    # Owners.

    def owner(self, name: str) -> Owner | None:
        claim = self.claim_of(name)
        return None if claim is None or claim.handler.closed else claim.handler

    def owner_of(self, raw: bytes) -> Owner | None:
        return self.owner(raw.decode("ascii", "replace"))

    def claim_of(self, name: str) -> Claim | None:
        contest = self.get(name)
        return None if contest is None else contest.owner

    def list(self, prefix: str = "", after: str = "", most: int = LIST_LIMIT) -> Descriptions:
        """List names in their order, as `$hub/names/appeared` announces them.

        Args:
            prefix: Those that begin with it.
            after: Those behind this one: the last of the answer before, to go on.
            most: Fewer say that there are no more.
        """
        found: Descriptions = []
        for name in self._contests.irange(minimum=max(prefix, after), inclusive=(after < prefix, True)):
            if not name.startswith(prefix) or len(found) >= most:
                break
            claim = self._contests[name].owner
            if claim is not None:
                found.append(claim.description)
        return found

    def answer(self, value: Any) -> Descriptions:
        """Answer a request to `$hub/names`.

        Args:
            value: None for all names; a text for those that begin with it; a map with `prefix` and `after` to go on
                behind the last name of an answer. Fewer than a thousand names are the last. Else a `ValueError`.
        """
        if value is None or isinstance(value, str):
            return self.list(value or "")
        try:
            page = msgspec.convert(value, _Page)
        except msgspec.ValidationError as error:
            raise ValueError(f"expected null, a prefix, or a map with `prefix` and `after`: {error}") from error
        return self.list(page.prefix, page.after)

    # Contests; for `hub.names.names`.

    def get(self, name: str) -> Claimants | None:
        contest: Claimants | None = self._contests.get(name)
        return contest

    def __getitem__(self, name: str) -> Claimants:
        contest: Claimants = self._contests[name]
        return contest

    def open(self, name: str) -> Claimants:
        contest: Claimants = self._contests.setdefault(name, Claimants())
        self._account.update(len(self._contests) * _NAME_BYTES)
        return contest

    def close(self, name: str) -> None:
        del self._contests[name]
        if not self._contests:
            self._contests.clear()  # an emptied dictionary keeps its room otherwise
        self._account.update(len(self._contests) * _NAME_BYTES)

    def contests(self) -> Iterable[tuple[str, Claimants]]:
        return dict.items(self._contests)
