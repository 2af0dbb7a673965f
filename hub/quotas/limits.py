"""`QuotaLimits`: limits of users and roles; `Rate`: how fast one user may publish.

A user's own limit wins; of the limits of several roles the largest wins; without any a fair part applies
(`hub.quotas.usage`), and no rate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from hub.quotas.resource import Resource


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
        """Return what applies to a user who has these roles."""
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
        # How often the limits were set: whoever counts what is spent begins anew when they are others.
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
