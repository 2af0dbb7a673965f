"""`run_y`: the hub, the two services and the requester, set up, measured in each mode and put away.

One run: note what the system has charged to each process, give the requester its order, look at the board for the
progress bar until the answer is there, note again. The requester counts and checks; a short run that does not count
comes before the first one of each mode.

Owner of the state: the command.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from peers.bench.board import Board
from peers.bench.environment import Environment
from peers.bench.errors import BenchError
from peers.bench.orders import Answer, Ask, Asked, Ready, RequesterSetup, ServiceSetup
from peers.bench.running_hub import RunningHub
from peers.bench.stage import Told, Watch
from peers.bench.usage import machine_cpu_ns, read_usage
from peers.bench.worker import Worker
from peers.bench.y.figures import Figures, Run
from peers.bench.y.operation import Mode, Operation
from peers.bench.y.plan import Plan

__all__ = ["Stage", "run_y"]

_START_S = 60.0
_POLL_S = 0.2
_SILENCE_S = 90.0
"""A requester whose numbers on the board stand still for so long has hung; each request of its own ends before."""

_WARM_UP_S = 0.3


class Stage:
    """All processes, connected.

    Args:
        plan: Checked.
        hub: Runs.
        descriptor: Of the board.
        stack: Gets the processes that are started.
    """

    def __init__(self, plan: Plan, hub: RunningHub, descriptor: int, stack: ExitStack) -> None:
        self.plan = plan
        self._hub = hub
        self._board = Board(descriptor, 1, 1)
        self._warm: set[Mode] = set()
        self._cpus = os.sched_getaffinity(0)
        topic = f"/y/{secrets.token_hex(4)}"
        fixed: dict[str, Any] = {"url": hub.url("tcp"), "board": descriptor, "publishers": 1, "subscribers": 1}
        fixed |= {"topic": topic, "shared": plan.shared, "ring_bytes": plan.ring_bytes}
        self._workers: dict[str, Worker] = {}

        def start(name: str, module: str, setup: RequesterSetup | ServiceSetup) -> None:
            worker = Worker(f"y.{module}", setup, (descriptor,))
            stack.callback(worker.stop)
            self._workers[name] = worker

        for name, operation in (("adding", Operation.ADD), ("multiplying", Operation.MULTIPLY)):
            start(name, "service", ServiceSetup(**fixed, operation=operation, records="batched" in plan.modes))
        for worker in self._workers.values():
            _expect_ready(worker.take(_START_S))
        requester = secrets.randbits(64)
        start("requester", "requester", RequesterSetup(**fixed, requester=requester))
        _expect_ready(self._workers["requester"].take(_START_S))

    def measure(self, mode: Mode, watch: Watch) -> Run:
        """Make one run.

        Raises:
            BenchError: A process has failed or hangs.
        """
        plan = self.plan
        self._place(mode)
        if mode not in self._warm:
            self._warm.add(mode)
            self._ask(mode, plan.pairs, min(_WARM_UP_S, plan.seconds), watch)
        before = self._cpu_ns()
        asked = self._ask(mode, plan.pairs, 0 if plan.pairs else plan.seconds, watch)
        after = self._cpu_ns()
        return Run.of(mode, asked, {name: after[name] - before[name] for name in after})

    def _ask(self, mode: Mode, pairs: int, seconds: float, watch: Watch) -> Asked:
        plan, board, worker = self.plan, self._board, self._workers["requester"]
        began = board.published
        worker.order(Ask(mode, pairs, seconds, plan.outstanding_in(mode), plan.batch))
        still, seen = 0.0, began
        while True:
            done = board.published
            still, seen = (still + _POLL_S if done == seen else 0.0), done
            watch(done - began, pairs)
            if worker.wait(_POLL_S):
                break
            for other in self._workers.values():
                other.check()
            if still > _SILENCE_S:
                raise BenchError(f"nothing is answered any more, after {done - began:,} pairs")
        answer = worker.take(0)
        if not isinstance(answer, Asked):
            raise BenchError(f"the requester answered {answer}")
        return answer

    def _place(self, mode: Mode) -> None:
        """Bind all processes to one CPU, or let them go."""
        if self.plan.urls or not self.plan.pin:
            return
        cpus = {max(self._cpus)} if mode == "one" else self._cpus
        for pid in (self._hub.pid, *(worker.pid for worker in self._workers.values())):
            os.sched_setaffinity(pid, cpus)

    def _cpu_ns(self) -> dict[str, int]:
        charged = {name: read_usage(worker.pid).cpu_ns for name, worker in self._workers.items()}
        return charged | {"hub": self._hub.usage().cpu_ns, "machine": machine_cpu_ns()}


def run_y(plan: Plan, tell: Told) -> Figures:
    """Measure all modes of a plan.

    Args:
        plan: What to do.
        tell: Told of each run.

    Raises:
        BenchError: It cannot be done, or a process has failed.
    """
    plan.check()
    environment = Environment.here()
    runs: dict[Mode, list[Run]] = {}
    with _staged(plan) as stage:
        for mode in plan.modes:
            runs[mode] = [
                stage.measure(mode, tell(f"{mode}, run {number} of {plan.repeat}"))
                for number in range(1, plan.repeat + 1)
            ]
    return Figures(plan, environment, runs)


@contextmanager
def _staged(plan: Plan) -> Iterator[Stage]:
    with ExitStack() as stack:
        if plan.urls:
            hub = RunningHub.adopt(list(plan.urls), plan.hub_pid)
        else:
            hub = RunningHub.start((plan.transport,), plan.hub_flags)
        stack.callback(hub.stop)
        descriptor = Board.make(1, 1)
        stack.callback(os.close, descriptor)
        yield Stage(plan, hub, descriptor, stack)


def _expect_ready(answer: Answer) -> None:
    if not isinstance(answer, Ready):
        raise BenchError(f"a worker answered {answer} instead of being ready")
