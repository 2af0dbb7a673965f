"""Pairs of numbers, and arrays of them: plans, the requester, what follows from what was counted."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from hub.errors import ConnectionLostError, NoResponderError, RequestFailedError
from hub.messages.request_frame import Status
from peers.bench.arrays import RESULT_BYTES, ArraySetup, Batches, Operation, requests_in, results_for, write_results
from peers.bench.pairs import OPERATIONS, Ask, Asked, ask_pairs
from peers.bench.processes import BenchError
from peers.bench.report import Environment, Report
from peers.bench.stage import Plan
from peers.bench.y import Mode, Run, YPlan, y_report
from peers.shm.ring import Block

Change = Callable[[int, Any], Any]
"""Gets how many answers there were before, and the right one; returns the one to give, None for none, or raises."""


class Asker:
    """Answers a turn of the loop later."""

    def __init__(self, change: Change = lambda _, right: right, right: Callable[[str, Any], Any] | None = None) -> None:
        self._change = change
        self._right = right or _right
        self.asked: list[tuple[str, Any]] = []
        self.open = self.most_open = 0

    async def request(self, topic: str, value: Any, *, timeout_s: float) -> Any:
        assert timeout_s > 0
        number = len(self.asked)
        self.asked.append((topic, value))
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        await asyncio.sleep(0)
        self.open -= 1
        answer = self._change(number, self._right(topic, value))
        if answer is None:
            await asyncio.get_running_loop().create_future()
        return answer


def _right(topic: str, value: tuple[int, int]) -> int:
    return OPERATIONS[topic.rpartition("/")[2]](*value)


TCP, UNIX, WS = "tcp://127.0.0.1:7400", "unix:///run/hub.sock", "ws://127.0.0.1:7401"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (YPlan(outstanding=0), "--outstanding: 0 given, expected a number from 1 to 65,536"),
        (YPlan(seconds=0), "--seconds: 0 given"),
        (YPlan(pairs=-1), "--pairs: -1 given"),
        (YPlan(batches=0), "--batches: 0 given"),
        (YPlan(modes=("shared",), transport="tcp"), "--mode: memory can only be shared"),
        (YPlan(repeat=0), "--repeat: 0 given"),
        (YPlan(modes=()), "--mode: each once"),
        (YPlan(modes=("one", "one")), "--mode: each once"),
        (YPlan(urls=(WS,)), "--url: one tcp:// or unix:// url expected"),
        (YPlan(urls=(TCP, UNIX)), "--url: one tcp:// or unix:// url expected"),
        (YPlan(urls=(TCP,), hub_flags=("--name=x",)), "--hub-flag: only for a hub that is started"),
        (YPlan(hub_pid=1), "--hub-pid: only with --url"),
        (Plan(messages=0), "--messages: 0 given, expected a number from 1 to"),
        (Plan(size=15), "--size: 15 given, expected a number from 16 to"),
        (Plan(topics=100_001), "--topics: 100,001 given, expected a number from 1 to 100,000"),
        (Plan(rate=-1), "--rate: -1 given"),
        (Plan(publishers=257), "--publishers: 257 given, expected a number from 1 to 256"),
        (Plan(subscribers=0), "--subscribers: 0 given"),
        (Plan(batch=0), "--batch: 0 given"),
        (Plan(batch=65_536, size=1000), "--batch, --size: a frame takes"),
        (Plan(messages=1 << 31, repeat=3), "--messages: a publisher can number"),
        (Plan(urls=(WS,)), "--url: publishers need"),
        (Plan(urls=(TCP,), transport="ws"), "--url: --transport ws needs"),
        (Plan(urls=(TCP,), hub_flags=("--name=x",)), "--hub-flag: only for a hub that is started"),
        (Plan(hub_pid=1), "--hub-pid: only with --url"),
    ],
)
def test_a_plan_that_cannot_be_carried_out(plan: Plan | YPlan, said: str) -> None:
    with pytest.raises(BenchError) as raised:
        plan.check()
    assert str(raised.value).startswith(said)


OUTSTANDING = pytest.mark.parametrize("outstanding", [1, 64])


async def asked(asker: Asker, outstanding: int, pairs: int = 1_000) -> Asked:
    return await ask_pairs(asker, "/y", Ask(pairs, 0, outstanding), late_s=0.01)


@OUTSTANDING
async def test_wrong_results_failures_and_losses_are_counted(outstanding: int) -> None:
    def change(number: int, right: int) -> int | None:
        if number % 10 == 3:
            return right ^ 1
        if number % 100 == 5:
            raise NoResponderError(Status.NO_RESPONDER, "nobody serves '/y/add'")
        if number >= 800:
            raise ConnectionLostError(1006, "the hub has gone")
        return None if number == 7 and outstanding > 1 else right

    found = await asked(Asker(change), outstanding)
    lost = int(outstanding > 1)
    assert (found.pairs, found.wrong, found.failed, found.lost) == (1_000, 100, 188, lost)
    assert found.reasons == ["nobody serves '/y/add'", "the hub has gone"]


CPU = {"requester": 4_000, "hub": 2_000, "adding": 1_000, "multiplying": 500}


def run(elapsed_ns: int = 1_000_000, errors: dict[str, int] | None = None) -> Run:
    asked = Asked(pairs=1_000, elapsed_ns=elapsed_ns, **(errors or {}))  # type: ignore[arg-type]
    if asked.failed:
        asked.reasons.append("no service")
    for number in range(1, 1001):
        asked.latency.record(number * 1000)
    return Run.of(asked, CPU)


def report_of(*runs: Run, many: Run | None = None, load: float = 0.0) -> Report:
    environment = Environment("now", "1", "3", "", "", "", "", 2, load)
    by_mode: dict[Mode, list[Run]] = {"one": list(runs)}
    return y_report(YPlan(), environment, by_mode | ({"many": [many]} if many is not None else {}))


def shown(found: Report) -> str:
    output = io.StringIO()
    Console(file=output, width=200).print(found.table())
    return output.getvalue()


def test_a_run() -> None:
    one = run()
    assert one.flawless
    assert one.pairs_per_s == pytest.approx(1_000_000)
    assert one.p50_us == pytest.approx(500, rel=0.01)
    assert one.p99_us == pytest.approx(990, rel=0.01)
    assert (one.requester_ns, one.hub_ns, one.adding_ns, one.multiplying_ns) == (4, 2, 1, 0.5)
    assert one.all_ns == 7.5


@pytest.mark.parametrize("error", ["wrong", "failed", "lost"])
def test_an_error_is_a_flaw_and_no_pair(error: str) -> None:
    one = run(errors={error: 250})
    assert not one.flawless
    assert one.pairs_per_s == pytest.approx(750_000)
    found = report_of(run(), one)
    assert not found.flawless
    assert [line.split()[-1] for line in shown(found).splitlines() if line.startswith(error)] == ["250"]


def test_a_hub_whose_process_is_not_known() -> None:
    found = report_of(replace(run(), hub_ns=0.0))
    assert [line.split() for line in shown(found).splitlines() if line.startswith("hub")] == [
        ["hub's", "CPU", "ns/pair"]
    ]
    assert "give --hub-pid" in found.remarks[0]


REQUESTER = 0x0123456789ABCDEF


def array_results(topic: str, body: bytes) -> bytes:
    requests = requests_in(body)
    results = results_for(requests)
    write_results(Operation[topic.rpartition("/")[2].upper()], requests, results)
    return results.tobytes()


class ArrayAsker(Asker):
    async def request(self, topic: str, value: Any, *, timeout_s: float) -> Any:
        return await super().request(topic, bytes(value), timeout_s=timeout_s)

    async def allocate(self, size_bytes: int) -> Block:
        return Block.alone(size_bytes)


async def test_bodies_that_fail_count_with_all_their_pairs() -> None:
    sizes: list[int] = []

    def change(number: int, array_results: bytes) -> bytes:
        if number in {3, 4, 5}:
            sizes.append(len(array_results) // RESULT_BYTES)
        if number == 3:
            raise RequestFailedError(Status.FAILED, "out of paper")
        if number == 4:
            return array_results[:-1]
        return array_results[:-RESULT_BYTES] if number == 5 else array_results

    asker = ArrayAsker(change, array_results)
    found = await Batches(asker, ArraySetup("", "/y", False, 500, 1), REQUESTER).ask(Ask(10_000, 0, 1))
    assert found.failed == sizes[0] + sizes[1]
    assert found.wrong == sizes[2]
    assert found.reasons[0] == "out of paper"
    assert "are no records of 24" in found.reasons[1]
