"""`Cast`: the requester and the services beside a hub, and what a run of theirs has cost: `Run`.

In one run the command notes what the system has charged to each process, gives the requester its order, waits for the
answer, and notes again. The requester counts and checks.

Owner of the state: the command, whose `ExitStack` ends the processes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import NoneType
from typing import Any

import msgspec

from peers.bench.running_hub import RunningHub
from peers.bench.usage import read_usage
from peers.bench.worker import Worker
from peers.bench.y.asking import Ask, Asked

__all__ = ["PROCESSES", "Cast", "Run"]

PROCESSES = ("requester", "hub", "adding", "multiplying")

_START_S = 60.0
_LATE_S = 90.0
"""A requester that has not answered so long after its time has hung; each request of its own ends before."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run. CPU is what the system has charged to a process, user and kernel, ns for each pair of the run."""

    pairs: int
    wrong: int
    failed: int
    lost: int
    reasons: list[str]
    """Why pairs failed."""
    elapsed_s: float
    pairs_per_s: float
    """Right results a second."""
    p50_us: float
    """How long a pair took; 0 if more than one at a time was asked, and so is `p99_us`."""
    p99_us: float
    requester_ns: float
    hub_ns: float
    """The hub's CPU; 0 if its process is not known."""
    adding_ns: float
    """A service's CPU for each pair, although it is asked for half of them, so that all can be added: `all_ns`."""
    multiplying_ns: float
    all_ns: float

    @property
    def flawless(self) -> bool:
        """Whether every pair has got the one right result."""
        return not (self.wrong or self.failed or self.lost)

    @classmethod
    def of(cls, asked: Asked, cpu_ns: dict[str, int]) -> Run:
        """Work out the figures from what the requester says, and from what was charged to each process."""
        elapsed_s = max(asked.elapsed_ns, 1) / 1e9
        figures: dict[str, Any] = {f"{name}_ns": used / max(1, asked.pairs) for name, used in cpu_ns.items()}
        figures |= {name: getattr(asked, name) for name in ("pairs", "wrong", "failed", "lost", "reasons")}
        return cls(
            elapsed_s=elapsed_s,
            pairs_per_s=(asked.pairs - asked.wrong - asked.failed - asked.lost) / elapsed_s,
            p50_us=asked.latency.percentile(50) / 1000,
            p99_us=asked.latency.percentile(99) / 1000,
            all_ns=sum(cpu_ns.values()) / max(1, asked.pairs),
            **figures,
        )


class Cast:
    """All processes, connected.

    Args:
        stack: It ends what is started.
        hub: It runs already.
        works: For each process but the hub: what it does, and its set-up.
    """

    def __init__(self, stack: ExitStack, hub: RunningHub, works: dict[str, tuple[Callable[..., None], Any]]) -> None:
        self._hub = hub
        self._workers: dict[str, Worker] = {}
        for name, (work, setup) in works.items():
            self._workers[name] = worker = Worker(name, work, setup)
            stack.callback(worker.stop)
            worker.take(NoneType, _START_S)

    @property
    def pids(self) -> list[int]:
        """The processes, the hub among them."""
        return [self._hub.pid, *(worker.pid for worker in self._workers.values())]

    def measure(self, order: Ask) -> Run:
        """Make one run.

        Raises:
            BenchError: A process has failed or hangs.
        """
        requester = self._workers["requester"]
        before = self._cpu_ns()
        requester.order(order)
        asked = requester.take(Asked, order.seconds + _LATE_S if order.seconds else None)
        after = self._cpu_ns()
        return Run.of(asked, {name: after[name] - before[name] for name in PROCESSES})

    def _cpu_ns(self) -> dict[str, int]:
        charged = {name: read_usage(worker.pid).cpu_ns for name, worker in self._workers.items()}
        return charged | {"hub": self._hub.usage().cpu_ns}
