"""`Departures`: what those leave behind who are gone, given back a share in each turn.

```
a far side is gone ─▶ depart: what it had is given back ─▶ its handler is detached ─▶ leave: prefixes, rules
                      at once, or in its place in a line                              in steps
```

Owner: the core. Invariants: far sides are given back in the order in which they went; a handler that has left stands in
routes, and takes nothing, until the last of its prefixes and rules is taken out.

Cost: of one that goes alone, that of what it had; 9,000 that go at once cost a turn no more than one share of it
(`hub.turn`).

Not here: what a far side had (`peers.connections`), how subscriptions are taken out (`hub.prefixes`,
`hub.tags.subscriptions`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from hub.errors import RejectedError
from hub.handler import Handler
from hub.policy.grants import User
from hub.prefixes import PrefixSubscriptions
from hub.quotas.quotas import Quotas
from hub.tags.subscriptions import RuleSubscriptions
from hub.turn import Turn


class Entrance:
    """Who has a share, and who is turned away.

    Args:
        quotas: What users hold.
        turn: Asked for when somebody is turned away.
    """

    __slots__ = ("_quotas", "_turn", "_turned_away")

    def __init__(self, quotas: Quotas, turn: Turn) -> None:
        self._quotas = quotas
        self._turn = turn
        # Handlers whose users have too many connections, with what they are told as the turn ends.
        self._turned_away: list[tuple[Handler, RejectedError]] = []

    def enter(self, handler: Handler, user: User) -> None:
        """Give a handler its user's share; what it does in this turn is nobody's where it is one too many.

        A handler whose connection was charged already brings the share.
        """
        if handler.share is not None:
            self._quotas.give_roles(handler.share, user.roles)
            return
        try:
            handler.share = self._quotas.join(user.name, user.roles)
        except RejectedError as error:
            self._turned_away.append((handler, error))
            self._turn.request()

    def leave(self, handler: Handler) -> None:
        """Give a connection back to its user, if it was charged to him."""
        if handler.share is not None:
            self._quotas.leave(handler.share)

    def turn_away(self) -> None:
        """Close those whose users have too many connections, as the turn ends."""
        if not self._turned_away:
            return
        turned_away, self._turned_away = self._turned_away, []
        for handler, error in turned_away:
            handler.close(error.code, error.text)


_STEPS_PER_DEPARTURE = 5
"""What it costs to give back all that one far side had, beside its prefixes: about 50 µs."""


class Departures:
    """Those who are gone, and have not given back everything.

    Args:
        turn: Gives the steps.
        prefixes: Has the prefixes of handlers.
        rules: Has their rules.
    """

    __slots__ = ("_departing", "_leaving", "_prefixes", "_rules", "_turn")

    def __init__(self, turn: Turn, prefixes: PrefixSubscriptions, rules: RuleSubscriptions) -> None:
        self._turn = turn
        self._prefixes = prefixes
        self._rules = rules
        # What is still to be done for far sides that are gone, in their order.
        self._departing: deque[Callable[[], object]] = deque()
        # Handlers that have left but still have prefixes or rules. A handler joins them as it is detached.
        self._leaving: deque[Handler] = deque()

    def __iter__(self) -> Iterator[Handler]:
        """Walk over the handlers that have left but still have prefixes or rules."""
        return iter(self._leaving)

    def depart(self, give_back: Callable[[], object]) -> None:
        """Give back what a far side had that is gone: at once, or in a later turn, where many have gone in this one.

        Args:
            give_back: Called exactly once, behind all others that were brought here before; must not raise.
        """
        if self._departing or not self._turn.step(_STEPS_PER_DEPARTURE):
            self._departing.append(give_back)
        else:
            give_back()

    def leave(self, handler: Handler) -> None:
        """Take out the subscriptions of a handler that was detached, beginning with this turn."""
        self._leaving.append(handler)
        self._take_out()

    @property
    def is_behind(self) -> bool:
        """Return whether there is something to `go_on` with."""
        return bool(self._departing or self._leaving)

    def go_on(self) -> None:
        """Give back as much as this turn has steps for: what far sides had, then subscriptions of handlers."""
        departing, turn = self._departing, self._turn
        while departing and turn.step(_STEPS_PER_DEPARTURE):
            departing.popleft()()
        self._take_out()

    def _take_out(self) -> None:
        """Take out subscriptions of handlers that have left, as many as this turn has steps for."""
        turn = self._turn
        while self._leaving:
            handler = self._leaving[0]
            if not self._prefixes.forget(handler, turn) or not self._rules.forget(handler, turn):
                return
            self._leaving.popleft()
