"""`Score`: what has become of the pairs of one run; and when it is to end.

Owner of the state: the requester. Invariant: in the end `pairs` is the sum of right, wrong, failed and lost ones.
"""

from __future__ import annotations

import time

from peers.bench.board import Board
from peers.bench.histogram import Histogram
from peers.bench.orders import Ask, Asked

__all__ = ["Score"]

_REASONS = 5
"""Different ones that are kept; the rest is counted."""


class Score:
    """Counts of a run, and its clock.

    Args:
        order: When to end.
        board: Told how many pairs were checked.
    """

    __slots__ = ("_board", "_deadline_ns", "_failed", "_most", "_pairs", "_reasons", "_start_ns", "_wrong", "checked",
                 "latency")  # fmt: skip

    def __init__(self, order: Ask, board: Board) -> None:
        self._board = board
        self._most = order.pairs
        self._start_ns = time.perf_counter_ns()
        self._deadline_ns = self._start_ns + round(order.seconds * 1e9) if order.seconds else 0
        self._pairs = self._wrong = self._failed = 0
        self._reasons: dict[str, None] = {}
        self.checked = 0
        """Pairs that are settled: answered and looked at."""
        self.latency = Histogram()

    @property
    def more(self) -> int:
        """How many more pairs may be asked; 0 when the run is to end."""
        if self._deadline_ns and time.perf_counter_ns() >= self._deadline_ns:
            return 0
        return self._most - self._pairs if self._most else 1 << 62

    @property
    def open(self) -> int:
        """How many pairs are asked and not settled."""
        return self._pairs - self.checked

    def ask(self, pairs: int) -> None:
        """So many more are asked."""
        self._pairs += pairs

    def settle(self, pairs: int, wrong: int) -> None:
        """So many were answered, and of these so many with a wrong result."""
        self.checked += pairs
        self._wrong += wrong
        self._board.sent[0] += pairs

    def fail(self, pairs: int, reason: str) -> None:
        """So many were answered with an error."""
        self.checked += pairs
        self._failed += pairs
        self._board.sent[0] += pairs
        if len(self._reasons) < _REASONS:
            self._reasons[reason] = None

    def asked(self) -> Asked:
        """Return what the command is told; what is open now is lost."""
        return Asked(
            pairs=self._pairs,
            wrong=self._wrong,
            failed=self._failed,
            lost=self.open,
            reasons=list(self._reasons),
            elapsed_ns=time.perf_counter_ns() - self._start_ns,
            latency=self.latency.dump(),
        )
