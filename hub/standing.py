"""`Standing`: what a handler may do, as it follows from what stands behind it and from its rights.

```
Delivery, Rights ─▶ Standing.of ─▶ the handler, which has each part beside the others
```

Purpose: what is asked of a handler with each batch or request is worked out once, when its rights or its delivery
change, and is never at odds with them.

A value without state. Not here: what a policy grants (`hub.policy`), which of it a handler is given, and when
(`hub.authority`), who gets what of all that is wanted (`hub.delivery`).
"""

from __future__ import annotations

from typing import NamedTuple

from hub.delivery import Delivery
from hub.policy.policy import Action, Domains, Rights

__all__ = ["Acts", "Standing"]


class Acts(NamedTuple):
    """What a handler does, and what it must be granted for that: in its own name, or for others behind it."""

    publishing: Action
    """When it publishes."""
    requesting: Action
    """When it asks something."""
    serving: Action
    """When it gets what is asked."""
    seeing: Action
    """When it gets what it subscribes to."""


_OWN = Acts(Action.PUBLISH, Action.REQUEST, Action.SERVE, Action.SUBSCRIBE)
_OF_OTHERS = Acts(Action.BRING, Action.BRING, Action.TAKE, Action.TAKE)


class Standing(NamedTuple):
    """Of one handler."""

    delivery: Delivery
    """What it gets, and who gets what it publishes."""
    rights: Rights | None
    """What it may do; None for everything."""
    acts: Acts
    publishes_in: set[Domains] | None
    """Domains in which it may publish, as far as they were asked for; None: in all. Its rights have the set."""
    has_rights: bool
    """Whether it has any."""
    is_plain: bool
    """As `Delivery.is_plain` says."""
    is_unbound: bool
    """Whether nothing of what it publishes is looked at: it has no rights, and everybody who wants it gets it."""

    @classmethod
    def of(cls, delivery: Delivery, rights: Rights | None) -> Standing:
        """Return what follows; what it takes in shared memory depends on what it may see."""
        acts = _OF_OTHERS if delivery.is_peer else _OWN
        domains = None
        if rights is not None:
            domains = rights.brings_in if delivery.is_peer else rights.publishes_in
        if delivery.takes_shared:
            delivery = delivery._replace(takes_blocks=rights is None or rights.may_all(acts.seeing, ""))
        is_plain = delivery.is_plain
        return cls(delivery, rights, acts, domains, rights is not None, is_plain, is_plain and rights is None)
