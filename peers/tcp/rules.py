"""Rules over one connection: those of a client, and what hubs tell each other of their clients' rules.

```
client, link: RULE, UNRULE ─▶ core.rules ─▶ confirmed, error
link:         core.rules ─▶ changes, merged per turn ─▶ RULE, UNRULE
```

Owner: one connection. Invariant of `LinkRules`: replaying what was told gives the rules that this hub's own subscribers
have, each once. Not here: matching (`hub.tags`), prefixes (`peers.tcp.connection`).
"""

from __future__ import annotations

from typing import Protocol

from hub.errors import RejectedError
from hub.handler import Handler
from hub.routes import Route
from hub.tags.rule import Rule
from peers.node import Node
from peers.wire.kinds import Kind
from peers.wire.rules import RuleChange, checked_rules, encode_rules
from peers.wire.session import Session

__all__ = ["LinkRules", "change_rules"]

_RULES_PER_FRAME = 500
"""Told in one frame: 5 ms of work for who reads it."""

_FRAMES_PER_TURN = 4

_AROUND_BYTES = 16
"""What a frame has beside its rules."""

_BESIDE_BYTES = 16
"""What a rule has beside its texts: their heads, and its own."""

_BESIDE_LABEL_BYTES = 2


def change_rules(node: Node, handler: Handler, session: Session[Route], change: RuleChange) -> int:
    """Do what RULE or UNRULE asks for, and answer; return its share of a turn beside the frame's own."""
    try:
        rules = checked_rules(change.rules)
        if change.subscribe:
            node.core.subscribe_rules(handler, rules)
        else:
            node.core.rules.unsubscribe(handler, rules)
    except RejectedError as error:
        session.reject(error, change.request)
    else:
        session.confirm(change.request, node.journal.position())
    return len(change.rules)


class Asker(Protocol):
    """The connection."""

    def answer(self, frame: bytes) -> None:
        """Say something, if there is still somebody to hear it."""


class LinkRules:
    """What a peer hub is told of the rules of this hub's own subscribers.

    Args:
        node: This hub.
        handler: Of the link, attached.
        asker: Where it is told.
        limit_bytes: Largest body that the peer takes. A rule that alone is over it is told all the same.
    """

    __slots__ = ("_asker", "_changes", "_handler", "_limit_bytes", "_node")

    def __init__(self, node: Node, handler: Handler, asker: Asker, limit_bytes: int) -> None:
        self._node = node
        self._handler = handler
        self._asker = asker
        self._limit_bytes = limit_bytes
        self._changes: dict[Rule, bool] = {}  # not told yet → whether it is added
        node.core.rules.tell(handler, self._change)

    def _change(self, rule: Rule, added: bool) -> None:  # noqa: FBT001 -- one of two
        if not self._changes:
            self._node.after_turn(self.write_more)
        if self._changes.get(rule, added) is not added:
            del self._changes[rule]  # it was not told yet
        else:
            self._changes[rule] = added

    def write_more(self) -> None:
        """Tell what there is to tell, while the peer reads; a turn's share, the rest in the next."""
        for _ in range(_FRAMES_PER_TURN):
            if not self._changes or not self._handler.writable:
                return
            self._asker.answer(self._take())
        if self._changes:
            self._node.after_turn(self.write_more)

    def _take(self) -> bytes:
        """Return the next frame: rules of one kind, as many as it takes."""
        some: list[Rule] = []
        size_bytes = _AROUND_BYTES
        kind = next(iter(self._changes.values()))
        for rule, added in self._changes.items():
            size_bytes += _size_of(rule)
            if added is not kind or (some and (len(some) == _RULES_PER_FRAME or size_bytes > self._limit_bytes)):
                break
            some.append(rule)
        for rule in some:
            del self._changes[rule]
        return encode_rules(Kind.RULE if kind else Kind.UNRULE, some)


def _size_of(rule: Rule) -> int:
    labels = sum(len(label.encode()) + _BESIDE_LABEL_BYTES for label in rule.labels)
    return labels + len(rule.prefix.encode()) + len(rule.sender) + _BESIDE_BYTES
