"""Which tests stay together in one worker, and what becomes of the tests of a worker that is lost.

pytest-xdist's `LoadScopeScheduling` does not survive a lost worker. It gives everything back that the worker was ever
assigned:

* units whose tests are all done. Whichever worker takes one of them is sent an empty list, does not answer, and waits
  for ever, because a worker keeps its last test until it knows whether another one follows;
* the test that took the worker with it, which then takes the next worker, and so on.

Here, only tests that have not been run are given back, and the test that was running counts as failed and is not tried
again. A worker always holds more than one test, or has been told that no more will come, so that none waits for a
successor of its last one.

What takes longest begins first, so that the workers come to their end together. Of what is not in `_LONG`, files with
many tests begin first.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# A worker that has no more than so many tests left is given the next unit: it must never wait with a single test
_AHEAD_TESTS = 2

_LONG = (
    "tests/spark/",
    "tests/workers/",
    "tests/packaging/",
    "tests/suite/",
    "tests/faults/",
    "tests/journal/tier/",
    "tests/mesh_simulation/",
    "tests/fuzz/",
    "tests/cli/test_tier.py",
    "tests/shm/",
    "tests/bench/",
    "tests/benchmarks/",
    "tests/console/",
    "tests/daemon/",
    "tests/cli/",
    "tests/links/",
    "tests/connections/websocket/",
)
"""What takes long for its number of tests, most of it in other processes; folders end in a slash."""


class ScopeScheduling(LoadScopeScheduling):
    """Keeps the tests of a file in one worker, and all those of Spark in one: to start and warm up Java costs most."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # Workers that could not be sent anything any more; each goes when its end is heard of.
        self._unreachable: set[WorkerController] = set()

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a worker out, and give the tests back that it has not begun."""
        self._unreachable.discard(node)
        units = self.assigned_work.pop(node)
        if self.collection is None:  # its successor is to collect before anything is shared out
            self.registered_collections.pop(node, None)
        left = {
            scope: tests
            for scope, unit in units.items()
            if (tests := {test: False for test, is_done in unit.items() if not is_done})
        }
        if not left:
            return None
        # A worker runs units in the order in which it got them, and tests in the order of their unit.
        first = next(iter(left.values()))
        lost = next(iter(first))
        del first[lost]
        self.workqueue.update({scope: tests for scope, tests in left.items() if tests})
        for each in self.assigned_work:
            self._reschedule(each)
        return lost

    def _reschedule(self, node: WorkerController) -> None:
        if node.shutting_down or node not in self.registered_collections:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) <= _AHEAD_TESTS:
            if node in self._unreachable:
                return
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a worker a unit; one that has ended, which is not known yet, does not get it."""
        self.workqueue.move_to_end(min(self.workqueue, key=_rank), last=False)
        try:
            super()._assign_work_unit(node)
        except OSError:
            self._unreachable.add(node)
            scope, unit = self.assigned_work[node].popitem()
            self.workqueue[scope] = unit
            self.workqueue.move_to_end(scope, last=False)

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        return "tests/spark/" if path.startswith("tests/spark/") else path


def _rank(scope: str) -> int:
    return next((rank for rank, start in enumerate(_LONG) if scope.startswith(start)), len(_LONG))
