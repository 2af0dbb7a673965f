"""`hub bench scenario y`: pairs of numbers go through the hub to a service that adds and to one that multiplies.

```
                                   ┌──▶ adding service (process)
requester (process) ──▶ the hub ───┤
   checks every result  (process)  └──▶ multiplying service (process)
```

Processes use the client library, as a user's programs do. Pairs in arrays are in `peers.bench.arrays`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing.connection import Connection
from random import getrandbits
from types import NoneType
from typing import Any, Literal, NamedTuple

import msgspec

from hub.errors import HubError
from peers.bench.measurement import Histogram
from peers.bench.report import Environment, Report, Row, medians
from peers.bench.running_hub import HubPlan, RunningHub
from peers.bench.stage import Told
from peers.bench.worker import PlanError, Work, Worker, read_usage
from peers.client import Client, connect
from peers.client.service import ServiceRequest
from peers.daemon.memory import keep_freed_memory
from peers.transport.endpoints import Endpoint, Scheme

_TIMEOUT_S = 30.0
"""How long a request may take; then the hub answers in place of the service."""

_LATE_S = _TIMEOUT_S + 5.0
"""When nothing is answered for so long, what is not answered is lost."""

_MODULO = (1 << 64) - 1
_REASONS = 5
"""How many different reasons of failures are kept; the others are only counted."""

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda first, second: first + second & _MODULO,
    "multiply": lambda first, second: first * second & _MODULO,
}
"""What the services do with numbers below 2^64, modulo 2^64, by the last part of their topics."""


@dataclass(frozen=True)
class Ask:
    """The order to make a run; `Asked` answers it."""

    pairs: int
    """How many pairs are asked; 0 for any number."""
    seconds: float
    """For how long pairs are asked, 0 for any time; what was asked by then is waited for."""
    outstanding: int
    """How many pairs may be unanswered; with one, each is timed."""


@dataclass
class Asked:
    """What has become of the pairs of a run."""

    pairs: int = 0
    wrong: int = 0
    """Pairs whose result was another one than it must be."""
    failed: int = 0
    """Pairs that were answered by a status instead of a result."""
    lost: int = 0
    """Pairs that were not answered."""
    reasons: list[str] = field(default_factory=list)
    """Why pairs failed, each reason once."""
    elapsed_ns: int = 0
    """From before the first request to after the last check."""
    latency: Histogram = field(default_factory=Histogram)
    """How long each pair took, ns, if only one at a time was asked."""

    def fail(self, pairs: int, error: HubError) -> None:
        """Count pairs that have failed, and keep the reason."""
        self.failed += pairs
        if str(error) not in self.reasons and len(self.reasons) < _REASONS:
            self.reasons.append(str(error))


async def ask_pairs(client: Client, topic: str, order: Ask, late_s: float = _LATE_S) -> Asked:
    """Make a run.

    Args:
        client: A connection to the hub.
        topic: What the services' topics begin with.
        order: How many pairs, for how long.
        late_s: When nothing is answered for so long, the run is over.
    """
    asked = Asked()
    began_ns = time.perf_counter_ns()
    end_ns = began_ns + order.seconds * 1e9 if order.seconds else float("inf")
    most = order.pairs or float("inf")
    ways = [(f"{topic}/{name}", operation) for name, operation in OPERATIONS.items()]
    settled, clock = 0, time.perf_counter_ns

    async def ask_one_after_the_other() -> None:
        nonlocal settled
        while asked.pairs < most and (asked_ns := clock()) < end_ns:
            asked.pairs += 1
            drawn = getrandbits(129)
            (way, operation), first, second = ways[drawn >> 128], drawn >> 64 & _MODULO, drawn & _MODULO
            try:
                value = await client.request(way, [first, second], timeout_s=_TIMEOUT_S)
            except HubError as error:  # if the connection is lost, say, it goes on until the run is to end
                asked.fail(1, error)
            else:
                if order.outstanding == 1:
                    asked.latency.record(clock() - asked_ns)
                asked.wrong += value != operation(first, second)
            settled += 1

    flows = {asyncio.create_task(ask_one_after_the_other()) for _ in range(order.outstanding)}
    before = -1
    while flows and settled != before:
        before = settled
        done, flows = await asyncio.wait(flows, timeout=late_s)
        for flow in done:
            flow.result()  # which raises what must not be passed over
    for flow in flows:
        flow.cancel()
    asked.lost = asked.pairs - settled
    asked.elapsed_ns = clock() - began_ns
    return asked


_OPTIONS: Mapping[str, Any] = {"shared_memory": False}
"""Numbers of 8 bytes need none, and a Unix socket that can hand memory over costs a quarter more for each of them."""


class Setup(NamedTuple):
    """What both must know; they answer None when they are connected."""

    url: str
    topic: str
    """What the services' topics begin with."""
    operation: str = ""
    """What a service does, one of `OPERATIONS`."""


