"""`Quotas`: how much the hub has of each resource, and which users hold parts of it; `Share`: the part of one user.

```
Core.attach ─ join(user) ─▶ Share ─ [resource] ─▶ Usage ─ take, give_back ─▶ Whole
Core.detach ─ leave(share) ─▶ forgotten once nothing is charged to it
```

All connections of a user share one `Share`, and all anonymous clients are one user: otherwise a client with many
addresses would be many users. A handler without rights has no share and is charged nothing. A share exists while its
user has a connection or holds anything: about 0.3 KiB a user and 0.15 KiB a resource.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from hub.errors import CloseCode, RejectedError


class Resource(Enum):
    """A resource that is charged to users. The values are the keys of limits, and labels of metrics."""

    CONNECTIONS = "connections"
    PREFIXES = "prefixes"  # Pairs of handler and prefix
    RULES = "rules"
    SERVICES = "services"  # Prefixes that are served
    NAMES = "names"  # Names that are owned, waited for, or announced over a link
    PENDING_REQUESTS = "pending_requests"  # The requester pays
    # Queues of slow readers, charged to their user, with unwritten bytes of their transports; and the read part of a
    # client and not acted on, such as a large frame that is not complete
    QUEUED_BYTES = "queued_bytes"
    DESCRIPTORS = "descriptors"  # Of shared memory
    STAGED_BYTES = "staged_bytes"  # Data that waits for its COMMIT
    JOURNAL_READS = "journal_reads"  # FETCHes that reader processes have to answer

    __hash__ = object.__hash__  # an enumeration's own is a call of Python, and this is looked up for each prefix

    @property
    def is_size(self) -> bool:
        return self in {Resource.QUEUED_BYTES, Resource.STAGED_BYTES}

    @property
    def text(self) -> str:
        """The name behind a number in the text of a refusal."""
        return _TEXTS.get(self, self.value.replace("_", " "))


_TEXTS = {
    Resource.SERVICES: "prefixes that are served",
    Resource.QUEUED_BYTES: "bytes waiting",
    Resource.STAGED_BYTES: "bytes staged",
}


class Whole:
    """The hub's total of one resource."""

    __slots__ = ("free", "refused_total", "resource", "sharers", "total")

    def __init__(self, resource: Resource, total: int) -> None:
        self.resource = resource
        self.total = total
        self.free = total  # Not held by any user. Below 0 where more was added unconditionally than there was.
        self.sharers = 0  # Users that hold some of it and have no limit of their own
        self.refused_total = 0

    def set_total(self, total: int) -> None:
        self.free += total - self.total
        self.total = total


class Usage:
    """The usage of one resource by one user, over all connections.

    A user with a limit may hold that much, while there is any. With n users that hold some of it, including this one, a
    user without a limit may hold at most (free + what they hold) / (n + 1): ADR 45, which proves that any user can hold
    the whole divided by n * (n + 1), however much the n - 1 others take.
    """

    __slots__ = ("_on_empty", "held", "limit", "refused_total", "user", "whole")

    def __init__(self, whole: Whole, user: str, limit: int | None, on_empty: Callable[[], object]) -> None:
        self.whole = whole
        self._on_empty = on_empty
        self.user = user
        self.held = 0
        self.limit = limit  # Changed by `set_limit` alone
        self.refused_total = 0

    @property
    def most(self) -> int:
        """How much may be held now; less than is held, if other users have come since."""
        whole = self.whole
        if self.limit is not None:
            return min(self.limit, self.held + max(0, whole.free))
        return max(0, whole.free + self.held) // (whole.sharers + (1 if self.held else 2))

    @property
    def room(self) -> int:
        return max(0, self.most - self.held)

    def take(self, amount: int) -> bool:
        """Take so much more, if it may be held; return whether it may. A refusal is counted."""
        whole, held = self.whole, self.held
        if held and self.limit is None:  # as `most` and `add`, with two calls less for each message that waits
            if (held + amount) * (whole.sharers + 1) <= whole.free + held:
                self.held = held + amount
                whole.free -= amount
                return True
        elif held + amount <= self.most:
            self.add(amount)
            return True
        if not amount:
            return True
        self.refuse()
        return False

    def fits(self, amount: int) -> bool:
        """Return whether so much more may be held; a refusal is counted."""
        if amount <= self.room:
            return True
        self.refuse()
        return False

    def refuse(self) -> None:
        self.refused_total += 1
        self.whole.refused_total += 1

    def add(self, amount: int) -> None:
        """Take so much more unconditionally."""
        if not amount:
            return
        whole = self.whole
        if not self.held and self.limit is None:
            whole.sharers += 1
        self.held += amount
        whole.free -= amount

    def give_back(self, amount: int) -> None:
        if not amount:
            return
        whole = self.whole
        self.held -= amount
        whole.free += amount
        if not self.held:
            if self.limit is None:
                whole.sharers -= 1
            self._on_empty()

    def set_limit(self, limit: int | None) -> None:
        if self.held:
            self.whole.sharers += (limit is None) - (self.limit is None)
        self.limit = limit

    def require(self, amount: int) -> None:
        """Take so much more, or raise the `RejectedError` of a refusal."""
        if not self.take(amount):
            raise self.rejection(amount)

    def check(self, amount: int) -> None:
        """Raise a `RejectedError` unless so much more may be taken; `add` takes it then."""
        if not self.fits(amount):
            raise self.rejection(amount)

    def rejection(self, amount: int) -> RejectedError:
        """Return the error of a refusal: the resource, the limit, and the user."""
        whole = self.whole
        if self.limit is not None and self.held + amount > self.limit:
            cause = f"the limit for this user is {self.limit}"
        else:
            cause = f"the fair share is {self.most} now, of {whole.total} in all"
        text = f"user {self.user} has {self.held} {whole.resource.text}, {amount} more are too many: {cause}"
        return RejectedError(CloseCode.TRY_AGAIN_LATER, text)


