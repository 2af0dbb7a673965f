"""`Authority`: the policy, the rights of each handler, and the check of each message.

```
adopt ─▶ routes forget cached decisions, users get other limits
give_rights ─▶ at once: seeing and publishing ─▶ in steps: revoked subscriptions are removed ─▶ one notice
Core.publish, publish_stretch ──▶ checked against the route or the topics ──▶ routed on
                                                    └─▶ the rest: rejected (`on_refused`)
```

A handler is judged by its own rights, also while another policy is already asked of routes. The core asks for messages
only where some may have to be rejected: messages with a sender, changes of a store, or a domain in which the source was
not seen to publish yet. Callers that confirm messages ask before (`check`), and answer with the error.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, cast

from hub.errors import CloseCode, RejectedError
from hub.handlers.handler import Handler
from hub.labels.subscriptions import RuleSubscriptions
from hub.messages.batch import Batch
from hub.messages.frame import Frame, encode_frame
from hub.messages.stretch import Stretch
from hub.names.names import Names
from hub.policy.policy import Action, Policy, Rights, not_granted
from hub.quotas import NO_LIMITS, Quotas
from hub.requests.requests import Requests
from hub.routing.routes import Route, Routes, changes_refused
from hub.routing.subscriptions import PrefixSubscriptions
from hub.scheduling.scheduler import Scheduler
from hub.topics import printable

_JUDGED_PER_STEP = 8  # Things that are judged in one step of the turn: 2 µs each

_SHOWN = 8  # Things that the notice names that were taken away

_FORGOTTEN_SINGLY = 100
"""Where a handler with more prefixes and rules than these gets other rights, all routes are forgotten: 5 µs each."""

OnRevoked = Callable[[RejectedError], object]  # Notifies a handler of a revocation

OnRefused = Callable[[RejectedError, int], object]  # Notifies a handler of so many rejected messages

HandlersOf = Callable[[Route], tuple[Handler, ...]]


class Kind(NamedTuple):
    """One kind of thing that handlers hold and must be granted."""

    held: Callable[[Handler], Iterable[Any]]
    may_hold: Callable[[Handler, Rights, Any], bool]
    take_away: Callable[[Handler, Any], object]
    show: Callable[[Any], str]  # Names one for people


class Authority:
    """The policy, and the rights of handlers."""

    def __init__(  # noqa: PLR0913 -- all that depends on rights
        self,
        scheduler: Scheduler,
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
        self._scheduler = scheduler
        self._on_link = on_link
        self._attached = attached
        self._routes = routes
        self._quotas = quotas
        self._rules = rules
        self.policy: Policy | None = None
        # How often former policies have dropped cached decisions of a user.
        self._forgotten = 0
        # Callbacks of connections that can notify their far side.
        self.on_revoked: dict[Handler, OnRevoked] = {}
        self.on_refused: dict[Handler, OnRefused] = {}
        self._kinds = _held_kinds(prefixes, rules, names, requests)

    def adopt(self, policy: Policy | None) -> None:
        """Let routes cache the decisions of this policy, None for none, and drop those of the former.

        Handlers keep their rights until they get others (`give_rights`): the caller gives all of them new
        ones, a share of them in each turn. Its limits apply to users at once; existing state is kept.
        """
        if policy is self.policy:
            return
        if self.policy is not None:  # it may come back
            self._forgotten += self.policy.forgotten_total
            self.policy.forgotten_total = 0
        self.policy = policy
        self._routes.adopt(policy)
        self._quotas.adopt(NO_LIMITS if policy is None else policy.limits)

    @property
    def forgotten_total(self) -> int:
        """How often decisions for a user were forgotten, as they were too many, by this policy and those before."""
        return self._forgotten + (0 if self.policy is None else self.policy.forgotten_total)

    def give_rights(self, handler: Handler, rights: Rights | None) -> None:
        """Give a handler these rights from now on; None for all.

        Seeing and publishing change at once. Subscriptions no longer granted are removed in this turn and the next
        ones (`on_revoked`). Pending requests are answered.
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
        if rights is not None:
            self._scheduler.add(Authority, self._judge(handler, rights))
        if handler.is_link:
            self._on_link(handler)

    def forget(self, handler: Handler) -> None:
        """Call the callbacks of a handler no more: it has left."""
        self.on_revoked.pop(handler, None)
        self.on_refused.pop(handler, None)

    def _judge(self, handler: Handler, rights: Rights) -> Iterator[None]:
        """Remove in steps all that is not granted, until the handler leaves or gets other rights."""
        taken: list[str] = []
        yield from self._take_away(handler, rights, taken)
        tell = self.on_revoked.get(handler)
        if taken and tell is not None:
            more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
            what = ", ".join(taken[:_SHOWN])
            text = f"no longer granted to user {printable(rights.user.name)}, and removed: {what}{more}"
            tell(RejectedError(CloseCode.NOT_ALLOWED, text))

    def _take_away(self, handler: Handler, rights: Rights, taken: list[str]) -> Iterator[None]:
        number = 0
        for held, may_hold, take_away, show in self._kinds:
            for one in list(held(handler)):
                if handler.closed or handler.rights is not rights:
                    return
                number += 1
                if not may_hold(handler, rights, one):
                    take_away(handler, one)
                    taken.append(show(one))
                    yield
                elif not number % _JUDGED_PER_STEP:
                    yield

    def _forget_seen_by(self, handler: Handler) -> None:
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

    # Messages.

    def refuse_owned(self, source: Handler, route: Route, batch: Batch) -> None:
        """Reject a batch that only another handler may publish."""
        self._reject(source, _not_its_own(route, batch), batch.messages)

    def granted(self, source: Handler, route: Route, batch: Batch) -> Batch | None:
        """Return the part of a batch that `source` may publish, or None; reject the rest."""
        granted, refused = _parted(source, route, batch)
        if refused is not None:
            self._reject(source, _not_granted_to(source, refused), refused.messages)
        return granted

    def granted_of(self, source: Handler, stretch: Stretch[Route], handlers_of: HandlersOf) -> HandlersOf:
        """Reject the runs of a stretch that `source` may not publish; return the receivers of the rest."""
        refused: set[Route] = set()
        for route, numbers in stretch.places.items():
            if not route.may_bring(source):
                error = _not_its_own(route, stretch.run(numbers[0]))
            elif not may_publish(source, route):
                error = _not_granted_to(source, stretch.run(numbers[0]))
            else:
                continue
            refused.add(route)
            messages = sum([stretch.messages[number] for number in numbers])
            source.published_messages -= messages
            self._reject(source, error, messages)
        return partial(_no_handlers_for, refused, handlers_of) if refused else handlers_of

    @staticmethod
    def check(source: Handler, route: Route, batch: Batch) -> None:
        """Check that `source` may publish on a route, for callers that answer with the error.

        Raises:
            RejectedError: The messages bear a name that is not its own, claim changes of a store, or are not granted.
        """
        if not route.may_bring(source):
            raise _not_its_own(route, batch)
        if source.is_unbound or source.publishes_in is None or route.domains in source.publishes_in:
            return
        _, refused = _parted(source, route, batch)
        if refused is not None:
            raise _not_granted_to(source, refused)

    def _reject(self, source: Handler, error: RejectedError, messages: int) -> None:
        tell = self.on_refused.get(source)
        if tell is not None:
            tell(error, messages)


