"""`Authority`: which policy is asked, what each handler may do by it, and what follows when that changes.

```
adopt ─▶ routes forget what was decided, users get other limits
give_rights ─▶ at once: what it sees and publishes ─▶ in steps: what it holds (`hub.authority`) ─▶ one notice
```

Owner: the core. Invariants: a handler is judged by the rights that stand on it, also while another policy is already
asked of routes; what it may no longer hold is taken away, and told, once.

Cost: adopting forgets all routes, in steps, and looks at each user; giving rights forgets the routes in which the
handler may stand, and costs what the review costs.

Not here: who may do what (`hub.policy`), what is refused of what they publish (`hub.refusals`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.names.names import Names
from hub.policy.policy import Action, Policy, Rights
from hub.prefixes import PrefixSubscriptions
from hub.quotas.limits import NO_LIMITS
from hub.quotas.quotas import Quotas
from hub.requests.requests import Requests
from hub.routes import Routes
from hub.tags.subscriptions import RuleSubscriptions
from hub.topics import printable
from hub.turn import Turn

_JUDGED_PER_STEP = 8
"""How many things are judged in one step of the turn: 2 µs each."""

_SHOWN = 8
"""How many things the notice names that were taken away."""


class Kind(NamedTuple):
    """One kind of thing that handlers hold."""

    held: Callable[[Handler], Iterable[Any]]
    """Gives what a handler holds of it, as far as it is judged."""
    may_hold: Callable[[Handler, Rights, Any], bool]
    """Whether it may hold this one, with these rights."""
    take_away: Callable[[Handler, Any], object]
    show: Callable[[Any], str]
    """Names one for people."""


class Review:
    """What is still to be judged.

    Args:
        turn: Gives the steps.
        kinds: What is judged, what matters most first.
        tell: Called with a handler from which something was taken away, and what it is told.
    """

    __slots__ = ("_due", "_kinds", "_tell", "_turn")

    def __init__(self, turn: Turn, kinds: Sequence[Kind], tell: Callable[[Handler, RejectedError], object]) -> None:
        self._turn = turn
        self._kinds = kinds
        self._tell = tell
        # Handlers that are not judged to the end, in the order in which they were given rights, with the steps that
        # are left.
        self._due: dict[Handler, Iterator[None]] = {}

    @property
    def is_behind(self) -> bool:
        """Return whether there is something to `go_on` with."""
        return bool(self._due)

    def begin(self, handler: Handler) -> None:
        """Judge what a handler holds, beginning with this turn."""
        self._due.pop(handler, None)
        if handler.rights is not None:
            self._due[handler] = self._judge(handler, handler.rights)
            self.go_on()

    def forget(self, handler: Handler) -> None:
        """Judge a handler no further: it has left, and all that it holds goes with it."""
        self._due.pop(handler, None)

    def go_on(self) -> None:
        """Judge as much as this turn has steps for."""
        due = self._due
        while due and self._turn.step():
            handler, steps = next(iter(due.items()))
            if next(steps, self) is self and due.get(handler) is steps:
                del due[handler]

    def _judge(self, handler: Handler, rights: Rights) -> Iterator[None]:
        """Take away what may not be held, in steps, and tell it at the end."""
        taken: list[str] = []
        number = 0
        for held, may_hold, take_away, show in self._kinds:
            for one in list(held(handler)):
                number += 1
                if not may_hold(handler, rights, one):
                    take_away(handler, one)
                    taken.append(show(one))
                    yield
                elif not number % _JUDGED_PER_STEP:
                    yield
        if taken:
            more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
            what = ", ".join(taken[:_SHOWN])
            text = f"no longer granted to user {printable(rights.user.name)}, and taken away: {what}{more}"
            self._tell(handler, RejectedError(CloseCode.NOT_ALLOWED, text))


_FORGOTTEN_SINGLY = 100
"""Where a handler with more prefixes and rules than these gets other rights, all routes are forgotten: 5 µs each."""

OnRevoked = Callable[[RejectedError], object]
"""Tells a handler that it may no longer hold what it held, and that this was taken away."""


class Authority:
    """The policy, and the rights of handlers.

    Args:
        turn: Gives the steps in which things are taken away.
        attached: Numbers of the handlers that have not left.
        routes: Remember what the policy decides.
        quotas: Have the policy's limits, and the roles of users.
        prefixes: One kind of what handlers hold.
        rules: Another.
        names: Another.
        requests: Know what handlers serve.
        on_link: Called with a link of the mesh that has other rights: what it has brought is judged again.
    """

    __slots__ = (
        "_attached",
        "_forgotten",
        "_on_link",
        "_quotas",
        "_review",
        "_routes",
        "_rules",
        "_turn",
        "on_revoked",
        "policy",
    )

    def __init__(  # noqa: PLR0913 -- all that depends on rights
        self,
        turn: Turn,
        attached: Container[int],
        routes: Routes,
        quotas: Quotas,
        *,
        prefixes: PrefixSubscriptions,
        rules: RuleSubscriptions,
        names: Names,
        requests: Requests,
        on_link: Callable[[Handler], object],
    ) -> None:
        self._turn = turn
        self._on_link = on_link
        self._attached = attached
        self._routes = routes
        self._quotas = quotas
        self._rules = rules
        # Which user may do what; None while nobody is asked. `adopt` puts another in its place.
        self.policy: Policy | None = None
        # How often former policies have forgotten what was decided for a user.
        self._forgotten = 0
        # Handler → the function that tells it what was taken away from it. Its connection puts it here, if it can tell.
        self.on_revoked: dict[Handler, OnRevoked] = {}
        # Takes away what handlers may no longer hold.
        self._review = Review(turn, _held_kinds(prefixes, rules, names, requests), self._tell_revoked)

    def adopt(self, policy: Policy | None) -> None:
        """Let routes remember what this policy decides from now on, None for none, and forget what they remember.

        Handlers keep the rights that they have, and are judged by them, until they are given others (`give_rights`):
        whoever adopts a policy gives all of them new ones, a share of them in each turn. Its limits apply
        to users at once; what they hold they keep.
        """
        if policy is self.policy:
            return
        if self.policy is not None:  # it may come back
            self._forgotten += self.policy.forgotten_total
            self.policy.forgotten_total = 0
        self.policy = policy
        self._routes.adopt(policy)
        if self._routes.is_behind:
            self._turn.request()
        self._quotas.adopt(NO_LIMITS if policy is None else policy.limits)

    @property
    def forgotten_total(self) -> int:
        """How often what was decided for a user was forgotten, as it was too much, by this policy and those before."""
        return self._forgotten + (0 if self.policy is None else self.policy.forgotten_total)

    def give_rights(self, handler: Handler, rights: Rights | None) -> None:
        """Let a handler do this from now on; None for everything.

        What it may not see reaches it no more, and what it may not publish is refused, at once. What it holds and may
        no longer hold is taken away in this turn and the next ones, and it is told (`on_revoked`). Requests that are
        pending are answered.
        """
        if rights is handler.rights:
            return
        handler.rights = rights
        if handler.id not in self._attached:
            return
        if rights is not None:
            self._routes.guard()
            if handler.share is not None:
                self._quotas.give_roles(handler.share, rights.user.roles)
        self._forget_seen_by(handler)
        self._review.begin(handler)
        if handler.is_meshed:
            self._on_link(handler)

    @property
    def is_behind(self) -> bool:
        """Return whether there is something to `go_on` with."""
        return self._review.is_behind

    def go_on(self) -> None:
        """Judge and take away as much as this turn has steps for."""
        self._review.go_on()

    def forget(self, handler: Handler) -> None:
        """Judge a handler no further, and tell it nothing more: it has left, and all that it holds goes with it."""
        self.on_revoked.pop(handler, None)
        self._review.forget(handler)

    def _forget_seen_by(self, handler: Handler) -> None:
        """Forget all routes in which a handler may stand, or not stand, because of its rights."""
        if not self._routes.table:
            return
        rules = self._rules.of(handler)
        if handler.is_peer or len(handler.prefixes) + len(rules) > _FORGOTTEN_SINGLY:
            self._routes.forget_all()
            return
        for prefix in handler.prefixes:
            self._routes.forget(prefix)
        for rule in rules:
            self._routes.forget_rule(rule)

    def _tell_revoked(self, handler: Handler, error: RejectedError) -> None:
        tell = self.on_revoked.get(handler)
        if tell is not None:
            tell(error)


def _held_kinds(
    prefixes: PrefixSubscriptions, rules: RuleSubscriptions, names: Names, requests: Requests
) -> list[Kind]:
    """Return what handlers hold and must be granted, what matters at once first."""
    return [
        Kind(
            requests.served_by,
            lambda handler, rights, prefix: rights.may_all(handler.acts.serving, prefix),
            requests.take_away,
            lambda prefix: f"serve {printable(prefix)}",
        ),
        Kind(
            names.of,
            lambda _, rights, name: rights.may(Action.CLAIM, name),
            names.take_away,
            lambda name: f"claim {printable(name)}",
        ),
        Kind(
            lambda handler: () if handler.narrows else handler.prefixes,
            lambda handler, rights, prefix: rights.may_all(handler.acts.seeing, prefix),
            prefixes.take_away,
            lambda prefix: f"subscribe {printable(prefix)}",
        ),
        Kind(
            lambda handler: () if handler.narrows else rules.of(handler),
            lambda handler, rights, rule: rights.may_all(handler.acts.seeing, rule.prefix),
            rules.take_away,
            lambda rule: f"subscribe {printable(rule.prefix)} by labels",
        ),
    ]