class RateLimits(NamedTuple):
    """How fast a user may publish, over all connections; None for no limit."""

    messages_per_s: int | None = None
    bytes_per_s: int | None = None  # Of all data that is read


NO_RATE = RateLimits()


class SetLimits(NamedTuple):
    """The limits of one user, or of one role."""

    most: Mapping[Resource, int] = {}  # Resources that are not in it have no limit
    rate: RateLimits = NO_RATE

    def value(self, key: str) -> int | None:
        """Return the limit of a resource or a rate, by its key in a policy, or None."""
        if key in RateLimits._fields:
            rate: int | None = getattr(self.rate, key)
            return rate
        return self.most.get(Resource(key))


class QuotaLimits(NamedTuple):
    """All limits."""

    users: Mapping[str, SetLimits] = {}
    roles: Mapping[str, SetLimits] = {}

    def of(self, user: str, roles: Collection[str]) -> SetLimits:
        """Return a user's own limits, and for others the largest of the roles."""
        own = self.users.get(user, SetLimits())
        granted = [self.roles[role] for role in roles if role in self.roles]
        most: dict[Resource, int] = {}
        for each in granted:
            for resource, limit in each.most.items():
                most[resource] = max(limit, most.get(resource, 0))
        rates = [each.rate for each in granted]
        messages_per_s = _rate(own.rate.messages_per_s, (rate.messages_per_s for rate in rates))
        bytes_per_s = _rate(own.rate.bytes_per_s, (rate.bytes_per_s for rate in rates))
        return SetLimits({**most, **own.most}, RateLimits(messages_per_s, bytes_per_s))


def _rate(own: int | None, of_roles: Iterable[int | None]) -> int | None:
    return own or max((rate for rate in of_roles if rate is not None), default=None)


NO_LIMITS = QuotaLimits()  # A fair part of each resource for each user, and no rate


class _Bucket:
    __slots__ = ("level", "per_s")

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        self.level = float(per_s)  # How much may pass at once; below 0 after too much has passed

    def spend(self, amount: int, passed_s: float) -> float:
        self.level = min(self.per_s, self.level + passed_s * self.per_s) - amount
        return max(0.0, -self.level / self.per_s)


