"""`QuotaLimits`: what is set for users and roles of how much they may hold, and how fast they may publish.

Frozen values. Invariants: what is set for a user himself wins; of what is set for several of his roles the largest
wins; where neither says anything a fair part applies (`hub.quotas.usage`), and there is no rate.

Not here: how it is written (`hub.policy.limits`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from hub.quotas.resource import Resource

__all__ = ["NO_LIMITS", "QuotaLimits", "RateLimits", "SetLimits"]


class RateLimits(NamedTuple):
    """How fast somebody may publish, over all his connections; None where that is not limited."""

    messages_per_s: int | None = None
    bytes_per_s: int | None = None
    """What is read from his connections, whatever it is."""


NO_RATE = RateLimits()


class SetLimits(NamedTuple):
    """What is set for one user, or for one role."""

    most: Mapping[Resource, int] = {}
    """Resources that are not in it have no limit."""
    rate: RateLimits = NO_RATE

    def value(self, key: str) -> int | None:
        """Return what is set of a resource or a rate, by its key in a policy; None where nothing is."""
        if key in RateLimits._fields:
            rate: int | None = getattr(self.rate, key)
            return rate
        return self.most.get(Resource(key))


class QuotaLimits(NamedTuple):
    """All that is set."""

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
    """Return the rate that applies: the user's own, else the largest of his roles."""
    return own or max((rate for rate in of_roles if rate is not None), default=None)


NO_LIMITS = QuotaLimits()
"""Nothing is set: everybody has a fair part of everything, and no rate."""