def request(pipe: Connection, setup: Setup) -> None:
    """Be the requester until the command is gone."""

    async def ask(client: Client) -> None:
        pipe.send(None)
        async for order in orders_of(pipe):
            pipe.send(await ask_pairs(client, setup.topic, order))

    run_worker(setup.url, "y requester", ask, **_OPTIONS)


def serve(pipe: Connection, setup: Setup) -> None:
    """Be a service until the command is gone."""
    compute = OPERATIONS[setup.operation]

    def answer(asked: ServiceRequest) -> int:
        first, second = asked.value
        return compute(first, second)

    async def stand_by(client: Client) -> None:
        async with client.serve(f"{setup.topic}/{setup.operation}", answer):
            pipe.send(None)
            async for _ in orders_of(pipe):
                pass

    run_worker(setup.url, f"y {setup.operation}", stand_by, **_OPTIONS)


def run_worker(url: str, name: str, work: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    """Run a worker as a hub runs: on uvloop where it is installed, keeping freed memory, collecting garbage.

    Args:
        url: Of the hub.
        name: Of the client, for people.
        work: What is done with the client once it is connected.
        options: Further options of the client.
    """

    async def main() -> None:
        async with connect(url, name=name, reconnect=False, **options) as client:
            await work(client)

    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):
        import uvloop  # noqa: PLC0415 -- optional

        factory = uvloop.new_event_loop
    keep_freed_memory()
    gc.enable()
    gc.freeze()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


async def orders_of(pipe: Connection) -> AsyncIterator[Ask]:
    """Yield orders as they come, and let the loop run meanwhile; raise `EOFError` when the command is gone."""
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pipe.fileno(), readable.set)
    try:
        while True:
            await readable.wait()
            yield pipe.recv()
            readable.clear()
    finally:
        loop.remove_reader(pipe.fileno())


PROCESSES = ("requester", "hub", "adding", "multiplying")

_START_S = 60.0
_HUNG_S = 90.0
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

    def __init__(self, stack: ExitStack, hub: RunningHub, works: dict[str, tuple[Work, Any]]) -> None:
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
        asked = requester.take(Asked, order.seconds + _HUNG_S if order.seconds else None)
        after = self._cpu_ns()
        return Run.of(asked, {name: after[name] - before[name] for name in PROCESSES})

    def _cpu_ns(self) -> dict[str, int]:
        charged = {name: read_usage(worker.pid).cpu_ns for name, worker in self._workers.items()}
        return charged | {"hub": self._hub.usage().cpu_ns}


Mode = Literal["one", "many", "arrays", "shared"]
"""How pairs travel: each when the one before is answered, many at a time, in arrays as bytes, in arrays as memory."""

YTransport = Literal["unix", "tcp"]
MODES: tuple[Mode, ...] = ("one", "many")
"""The modes that are measured unless others are asked for; those with arrays need NumPy."""

_ARRAYS = frozenset({"arrays", "shared"})
_OUTSTANDING_LIMIT = 65_536
"""What a hub lets a client have pending, unless told otherwise."""

_WARM_UP_S = 0.3

Runs = dict[Mode, list[Run]]


class YPlan(HubPlan, frozen=True, kw_only=True):
    """One benchmark."""

    modes: tuple[Mode, ...] = MODES
    transport: YTransport = "unix"
    """How all are connected to a hub that is started."""
    outstanding: int = 1_024
    """Pairs that are asked and not yet answered, in mode `many`."""
    batch: int = 65_536
    """Pairs that are made at a time, in modes with arrays; about half of them go to each service, in one body."""
    batches: int = 8
    """Batches that are asked and not yet answered."""
    seconds: float = 3.0
    """How long each run is."""
    pairs: int = 0
    """How many pairs each run has, instead of a time."""
    repeat: int = 3
    """Runs of each mode; the median counts."""
    pin: bool = True
    """Whether all processes share one CPU in mode `one`, where only one of them has something to do at a time: an idle
    CPU takes longer to wake up than the work takes. This does not hold for a hub that runs already."""

    def check(self) -> YPlan:
        """Return the plan, if it can be carried out.

        Raises:
            PlanError: It cannot; the text names the option.
        """
        self.check_hub(
            [
                ("outstanding", self.outstanding, 1, _OUTSTANDING_LIMIT),
                ("batch", self.batch, 1, 1 << 22),
                ("batches", self.batches, 1, 1_024),
                ("seconds", self.seconds, 0.001, 3_600),
                ("pairs", self.pairs, 0, 10**12),
                ("repeat", self.repeat, 1, 1_000),
            ]
        )
        if not self.modes or len(set(self.modes)) != len(self.modes):
            raise PlanError("--mode: each once")
        if _ARRAYS.intersection(self.modes) and find_spec("numpy") is None:
            raise PlanError("--mode: arrays need NumPy: pip install numpy")
        if "shared" in self.modes and self.transport != "unix":
            raise PlanError("--mode: memory can only be shared over a Unix socket, --transport unix")
        if len(self.urls) > 1 or not {Endpoint.parse(url).scheme for url in self.urls} <= {Scheme.TCP, Scheme.UNIX}:
            raise PlanError("--url: one tcp:// or unix:// url expected")
        return self


