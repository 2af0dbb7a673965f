"""Subscribing and unsubscribing by rule: a rule names labels, a prefix and a sender.

No state. Cost: up to 40 µs a rule, which is one with 32 labels. Not here: matching (`hub.tags`).
"""

from __future__ import annotations

from collections.abc import Iterator

from hub.handler import Handler
from hub.tags.rule import check_rule
from peers.node.node import Node
from peers.wire.rules import RuleChange

__all__ = ["change_rules"]

_CHECKED_PER_STEP = 2
"""How many rules are checked in one step."""

_ADDED_AT_ONCE = 50
"""How many rules of a peer hub are added at once. A client's rules are added in one go, since either all or none of
them are taken."""


def change_rules(node: Node, handler: Handler, change: RuleChange) -> Iterator[None]:
    """Add or remove rules. The iterator does one step each time that it is advanced.

    Raises:
        InvalidNameError, InvalidTopicError: A label, sender or prefix in a rule is invalid.
        RejectedError: The far side would have too many rules.
    """
    rules = []
    for fields in change.rules:
        rules.append(check_rule(*fields))
        if not len(rules) % _CHECKED_PER_STEP:
            yield
    at_once = _ADDED_AT_ONCE if handler.is_link else max(1, len(rules))
    for start in range(0, len(rules), at_once):
        some = rules[start : start + at_once]
        if change.subscribe:
            node.core.subscribe_rules(handler, some)
        else:
            node.core.rules.unsubscribe(handler, some)
        for _ in some:
            yield
