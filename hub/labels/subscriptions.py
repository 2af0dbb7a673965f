"""`RuleSubscriptions`: the rules of each handler, counted; the hub's `core.rules`.

The index holds a rule of a handler once; each change of it forgets the routes of messages that the rule matches. The
mesh gets each rule that subscribers of this hub have, once. About 0.3 KiB a rule in the index, and as much here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from hub.handlers.delivery import RemoteHub
from hub.handlers.handler import Handler
from hub.handlers.holdings import Allowance, give_back, take
from hub.labels.rules import Rule, RuleIndex

OnRule = Callable[[Rule, bool], object]  # Called with a rule, and whether subscribers of this hub have it


class RuleSubscriptions:
    """The rules by which handlers have subscribed."""

    __slots__ = ("_forget", "_held", "_here", "_index", "_on_rule", "allowed")

    def __init__(
        self, index: RuleIndex[Handler | RemoteHub], forget: Callable[[Rule], object], allowed: Allowance[Rule]
    ) -> None:
        self._index = index
        self._forget = forget
        self.allowed = allowed
        # Handler → rule → how often it has subscribed by it. A rule goes when it was taken back as often.
        self._held: dict[Handler, dict[Rule, int]] = {}
        self._on_rule: OnRule  # Announces rules to the mesh
        # Rule → for how many handlers other hubs are asked for it; None before `tell`.
        self._here: dict[Rule, int] | None = None

    def __len__(self) -> int:
        return len(self._index)

    def of(self, handler: Handler) -> Collection[Rule]:
        return self._held.get(handler, {}).keys()

    def check(self, handler: Handler, rules: Collection[Rule]) -> None:
        """Check that a handler would not have too many rules with these; `subscribe` does so itself.

        Raises:
            RejectedError: It would.
        """
        self.allowed.check(handler, self._held.get(handler, {}), rules)

    def subscribe(self, handler: Handler, rules: Iterable[Rule]) -> None:
        """Subscribe a handler, which is attached, to each rule, all or none; twice must be taken back twice.

        Raises:
            RejectedError: The handler would have too many.
        """
        for _ in self.subscribing(handler, rules):
            pass

    def subscribing(self, handler: Handler, rules: Iterable[Rule]) -> Iterator[None]:
        """Subscribe in steps; the rest is dropped when the handler leaves. Errors come with the first step."""
        wanted = list(rules)
        held = self._held.get(handler, {})
        for rule in self.allowed.taking(handler, held, wanted):
            self._held[handler] = held
            self._add(handler, rule)
            yield
            if handler.closed:
                return

    def unsubscribe(self, handler: Handler, rules: Iterable[Rule]) -> None:
        """Take back one subscription for each rule; those that the handler does not have are passed over."""
        for _ in self.unsubscribing(handler, rules):
            pass

    def unsubscribing(self, handler: Handler, rules: Iterable[Rule]) -> Iterator[None]:
        held = self._held.get(handler, {})
        for rule in rules:
            if self.allowed.give_back(handler, held, rule):
                self._remove(handler, rule)
                yield
        if not held:
            self._held.pop(handler, None)

    def take_away(self, handler: Handler, rule: Rule) -> None:
        """Remove a rule of a handler, however often it has subscribed by it."""
        held = self._held.get(handler, {})
        if self.allowed.take_away(handler, held, rule):
            self._remove(handler, rule)
        if not held:
            self._held.pop(handler, None)

    def forgetting(self, handler: Handler) -> Iterator[None]:
        """Remove the rules of a handler that has left, in steps."""
        held = self._held.get(handler, {})
        while held:
            self._remove(handler, self.allowed.give_back_any(handler, held))
            yield
        self._held.pop(handler, None)

    def tell(self, on_rule: OnRule) -> None:
        self._here = {}
        for handler, held in self._held.items():
            for rule in held:
                if handler.delivery.asks_links(rule.prefix):
                    self._here[rule] = self._here.get(rule, 0) + 1
        self._on_rule = on_rule
        for rule in self._here:
            on_rule(rule, True)

    def changing(self, far: RemoteHub, added: Iterable[Rule], removed: Iterable[Rule]) -> Iterator[None]:
        """Change the rules of another hub of the mesh, in steps; new ones first, as they may replace many."""
        held = far.rules
        for rule in added:
            if rule not in held:
                held[rule] = None
                self._add(far, rule)
                yield
        for rule in removed:
            if held.pop(rule, far) is None:
                self._remove(far, rule)
                yield

    def _add(self, handler: Handler | RemoteHub, rule: Rule) -> None:
        self._index.add(rule, handler)
        self._forget(rule)
        if self._here is not None and handler.delivery.asks_links(rule.prefix) and take(self._here, rule):
            self._on_rule(rule, True)

    def _remove(self, handler: Handler | RemoteHub, rule: Rule) -> None:
        self._index.discard(rule, handler)
        self._forget(rule)
        if self._here is not None and handler.delivery.asks_links(rule.prefix) and give_back(self._here, rule):
            self._on_rule(rule, False)