def run_y(plan: YPlan, tell: Told) -> Report:
    """Measure all modes of a plan.

    Args:
        plan: What to do.
        tell: Told of each run.

    Raises:
        BenchError: It cannot be done, or a process has failed.
    """
    plan.check()
    environment, cpus = Environment.here(), os.sched_getaffinity(0)
    runs: Runs = {}
    with ExitStack() as stack:
        hub = plan.find_hub((plan.transport,))
        stack.callback(hub.stop)
        for mode in plan.modes:
            with ExitStack() as ending:
                cast = Cast(ending, hub, _works(plan, mode, hub.url("tcp"), f"/y/{secrets.token_hex(4)}"))
                for pid in cast.pids if plan.pin and not plan.urls else ():
                    os.sched_setaffinity(pid, {max(cpus)} if mode == "one" else cpus)
                outstanding = 1 if mode == "one" else plan.batches if mode in _ARRAYS else plan.outstanding
                cast.measure(Ask(plan.pairs, min(_WARM_UP_S, plan.seconds), outstanding))
                order, runs[mode] = Ask(plan.pairs, 0 if plan.pairs else plan.seconds, outstanding), []
                for number in range(1, plan.repeat + 1):
                    tell(f"{mode}, run {number} of {plan.repeat}")
                    runs[mode].append(cast.measure(order))
    return y_report(plan, environment, runs)


def _works(plan: YPlan, mode: Mode, url: str, topic: str) -> dict[str, tuple[Work, Any]]:
    """Return what the requester and the services do, and their set-ups."""
    if mode in _ARRAYS:
        from peers.bench import arrays  # noqa: PLC0415 -- NumPy is no part of what is installed with the hub

        asking = arrays.ArraySetup(url, topic, mode == "shared", plan.batch, plan.batches)
        multiplying = asking._replace(operation=arrays.Operation.MULTIPLY)
        return {
            "adding": (arrays.serve_arrays, asking),
            "multiplying": (arrays.serve_arrays, multiplying),
            "requester": (arrays.request_arrays, asking),
        }
    setup = Setup(url, topic)
    adding, multiply = setup._replace(operation="add"), setup._replace(operation="multiply")
    return {"adding": (serve, adding), "multiplying": (serve, multiply), "requester": (request, setup)}


def _title(plan: YPlan, mode: Mode) -> str:
    """Return what stands over the figures of a mode."""
    if mode in _ARRAYS:
        return f"{mode}, {plan.batches} batches of {plan.batch:,}"
    return "one at a time" if mode == "one" else f"{plan.outstanding:,} outstanding"


def y_report(plan: YPlan, environment: Environment, runs: Runs) -> Report:
    """Return what the runs show: a column for each mode."""
    columns = [_title(plan, mode) for mode in runs]

    def row(label: str, unit: str, figure: Callable[[list[Run]], float], decimals: int = 0) -> Row:
        return Row.of(label, unit, [figure(each) for each in runs.values()], decimals)

    def median(name: str) -> Callable[[list[Run]], float]:
        return lambda each: statistics.median(getattr(run, name) for run in each)

    def known(label: str, unit: str, name: str) -> Row:
        made = row(label, unit, median(name), 1)
        return made._replace(shown=["" if shown == "0.0" else shown for shown in made.shown])

    def count(name: str) -> Row:
        made = row(name, "pairs", lambda each: sum(getattr(run, name) for run in each))
        return made._replace(bad=any(shown != "0" for shown in made.shown))

    every = [run for each in runs.values() for run in each]
    rows = [
        row("pairs", "pairs/s", median("pairs_per_s")),
        row("pairs, lowest", "pairs/s", lambda each: min(run.pairs_per_s for run in each)),
        row("pairs, highest", "pairs/s", lambda each: max(run.pairs_per_s for run in each)),
        known("latency, p50", "µs", "p50_us"),
        known("latency, p99", "µs", "p99_us"),
        *(known(f"{name}'s CPU", "ns/pair", f"{name}_ns") for name in PROCESSES),
        row("CPU of all", "ns/pair", median("all_ns"), 1),
        row("pairs, all runs", "pairs", lambda each: sum(run.pairs for run in each)),
        *(count(name) for name in ("wrong", "failed", "lost")),
    ]
    remarks = [
        f"{column}: {reason}"
        for column, each in zip(columns, runs.values(), strict=True)
        for reason in dict.fromkeys(reason for run in each for reason in run.reasons)
    ]
    if not all(run.hub_ns for run in every):
        remarks.append("the hub's process is not known, so neither is its CPU time: --hub-pid tells it")
    figures = {"runs": runs, "median": {mode: medians(each) for mode, each in runs.items()}}
    return Report("y", environment, plan, columns, rows, figures, all(run.flawless for run in every), remarks)
