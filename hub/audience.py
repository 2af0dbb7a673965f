"""`Audience`: which of those who want a topic may see it.

```
handlers that want it ── rights: SUBSCRIBE for clients, TAKE for peers ──▶ those that get it
```

So a grant with holes, a subscription to more than is granted, and a policy that has just changed need nothing else: who
may not see a topic does not stand in its route.

Owner: `hub.routes`, which makes one for each lookup. Cost: nothing where nobody has rights; else 0.3 µs a handler,
and 0.5 µs for each set of roles, and each user by whose name something is granted here: of 10,000 users with the same
roles one is judged.

Not here: who wants it (`hub.multimap`, `hub.tags`), who may publish it (`hub.refusals`).
"""

from __future__ import annotations

from hub.handler import Handler
from hub.policy.grants import Domain, User
from hub.policy.policy import Policy
from hub.policy.refusal import check_prefix_granted

__all__ = ["Audience", "check_may_see"]


class _Verdicts:
    """What one policy says of a topic, for clients or for peers."""

    __slots__ = ("domain", "known", "names")

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        # Users whose own name stands in the topic where a grant has it: they are judged by themselves.
        self.names = frozenset(name for level in domain for _, name in level if name is not None)
        # What was decided: for such users, and for all others with the same roles.
        self.known: dict[User | frozenset[str], bool] = {}


class Audience:
    """Those who may see one topic.

    Args:
        topic: Which.
    """

    __slots__ = ("_clients", "_peers", "_topic")

    def __init__(self, topic: str) -> None:
        self._topic = topic
        # For clients, and for peers, by policy: while one takes the place of another, there are two.
        self._clients: dict[Policy, _Verdicts] = {}
        self._peers: dict[Policy, _Verdicts] = {}

    def admits(self, handler: Handler) -> bool:
        """Return whether a handler may see the topic."""
        rights = handler.rights
        if rights is None:
            return True
        policy, user = rights.policy, rights.user
        of_kind = self._peers if handler.is_peer else self._clients
        verdicts = of_kind.get(policy)
        if verdicts is None:
            verdicts = of_kind[policy] = _Verdicts(policy.domain(handler.acts.seeing, self._topic))
        who = user if user.name in verdicts.names else user.roles
        verdict = verdicts.known.get(who)
        if verdict is None:
            verdict = verdicts.known[who] = rights.may_by(handler.acts.seeing, verdicts.domain)
        return verdict


def check_may_see(handler: Handler, prefix: str) -> None:
    """See to it that a handler may see every topic with a prefix, unless it takes that for what it may see of them.

    Raises:
        RejectedError: It may not.
    """
    if handler.rights is not None and not handler.narrows:
        check_prefix_granted(handler.rights, handler.acts.seeing, prefix)
