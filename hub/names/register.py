"""`Register`: every claimed name, with the contest for it; who owns a name is asked here.

The core hands the register to those that ask (`hub.routes`, `hub.requests`), and to `hub.names.names`, which alone
changes it. Memory is charged for each name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from sortedcontainers import SortedDict

from hub.memory import Account
from hub.names.claim import Announced, Claim, Owner

_rank = attrgetter("rank")


class Settled(NamedTuple):
    """What settling has changed for clients of this hub."""

    raised: Claim | None = None  # A claim that had waited, and is the owner now
    lost: Claim | None = None  # A claim that was the owner until a peer hub told of an earlier one
    passed_over: tuple[Owner, ...] = ()
    """Clients that waited before the one that was raised, but have left: their claims are dropped."""


class Contest:
    """The claims to one name, here and at peer hubs."""

    __slots__ = ("_far", "announced", "held", "owner", "waiting")

    def __init__(self) -> None:
        # The claim of a client of this hub that peers are told of; None where none holds the name.
        self.held: Claim | None = None
        # The earliest claim as of the last `settle`; None where there is none.
        self.owner: Claim | None = None
        # What peers were told last; None where they were told nothing, or that it is over.
        self.announced: Announced | None = None
        # In the order of their coming; a plain dict would walk over all that had gone to find the first.
        self.waiting: OrderedDict[Owner, Claim] = OrderedDict()
        # Hub of the mesh, or link → the claim that it announces; from `put_far` to `drop_far`.
        self._far: dict[Owner, Claim] = {}

    def __bool__(self) -> bool:
        return self.held is not None or bool(self._far) or bool(self.waiting)

    def put_far(self, claim: Claim) -> None:
        """Note that a peer hub has announced a claim, or another one than before."""
        self._far[claim.handler] = claim

    def drop_far(self, link: Owner) -> bool:
        """Note that a peer hub does not hold the name any more; return whether it did."""
        return self._far.pop(link, None) is not None

    def settle(self) -> Settled:
        """Find the owner again, after any change."""
        first = min(self._far.values(), key=_rank) if self._far else None
        held = self.held
        settled = Settled()
        if held is not None and first is not None and first.rank < held.rank:
            self.held = None
            if held.queue:
                self.waiting[held.handler] = held
                self.waiting.move_to_end(held.handler, last=False)
            settled = Settled(lost=held)
        elif held is None and first is None and self.waiting:
            settled = self._raise_next()
        self.owner = self.held or first
        return settled

    def _raise_next(self) -> Settled:
        """Let the first of those who wait, and have not left, hold the name."""
        passed_over: list[Owner] = []
        while self.waiting:
            handler, claim = self.waiting.popitem(last=False)
            if not handler.closed:
                self.held = claim
                break
            passed_over.append(handler)
        return Settled(raised=self.held, passed_over=tuple(passed_over))


LIST_LIMIT = 1_000  # Most names of one answer: 2 ms of work

_NAME_BYTES = 700  # What a name takes, with its claim and its labels, measured over 50,000 of them

Descriptions = list[dict[str, Any]]


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    prefix: str = ""
    after: str = ""


class Register:
    """The names of one hub.

    Args:
        account: It is charged for them.
    """

    __slots__ = ("_account", "_contests")

    def __init__(self, account: Account) -> None:
        self._account = account
        # Name → the contest for it. A name comes with its first claim (`open`) and goes with its last (`close`).
        self._contests: SortedDict[str, Contest] = SortedDict()

    def __len__(self) -> int:
        return len(self._contests)

    # Who owns what.

    def owner(self, name: str) -> Owner | None:
        """Return the owner of a name: a client, its hub, or the link to a hub without a mesh; None for none."""
        claim = self.claim_of(name)
        return None if claim is None or claim.handler.closed else claim.handler

    def owner_of(self, raw: bytes) -> Owner | None:
        """Return the owner of a name as it stands on the wire."""
        return self.owner(raw.decode("ascii", "replace"))

    def claim_of(self, name: str) -> Claim | None:
        """Return the claim that owns a name."""
        contest = self.get(name)
        return None if contest is None else contest.owner

    def list(self, prefix: str = "", after: str = "", most: int = LIST_LIMIT) -> Descriptions:
        """List names in their order, as `$hub/names/appeared` has told them.

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
                behind the last name of an answer. Fewer than a thousand names are the last.

        Raises:
            ValueError: It is none of these.
        """
        if value is None or isinstance(value, str):
            return self.list(value or "")
        try:
            page = msgspec.convert(value, _Page)
        except msgspec.ValidationError as error:
            raise ValueError(f"expected null, a prefix, or a map with `prefix` and `after`: {error}") from error
        return self.list(page.prefix, page.after)

    # What is contested; for `hub.names.names`.

    def get(self, name: str) -> Contest | None:
        """Return the contest for a name, None if it is not claimed."""
        contest: Contest | None = self._contests.get(name)
        return contest

    def __getitem__(self, name: str) -> Contest:
        contest: Contest = self._contests[name]
        return contest

    def open(self, name: str) -> Contest:
        """Return the contest for a name, a new one if the name is not claimed."""
        contest: Contest = self._contests.setdefault(name, Contest())
        self._account.update(len(self._contests) * _NAME_BYTES)
        return contest

    def close(self, name: str) -> None:
        """Remove a name that is not claimed any more."""
        del self._contests[name]
        if not self._contests:
            self._contests.clear()  # an emptied dictionary keeps its room otherwise
        self._account.update(len(self._contests) * _NAME_BYTES)

    def contests(self) -> Iterable[tuple[str, Contest]]:
        """Return all names with their contests, in no order."""
        return dict.items(self._contests)
