"""`Turn`: when the core is called next, and how much of the work that can wait it then still does.

Whoever leaves may leave much behind: 100,000 subscriptions of a peer hub, or a few of each of 9,000 clients that a
failing network took at once. All of that is taken out in steps, and all of it together gets one share of each turn, so
that those who stay never wait longer than that for those who leave.

Owner: the core. Invariants: the shell is called once for each turn, however many ask for it; what does not get a step
has asked for the next turn. Cost: an addition a step.

Not here: what a step does (`hub.departures`, `hub.authority`, `hub.names.names`, `hub.requests.requests`).
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["STEPS_PER_TURN", "Turn"]

STEPS_PER_TURN = 250
"""How many steps are done in one turn: about 5 ms, since taking one prefix out of the routing takes 10 to 20 µs."""


class Turn:
    """The next turn, and what is left of the share of this one.

    Args:
        wake: Calls the core at the end of this turn of the event loop. It is not called again before `begin`.
    """

    __slots__ = ("_is_requested", "_steps_left", "_wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._is_requested = False
        """Set once the shell was asked to call the core; cleared when it does."""
        self._steps_left = STEPS_PER_TURN
        """Set to the whole share as a turn begins; every step takes from it."""

    def request(self) -> None:
        """See to it that the core is called once more. Asking again before that changes nothing."""
        if not self._is_requested:
            self._is_requested = True
            self._wake()

    def begin(self) -> None:
        """Begin with a whole share again: the shell has called the core."""
        self._is_requested = False
        self._steps_left = STEPS_PER_TURN

    def step(self, cost: int = 1) -> bool:
        """Take one step from the share of this turn.

        Args:
            cost: How many ordinary steps it takes as long as.

        Returns:
            Whether it may be done now. If not, the next turn was asked for.
        """
        if self._steps_left <= 0:
            self.request()
            return False
        self._steps_left -= cost
        return True

    def spend(self, steps: int) -> None:
        """Take steps from the share that were done already, as they go together."""
        self._steps_left -= steps
