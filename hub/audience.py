"""`Audience`: which of those who want a topic may see it.

```
handlers that want it ── rights: SUBSCRIBE for clients, TAKE for peers ──▶ those that get it
```

So a grant with holes, a subscription to more than is granted, and a policy that has just changed need nothing else: who
may not see a topic does not stand in its route.

Owner: `hub.routes`, which makes one for each lookup. Cost: nothing where nobody has rights; else a look into a
dictionary for each handler, and a verdict for each user, 0.5 µs.

Not here: who wants it (`hub.multimap`, `hub.tags`), who may publish it (`hub.core`).
"""

from __future__ import annotations

from hub.handler import Handler
from hub.policy.grants import Domain
from hub.policy.policy import Policy, Rights

__all__ = ["Audience"]


class Audience:
    """Those who may see one topic.

    Args:
        topic: Which.
    """

    __slots__ = ("_domains", "_topic", "_verdicts", "_verdicts_of_peers")

    def __init__(self, topic: str) -> None:
        self._topic = topic
        # What was decided for clients, and for peers. Connections of one user have the same rights.
        self._verdicts: dict[Rights, bool] = {}
        self._verdicts_of_peers: dict[Rights, bool] = {}
        # What decides for clients, and for peers, by policy: while one takes the place of another, there are two.
        self._domains: dict[tuple[Policy, bool], Domain] = {}

    def admits(self, handler: Handler) -> bool:
        """Return whether a handler may see the topic."""
        rights = handler.rights
        if rights is None:
            return True
        verdicts = self._verdicts_of_peers if handler.is_peer else self._verdicts
        verdict = verdicts.get(rights)
        if verdict is None:
            verdict = verdicts[rights] = rights.may_by(handler.seeing, self._domain(handler, rights.policy))
        return verdict

    def _domain(self, handler: Handler, policy: Policy) -> Domain:
        """Return what decides about the topic for handlers of this kind."""
        key = policy, handler.is_peer
        domain = self._domains.get(key)
        if domain is None:
            domain = self._domains[key] = policy.domain(handler.seeing, self._topic)
        return domain
