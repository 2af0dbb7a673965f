"""`Quotas`: how much the hub has of everything, and which users have a part of it; `Share`: what one user has.

```
Core.attach ─ join(user) ─▶ Share ─ [resource] ─▶ Usage ─ take, give_back ─▶ Whole
Core.detach ─ leave(share) ─▶ forgotten once nothing is charged to it
```

A user is what `Handler.rights` says: one share for all connections of any kind. All anonymous clients are one user:
else a stranger with many addresses would be many users. A handler without rights has no share and is charged nothing. A
share is here exactly while its user has a connection or holds something: about 0.3 KiB a user and 0.15 KiB a resource.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from hub.quotas.resource import Resource
from hub.quotas.usage import Usage, Whole


class RateLimits(NamedTuple):
    """How fast a user may publish, over all connections; None for no limit."""

    messages_per_s: int | None = None
    bytes_per_s: int | None = None  # Of everything that is read


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
        own = self.users.get(user)
        granted = [self.roles[role] for role in roles if role in self.roles]
        if not granted:
            return own or SetLimits()
        most: dict[Resource, int] = {}
        for each in granted:
            for resource, limit in each.most.items():
                most[resource] = max(limit, most.get(resource, 0))
        rates = [each.rate for each in granted]
        if own is not None:
            most.update(own.most)
        return SetLimits(
            most,
            RateLimits(
                _rate(own and own.rate.messages_per_s, (rate.messages_per_s for rate in rates)),
                _rate(own and own.rate.bytes_per_s, (rate.bytes_per_s for rate in rates)),
            ),
        )


def _rate(own: int | None, of_roles: Iterable[int | None]) -> int | None:
    return own or max((rate for rate in of_roles if rate is not None), default=None)


NO_LIMITS = QuotaLimits()  # A fair part of everything for everybody, and no rate


class _Bucket:
    __slots__ = ("level", "per_s")

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        # How much may pass at once; below 0 is what has passed too early.
        self.level = float(per_s)

    def spend(self, amount: int, passed_s: float) -> float:
        self.level = min(self.per_s, self.level + passed_s * self.per_s) - amount
        return max(0.0, -self.level / self.per_s)


class Rate:
    """The rate of one user, over all connections: a bucket of messages, and one of bytes.

    A read is known only once it was read, so a level may sink below 0: then none of the user's connections is read on
    until it has risen to 0, and TCP holds the senders back. Nothing is dropped. Times are seconds of a monotonic clock.
    """

    __slots__ = ("_bytes", "_filled_s", "_messages", "changes", "held_back_s", "held_back_total", "is_limited")

    is_limited: bool  # Whether there is anything to keep; asked for with each read

    def __init__(self, limits: RateLimits) -> None:
        self._messages: _Bucket | None = None
        self._bytes: _Bucket | None = None
        # How often the limits were set: counters of spending start again when it changes.
        self.changes = 0
        # When the buckets were filled last.
        self._filled_s = 0.0
        # How long connections of his were not read on since he has come, added up over them, and how often one was not.
        self.held_back_s = 0.0
        self.held_back_total = 0
        self.set_limits(limits)

    def set_limits(self, limits: RateLimits) -> None:
        """Let another rate apply from now on, or the same."""
        before = self._messages, self._bytes
        self._messages = _changed(self._messages, limits.messages_per_s)
        self._bytes = _changed(self._bytes, limits.bytes_per_s)
        self.is_limited = self._messages is not None or self._bytes is not None
        self.changes += (self._messages, self._bytes) != before

    def spend(self, messages: int, size_bytes: int, now_s: float) -> float:
        """Count what was read; return for how long nothing is to be read for this user, seconds."""
        passed_s = max(0.0, now_s - self._filled_s)
        self._filled_s = max(now_s, self._filled_s)
        wait_s = 0.0
        for bucket, amount in ((self._messages, messages), (self._bytes, size_bytes)):
            if bucket is not None:
                wait_s = max(wait_s, bucket.spend(amount, passed_s))
        return wait_s

    def wait_s(self, now_s: float) -> float:
        """Return for how long nothing is to be read for this user, seconds."""
        return self.spend(0, 0, now_s)

    def held_back(self, seconds: float) -> None:
        """Count for how long one connection was not read on."""
        self.held_back_s += seconds
        self.held_back_total += 1


def _changed(bucket: _Bucket | None, per_s: int | None) -> _Bucket | None:
    if per_s is None:
        return None
    return bucket if bucket is not None and bucket.per_s == per_s else _Bucket(per_s)


# How many users are shown one by one in metrics and in `$hub/statistics`; the others are shown together
USERS_SHOWN = 32

RATES_KEPT = 10_000  # Rates kept of users who have left, 0.5 KiB each, so that reconnecting does not fill a bucket

# What a connection may hold in each direction without being charged: what a transport takes before it pauses, and a
# quarter of what a read brings
FREE_BYTES = 64 * 1024

# Free for every connection of a user: most messages are smaller, so that those who read get on
_LEAST_FREE_BYTES = 1024

# What is free is at most one of so many parts of what a user may have waiting, divided by the connections
_FREE_PARTS = 16

UNBOUNDED = 1 << 62  # The total of a resource without one

_CONNECTIONS = Resource.CONNECTIONS


class WholeStatistics(NamedTuple):
    """One resource of the hub at one moment."""

    total: int
    held: int  # By users
    refused_total: int  # Refusals since the start of the hub


class ShareStatistics(NamedTuple):
    """What one user holds, or what several hold together, at one moment."""

    user: str  # Empty for several together
    users: int
    held: dict[str, int]  # By resource; what is not in it is not held
    refused_total: int  # Since they have come
    held_back_s: float  # How long their connections were not read on since they have come, for their rate


class Share:
    """What one user has."""

    __slots__ = ("_limits", "_on_left", "_wholes", "rate", "usages", "user")

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
        self._limits = limits
        self._on_left = on_left
        # Resource → what he holds of it, from the first time on that somebody asks.
        self.usages: dict[Resource, Usage] = {}
        # How fast he may publish; there whether it is limited now or not, as a reload may change that.
        self.rate = Rate(limits.rate) if rate is None else rate
        self.rate.set_limits(limits.rate)

    def __getitem__(self, resource: Resource) -> Usage:
        usage = self.usages.get(resource)
        if usage is None:
            limit = self._limits.most.get(resource)
            usage = self.usages[resource] = Usage(self._wholes[resource], self.user, limit, self._look)
        return usage

    def free_bytes(self) -> int:
        """What one more connection may hold in each direction without being charged; it keeps that.

        Less for each that comes, where the user has very many: so what is free for all is never much more than a part
        of what the user may have waiting.
        """
        fair = self[Resource.QUEUED_BYTES].most // (_FREE_PARTS * max(1, self[_CONNECTIONS].held))
        return max(_LEAST_FREE_BYTES, min(FREE_BYTES, fair))

    @property
    def limits(self) -> SetLimits:
        return self._limits

    @property
    def is_empty(self) -> bool:
        """Whether the user has no connection, and holds nothing else."""
        return not any(usage.held for usage in self.usages.values())

    def set_limits(self, limits: SetLimits) -> None:
        """Let these limits apply from now on; what is held is kept."""
        if limits == self._limits:
            return
        self._limits = limits
        for resource, usage in self.usages.items():
            usage.set_limit(limits.most.get(resource))
        self.rate.set_limits(limits.rate)

    def _look(self) -> None:
        if not self[_CONNECTIONS].held and self.is_empty:
            self._on_left(self)

    def statistics(self) -> ShareStatistics:
        held = {resource.value: usage.held for resource, usage in self.usages.items() if usage.held}
        refused = sum(usage.refused_total for usage in self.usages.values())
        return ShareStatistics(self.user, 1, held, refused, self.rate.held_back_s)


class Quotas:
    """The whole."""

    __slots__ = ("_held_back_total", "_limits", "_rates", "_roles", "_shares", "wholes")

    def __init__(self, totals: Mapping[Resource, int] | None = None, limits: QuotaLimits = NO_LIMITS) -> None:
        totals = totals or {}
        self.wholes = {resource: Whole(resource, totals.get(resource, UNBOUNDED)) for resource in Resource}
        self._limits = limits
        # User → his share, from `join` until he has left.
        self._shares: dict[str, Share] = {}
        # User who has left → his rate, who left first is first. Else it would be a new one each time he connects.
        self._rates: dict[str, Rate] = {}
        # How often connections of users who have left were not read on for their rate.
        self._held_back_total = 0
        # User → the roles that he had when he connected last; limits of roles are found by them.
        self._roles: dict[str, frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self._shares)

    def join(self, user: str, roles: frozenset[str]) -> Share:
        """Give a user one more connection.

        Returns:
            The user's share; call `leave` with it once the connection is over.

        Raises:
            RejectedError: The user has too many connections.
        """
        share = self._share(user, roles)
        share[_CONNECTIONS].require(1)
        if user not in self._shares:
            self._rates.pop(user, None)
            self._shares[user] = share
            self._roles[user] = roles
        else:
            self.give_roles(share, roles)
        return share

    def _share(self, user: str, roles: frozenset[str]) -> Share:
        share = self._shares.get(user)
        if share is not None:
            return share
        limits = self._limits.of(user, roles)
        return Share(user, self.wholes, limits, self._forget, rate=self._rates.get(user))

    def give_roles(self, share: Share, roles: frozenset[str]) -> None:
        """Let a user have these roles from now on, and the limits that follow."""
        if roles != self._roles[share.user]:
            self._roles[share.user] = roles
            share.set_limits(self._limits.of(share.user, roles))

    def leave(self, share: Share) -> None:
        """Take back a connection of a user."""
        share[_CONNECTIONS].give_back(1)

    def _forget(self, share: Share) -> None:
        if self._shares.get(share.user) is share:
            del self._shares[share.user], self._roles[share.user]
            self._held_back_total += share.rate.held_back_total
            self._keep(share)

    def set_total(self, resource: Resource, total: int) -> None:
        """Set the total of a resource; what users hold they keep."""
        self.wholes[resource].set_total(total)

    def _keep(self, share: Share) -> None:
        rate, rates = share.rate, self._rates
        rate.held_back_s, rate.held_back_total = 0.0, 0
        if rate.is_limited:
            if len(rates) >= RATES_KEPT:
                del rates[next(iter(rates))]
            rates[share.user] = rate

    def adopt(self, limits: QuotaLimits) -> None:
        """Let other limits apply from now on; what is held is kept. About 1 µs a user."""
        self._limits = limits
        of_roles: dict[frozenset[str], SetLimits] = {}
        for user, share in self._shares.items():
            roles = self._roles[user]
            found = limits.of(user, roles) if user in limits.users else of_roles.get(roles)
            if found is None:
                found = of_roles[roles] = limits.of(user, roles)
            share.set_limits(found)

    def statistics(self) -> dict[str, WholeStatistics]:
        """Return, by resource, what there is, what users hold, and how many refusals there were."""
        return {
            resource.value: WholeStatistics(whole.total, whole.total - whole.free, whole.refused_total)
            for resource, whole in self.wholes.items()
        }

    @property
    def held_back_total(self) -> int:
        """How often connections were not read on for the rates of their users."""
        return self._held_back_total + sum(share.rate.held_back_total for share in self._shares.values())

    def largest(self, most: int) -> list[ShareStatistics]:
        """Return the users that hold the largest part of something, and the others together. About 1 µs a user."""
        weights: list[tuple[float, str]] = []
        refused = 0
        held_back_s = 0.0
        for user, share in self._shares.items():
            weight = 0.0  # the largest part of any resource that he holds
            for usage in share.usages.values():
                refused += usage.refused_total
                weight = max(weight, usage.held / (usage.whole.total or 1))
            weights.append((weight, user))
            held_back_s += share.rate.held_back_s
        shown = [self._shares[user].statistics() for _, user in heapq.nlargest(most, weights)]
        if len(shown) < len(weights):
            shown.append(self._rest(shown, refused, held_back_s))
        return shown

    def _rest(self, shown: list[ShareStatistics], refused: int, held_back_s: float) -> ShareStatistics:
        held: dict[str, int] = {}
        for resource, whole in self.wholes.items():
            amount = whole.total - whole.free - sum(one.held.get(resource.value, 0) for one in shown)
            if amount:
                held[resource.value] = amount
        return ShareStatistics(
            user="",
            users=len(self._shares) - len(shown),
            held=held,
            refused_total=refused - sum(one.refused_total for one in shown),
            held_back_s=held_back_s - sum(one.held_back_s for one in shown),
        )