class Rate:
    """The rate of one user, over all connections: a bucket of messages, and one of bytes.

    A read is counted only after it was read, so a level may sink below 0: then reading from the user's connections
    pauses until it has risen to 0, and TCP holds the senders back. Nothing is dropped. Times are seconds of a monotonic
    clock.
    """

    __slots__ = ("_bytes", "_filled_s", "_messages", "changes", "held_back_s", "held_back_total", "is_limited")

    is_limited: bool  # Whether there is a limit; asked for with each read

    def __init__(self, limits: RateLimits) -> None:
        self._messages: _Bucket | None = None
        self._bytes: _Bucket | None = None
        self.changes = 0  # How often the limits were set: counters of spending start again when it changes
        self._filled_s = 0.0  # When the buckets were filled last
        self.held_back_s = 0.0  # How long reading was paused, added up over the user's connections
        self.held_back_total = 0  # and how often
        self.set_limits(limits)

    def set_limits(self, limits: RateLimits) -> None:
        """Let another rate apply from now on, or the same."""
        before = self._messages, self._bytes
        self._messages = _changed(self._messages, limits.messages_per_s)
        self._bytes = _changed(self._bytes, limits.bytes_per_s)
        self.is_limited = self._messages is not None or self._bytes is not None
        self.changes += (self._messages, self._bytes) != before

    def spend(self, messages: int, size_bytes: int, now_s: float) -> float:
        """Count a read; return for how long reading for this user has to pause, seconds."""
        passed_s = max(0.0, now_s - self._filled_s)
        self._filled_s = max(now_s, self._filled_s)
        wait_s = 0.0
        for bucket, amount in ((self._messages, messages), (self._bytes, size_bytes)):
            if bucket is not None:
                wait_s = max(wait_s, bucket.spend(amount, passed_s))
        return wait_s

    def wait_s(self, now_s: float) -> float:
        return self.spend(0, 0, now_s)

    def held_back(self, seconds: float) -> None:
        """Count a pause of one connection."""
        self.held_back_s += seconds
        self.held_back_total += 1


def _changed(bucket: _Bucket | None, per_s: int | None) -> _Bucket | None:
    if per_s is None:
        return None
    return bucket if bucket is not None and bucket.per_s == per_s else _Bucket(per_s)


# How many users are shown one by one in metrics and in `$hub/statistics`; the others are shown together
USERS_SHOWN = 32
RATES_KEPT = 10_000  # Rates kept of users that have left, 0.5 KiB each, so that reconnecting does not fill a bucket

# Bytes that a connection may hold in each direction without charge: those of a transport before it pauses, and a
# quarter of a read
FREE_BYTES = 64 * 1024

# Free for every connection of a user: most messages are smaller, so that readers get on
_LEAST_FREE_BYTES = 1024

# The free part is at most one of so many parts of a user's queue bytes, divided by the connections
_FREE_PARTS = 16
UNBOUNDED = 1 << 62  # The total of a resource without one


class WholeStatistics(NamedTuple):
    """One resource of the hub at one moment."""

    total: int
    held: int  # By users
    refused_total: int  # Refusals since the start of the hub


class ShareStatistics(NamedTuple):
    """The usage of one user, or of several together."""

    user: str  # Empty for several together
    users: int
    held: dict[str, int]  # By resource, without those that are not held
    refused_total: int  # Since they have come
    held_back_s: float  # How long reading from their connections was paused since they have come, for their rate


class Share:
    """The shares of one user."""

    __slots__ = ("_on_left", "_wholes", "limits", "rate", "usages", "user")

    def __init__(
        self,
        user: str,
        wholes: Mapping[Resource, Whole],
        limits: SetLimits,
        on_left: Callable[[Share], object],
        *,
        rate: Rate | None = None,
    ) -> None:
        self.user = user
        self._wholes = wholes
        self.limits = limits
        self._on_left = on_left
        self.usages: dict[Resource, Usage] = {}  # Each from its first use on
        # It is there whether it is limited now or not, as a reload may change that.
        self.rate = Rate(limits.rate) if rate is None else rate
        self.rate.set_limits(limits.rate)

    def __getitem__(self, resource: Resource) -> Usage:
        usage = self.usages.get(resource)
        if usage is None:
            limit = self.limits.most.get(resource)
            usage = self.usages[resource] = Usage(self._wholes[resource], self.user, limit, self._look)
        return usage

    def free_bytes(self) -> int:
        """Return the bytes that one more connection may hold in each direction without charge; it keeps them.

        Less for each that comes, where the user has very many: so the free bytes of all are never much more than a part
        of the user's queue bytes.
        """
        fair = self[Resource.QUEUED_BYTES].most // (_FREE_PARTS * max(1, self[Resource.CONNECTIONS].held))
        return max(_LEAST_FREE_BYTES, min(FREE_BYTES, fair))

    @property
    def is_empty(self) -> bool:
        return not any(usage.held for usage in self.usages.values())

    def set_limits(self, limits: SetLimits) -> None:
        if limits == self.limits:
            return
        self.limits = limits
        for resource, usage in self.usages.items():
            usage.set_limit(limits.most.get(resource))
        self.rate.set_limits(limits.rate)

    def _look(self) -> None:
        if not self[Resource.CONNECTIONS].held and self.is_empty:
            self._on_left(self)

    def statistics(self) -> ShareStatistics:
        held = {resource.value: usage.held for resource, usage in self.usages.items() if usage.held}
        refused = sum(usage.refused_total for usage in self.usages.values())
        return ShareStatistics(self.user, 1, held, refused, self.rate.held_back_s)


