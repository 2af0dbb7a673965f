"""Which worker gets which tests, and in what order; what is seen of processes and of garbage while they run."""

from __future__ import annotations

import gc
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.suite import scheduling
from tests.suite.leftovers import below
from tests.suite.scheduling import ScopeScheduling

PROJECT = Path(__file__).parents[2]


class Worker:
    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.sent: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def shares(workers: int, *tests: str) -> list[list[str]]:
    """Return the tests of each worker, in its order; the workers end their tests in turns."""
    config: Any = SimpleNamespace(
        option=SimpleNamespace(loadscopereorder=True), getvalue={"tx": ["popen"] * workers}.__getitem__
    )
    scheduling = ScopeScheduling(config, SimpleNamespace(loadscopesched=lambda *_: None))
    nodes: list[Any] = [Worker(f"gw{number}") for number in range(workers)]
    for node in nodes:
        scheduling.add_node(node)
    for node in nodes:
        scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    for turn in range(len(tests)):
        for node in nodes:
            if turn < len(node.sent):
                scheduling.mark_test_complete(node, node.sent[turn])
    assert scheduling.tests_finished
    return [[tests[index] for index in node.sent] for node in nodes]


def test_a_file_stays_in_one_worker() -> None:
    few = ["tests/hub/test_few.py::test_0"]
    many = [f"tests/hub/test_many.py::test_{number}" for number in range(5)]
    some = [f"tests/hub/test_some.py::test_{number}" for number in range(4)]
    assert shares(2, *few, *many, *some) == [many, some + few]


def test_one_worker_has_the_session_of_spark() -> None:
    session = [f"tests/spark/{name}.py::test_{number}" for name in ("test_replay", "test_sink") for number in "123"]
    others = [f"tests/hub/test_many.py::test_{number}" for number in range(3)]
    assert shares(2, *others, *session) == [session, others]


def test_what_takes_long_begins_first() -> None:
    many = [f"tests/hub/test_many.py::test_{number}" for number in range(9)]
    long = [f"tests/packaging/test_build.py::test_{number}" for number in range(3)]
    session = [f"tests/spark/test_route.py::test_{number}" for number in range(3)]
    assert shares(1, *many, *long, *session) == [session + long + many]


def test_what_is_named_exists() -> None:
    assert [path for path in scheduling._LONG if not (PROJECT / path).exists()] == []


def test_a_process_is_seen_from_its_start_to_its_end() -> None:
    for number in range(5):
        test = f"number {number}"
        with subprocess.Popen(["sleep", "60"], env=os.environ | {"PYTEST_CURRENT_TEST": test}) as process:
            seen = {one.pid: one for one in below(os.getpid())}
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert process.pid not in {one.pid for one in below(os.getpid())}
        assert (seen[process.pid].command, seen[process.pid].test) == ("sleep 60", test)


def test_the_garbage_collector_does_not_walk_over_it(request: pytest.FixtureRequest) -> None:
    walked = {id(one) for one in gc.get_objects()}
    assert not {id(one) for one in request.session.items} & walked
    assert request.node in request.session.items
