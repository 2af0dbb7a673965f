"""`LinkRules`: the rules of this hub's own subscribers, on their way to a peer hub.

```
core.rules ─▶ changes, merged per turn ─▶ RULE, UNRULE
```

Owner: one connection. Invariant: replaying what was told gives the rules that this hub's own subscribers have, each
once, but for what the peer has refused for now (`peers.links.attempts`). A peer adds the rules of a frame in several
steps, so that it may have a part of what it refuses: that is taken back first.

Not here: matching (`hub.tags`), what clients and peers subscribe to (`peers.verbs.verbs`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from hub.tags.rules import Rule
from peers.links.attempts import Attempts
from peers.wire.kinds import Kind
from peers.wire.rules import encode_rules

__all__ = ["LinkRules"]

_RULES_PER_FRAME = 500
"""Told in one frame: 5 ms of work for who reads it."""

_AROUND_BYTES = 16
"""What a frame has beside its rules."""

_BESIDE_BYTES = 16
"""What a rule has beside its texts: their heads, and its own."""

_BESIDE_LABEL_BYTES = 2


class LinkRules:
    """What a peer hub is told of the rules of this hub's own subscribers.

    Args:
        due: Called with this object when there is something to tell.
        limit_bytes: Largest body that the peer takes. A rule that alone is over it is told all the same.
        numbers: Numbers frames that the peer answers.
    """

    __slots__ = ("_changes", "_due", "_limit_bytes", "_taken_back", "attempts")

    def __init__(self, due: Callable[[LinkRules], None], limit_bytes: int, numbers: Iterator[int]) -> None:
        self._due = due
        self.attempts: Attempts[Rule, None] = Attempts(numbers, _RULES_PER_FRAME)
        # Of each frame that was refused, the rules that the peer may have added: they are taken back before all else.
        self._taken_back: list[list[Rule]] = []
        self._limit_bytes = limit_bytes
        self._changes: OrderedDict[Rule, bool] = OrderedDict()  # not told yet → whether it is added

    def change(self, rule: Rule, added: bool) -> None:  # noqa: FBT001 -- one of two
        """Note that a rule is wanted from now on, or no more; an opposite change that was not told yet is cancelled."""
        if not added and self.attempts.drop(rule):
            return
        if self._changes.get(rule, added) is not added:
            del self._changes[rule]  # it was not told yet
        else:
            self._changes[rule] = added
            self._due(self)

    def take(self) -> bytes:
        """Return the next frame: rules of one kind, as many as it takes. Nothing if there are none."""
        if self._taken_back:
            return self._take_back()
        if not self._changes:
            return b""
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
        if self._changes:
            self._due(self)
        if kind:
            return encode_rules(Kind.RULE, some, self.attempts.ask(dict.fromkeys(some)))
        for rule in some:
            self.attempts.forget(rule)
        return encode_rules(Kind.UNRULE, some)

    def _take_back(self) -> bytes:
        """Return the frame that takes back what is left of one that was refused; what else there is follows."""
        self._due(self)
        return encode_rules(Kind.UNRULE, self._taken_back.pop(0))

    def refuse(self, number: int, *, for_now: bool) -> bool:
        """The peer has refused a frame; return False if it is none of these."""
        refused = self.attempts.refuse(number, for_now=for_now)
        if refused and for_now:
            unwanted = {rule for rule in refused if self._changes.get(rule) is False}  # that is still to be told
            for rule in unwanted:
                self.attempts.drop(rule)
            wanted = [rule for rule in refused if rule not in unwanted]
            if wanted:
                self._taken_back.append(wanted)
                self._due(self)
        return refused is not None

    def try_again(self) -> None:
        """Tell some of what the peer has refused."""
        for rule in self.attempts.some():
            self._changes[rule] = True
            self._due(self)


def _size_of(rule: Rule) -> int:
    labels = sum(len(label.encode()) + _BESIDE_LABEL_BYTES for label in rule.labels)
    return labels + len(rule.prefix.encode()) + len(rule.sender) + _BESIDE_BYTES