class Quotas:
    """All resources and all shares of a hub."""

    __slots__ = ("_held_back_total", "_limits", "_rates", "_roles", "_shares", "wholes")

    def __init__(self, totals: Mapping[Resource, int] | None = None, limits: QuotaLimits = NO_LIMITS) -> None:
        totals = totals or {}
        self.wholes = {resource: Whole(resource, totals.get(resource, UNBOUNDED)) for resource in Resource}
        self._limits = limits
        self._shares: dict[str, Share] = {}  # By user, from `join` until the user has left
        # Rates of users that have left, the first to leave first: a reconnect must not bring a full bucket.
        self._rates: dict[str, Rate] = {}
        self._held_back_total = 0  # Pauses of users that have left
        self._roles: dict[str, frozenset[str]] = {}  # User → roles at the last connect, for limits of roles

    def __len__(self) -> int:
        return len(self._shares)

    def join(self, user: str, roles: frozenset[str]) -> Share:
        """Give a user one more connection; call `leave` with the returned share once the connection is over.

        Raises:
            RejectedError: The user has too many connections.
        """
        share = self._shares.get(user)
        if share is None:
            rate = self._rates.get(user)
            share = Share(user, self.wholes, self._limits.of(user, roles), self._forget, rate=rate)
        share[Resource.CONNECTIONS].require(1)
        if user not in self._shares:
            self._rates.pop(user, None)
            self._shares[user] = share
            self._roles[user] = roles
        else:
            self.give_roles(share, roles)
        return share

    def give_roles(self, share: Share, roles: frozenset[str]) -> None:
        if roles != self._roles[share.user]:
            self._roles[share.user] = roles
            share.set_limits(self._limits.of(share.user, roles))

    def leave(self, share: Share) -> None:
        share[Resource.CONNECTIONS].give_back(1)

    def _forget(self, share: Share) -> None:
        if self._shares.get(share.user) is not share:
            return
        del self._shares[share.user], self._roles[share.user]
        rate, rates = share.rate, self._rates
        self._held_back_total += rate.held_back_total
        rate.held_back_s, rate.held_back_total = 0.0, 0
        if rate.is_limited:
            if len(rates) >= RATES_KEPT:
                del rates[next(iter(rates))]
            rates[share.user] = rate

    def set_total(self, resource: Resource, total: int) -> None:
        self.wholes[resource].set_total(total)

    def adopt(self, limits: QuotaLimits) -> None:
        """Let other limits apply from now on; usage is kept. About 1 µs a user."""
        self._limits = limits
        of_roles: dict[frozenset[str], SetLimits] = {}
        for user, share in self._shares.items():
            roles = self._roles[user]
            found = limits.of(user, roles) if user in limits.users else of_roles.get(roles)
            if found is None:
                found = of_roles[roles] = limits.of(user, roles)
            share.set_limits(found)

    def statistics(self) -> dict[str, WholeStatistics]:
        return {
            resource.value: WholeStatistics(whole.total, whole.total - whole.free, whole.refused_total)
            for resource, whole in self.wholes.items()
        }

    @property
    def held_back_total(self) -> int:
        """How often reading was paused for the rates of users."""
        return self._held_back_total + sum(share.rate.held_back_total for share in self._shares.values())

    def largest(self, most: int) -> list[ShareStatistics]:
        """Return the users that hold the largest part of any resource, and the others together. About 1 µs a user."""
        weights: list[tuple[float, str]] = []
        refused = 0
        held_back_s = 0.0
        for user, share in self._shares.items():
            weight = 0.0
            for usage in share.usages.values():
                refused += usage.refused_total
                weight = max(weight, usage.held / (usage.whole.total or 1))
            weights.append((weight, user))
            held_back_s += share.rate.held_back_s
        shown = [self._shares[user].statistics() for _, user in heapq.nlargest(most, weights)]
        if len(shown) == len(weights):
            return shown
        held: dict[str, int] = {}
        for resource, whole in self.wholes.items():
            amount = whole.total - whole.free - sum(one.held.get(resource.value, 0) for one in shown)
            if amount:
                held[resource.value] = amount
        rest = ShareStatistics(
            user="",
            users=len(weights) - len(shown),
            held=held,
            refused_total=refused - sum(one.refused_total for one in shown),
            held_back_s=held_back_s - sum(one.held_back_s for one in shown),
        )
        return [*shown, rest]
