"""`RuleSubscriptions`: the rules of each handler, counted; the hub's `core.rules`.

Owner: the core. Invariants: the index holds a rule of a handler once, however often it was subscribed to; each change
of the index forgets what the route cache remembers of messages that the rule matches.

Cost: subscribing, unsubscribing and losing a handler cost what they touch. Memory: about 0.3 KiB a rule in the index,
and as much here. Peer hubs are told of each rule that subscribers of this hub have, once.

Not here: matching (`hub.tags.rules`), prefixes (`hub.core`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hub.counted import check_limit, give_back, take
from hub.handler import Handler, Role
from hub.tags.rule import Rule
from hub.tags.rules import RuleIndex

__all__ = ["RULES_LIMIT", "RuleSubscriptions"]

RULES_LIMIT = 1_000
"""Default of most different rules of one client, as of prefixes."""


OnRule = Callable[[Rule, bool], object]
"""Tells a peer hub that subscribers of this one have a rule, or none has it any more."""


class RuleSubscriptions:
    """Who subscribes to which rules.

    Args:
        forget: Forgets the routes that a rule matches.
        limit: Most different rules of one client.
    """

    __slots__ = ("_forget", "_held", "_here", "_limit", "_links", "index")

    def __init__(self, forget: Callable[[Rule], object], limit: int = RULES_LIMIT) -> None:
        self.index: RuleIndex[Handler] = RuleIndex()
        self._forget = forget
        self._limit = limit
        self._held: dict[Handler, dict[Rule, int]] = {}  # handler → rule → how often
        self._links: dict[Handler, OnRule] = {}
        self._here: dict[Rule, int] | None = None  # how many handlers that are no links have it; once a link asks

    def __len__(self) -> int:
        """How many pairs of rule and handler there are."""
        return len(self.index)

    def of(self, handler: Handler) -> Iterable[Rule]:
        """Return the rules of a handler."""
        return self._held.get(handler, {}).keys()

    def subscribe(self, handler: Handler, rules: Iterable[Rule]) -> None:
        """Subscribe a handler, which is attached, to each rule, all or none. Counted, as prefixes are.

        Raises:
            RejectedError: The handler would have too many.
        """
        wanted = list(rules)
        held = self._held.get(handler, {})
        if handler.role is Role.CLIENT:
            check_limit(held, wanted, self._limit, "rules")
        if wanted:
            self._held[handler] = held
        for rule in take(held, wanted):
            self._add(handler, rule)

    def unsubscribe(self, handler: Handler, rules: Iterable[Rule]) -> None:
        """Take back one subscription for each rule; those that the handler does not have are passed over."""
        held = self._held.get(handler, {})
        for rule in give_back(held, rules):
            self._remove(handler, rule)
        if not held:
            self._held.pop(handler, None)

    def forget(self, handler: Handler, most: int) -> int:
        """Remove rules of a handler that has left.

        Args:
            handler: Which.
            most: How many at most: those of a peer hub may be many.

        Returns:
            How many that were; less than `most` when none is left.
        """
        self._links.pop(handler, None)
        held = self._held.get(handler)
        if held is None:
            return 0
        removed = 0
        while held and removed < most:
            rule, _ = held.popitem()
            self._remove(handler, rule)
            removed += 1
        if not held:
            del self._held[handler]
        return removed

    def tell(self, link: Handler, on_rule: OnRule) -> None:
        """Tell a link of each rule that subscribers of this hub have, now and whenever that changes."""
        if self._here is None:
            self._here = {}
            for handler, held in self._held.items():
                if not handler.is_link:
                    for rule in held:
                        self._here[rule] = self._here.get(rule, 0) + 1
        self._links[link] = on_rule
        for rule in self._here:
            on_rule(rule, True)

    def _add(self, handler: Handler, rule: Rule) -> None:
        self.index.add(rule, handler)
        self._forget(rule)
        if self._here is not None and not handler.is_link:
            for new in take(self._here, (rule,)):
                self._tell(new, added=True)

    def _remove(self, handler: Handler, rule: Rule) -> None:
        self.index.discard(rule, handler)
        self._forget(rule)
        if self._here is not None and not handler.is_link:
            for gone in give_back(self._here, (rule,)):
                self._tell(gone, added=False)

    def _tell(self, rule: Rule, *, added: bool) -> None:
        for on_rule in list(self._links.values()):
            on_rule(rule, added)