def _held_kinds(
    prefixes: PrefixSubscriptions, rules: RuleSubscriptions, names: Names, requests: Requests
) -> list[Kind]:
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


def is_decided_by_route(source: Handler, routes: Iterable[Route]) -> bool:
    """Return whether routes cache the decision for `source`.

    They do not while a policy takes the place of another: for reads from before, and for handlers with rights of
    the one before. Then each topic is asked for.
    """
    rights = source.rights
    return rights is None or all(
        route.domains is not None and route.domains.policy is rights.policy for route in routes
    )


def may_publish(source: Handler, route: Route) -> bool:
    """Return whether a route is granted to `source`, as the route says; remember it if it is."""
    rights, domains = source.rights, route.domains
    return rights is None or (domains is not None and rights.may_in(source.acts.publishing, domains))


def _parted(source: Handler, route: Route, batch: Batch) -> tuple[Batch | None, Batch | None]:
    rights, action = source.rights, source.acts.publishing
    if is_decided_by_route(source, (route,)) or rights is None:
        return (batch, None) if may_publish(source, route) else (None, batch)
    granted = {topic: rights.may(action, topic.decode()) for topic in set(batch.topics())}
    if len(set(granted.values())) == 1:
        return (batch, None) if all(granted.values()) else (None, batch)
    frames: dict[bool, list[Frame]] = {True: [], False: []}
    for frame in batch.parts():
        frames[granted[frame.topic]].append(frame)
    return _joined(frames[True]), _joined(frames[False])


def _joined(frames: list[Frame]) -> Batch:
    raw = b"".join([encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags) for frame in frames])
    return Batch(raw, sum([frame.messages for frame in frames]))


def _not_its_own(route: Route, refused: Batch) -> RejectedError:
    if not route.sender:
        return changes_refused(next(iter(refused.topics())).decode())
    return RejectedError(CloseCode.NOT_ALLOWED, f"sender {printable(route.sender)}: that name is not yours")


def _not_granted_to(source: Handler, refused: Batch) -> RejectedError:
    topic = next(iter(refused.topics())).decode()
    return not_granted(cast("Rights", source.rights), source.acts.publishing, topic)


def _no_handlers_for(refused: set[Route], handlers_of: HandlersOf, route: Route) -> tuple[Handler, ...]:
    return () if route in refused else handlers_of(route)
