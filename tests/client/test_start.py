"""The tutorial, docs/start.md, from the first hub to a consumer, as a reader follows it; only ports differ.

`tests/console/test_examples.py` opens its page in a browser, `tests/spark/test_format.py` runs its query on Spark.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from peers.client import blocking
from tests.cli.programs import PATIENCE_S, RunningHub, environment, hub, run_hub, start
from tests.forked.servers import python_path

TEXT = (Path(__file__).parents[2] / "docs" / "start.md").read_text()
TCP, WEBSOCKET = "tcp://127.0.0.1:7400", "127.0.0.1:7401"


def part(number: int) -> str:
    """Return the text of a step."""
    found = re.search(rf"^## {number}\. .*?(?=^## )", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def block(number: int, kind: str) -> str:
    """Return the first block of a kind in a step."""
    found = re.search(rf"^```{kind}\n(.*?)^```$", part(number), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def commands(number: int) -> list[str]:
    return [line for line in part(number).splitlines() if line.startswith("hub ")]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningHub]:
    (line,) = commands(2)
    with run_hub(tmp_path, *line.split()[2:-1], str(tmp_path / line.split()[-1])) as found:
        yield found


def program(stack: ExitStack, step: int, hub: RunningHub) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", block(step, "python").replace(TCP, hub.tcp)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment() | python_path(),
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


def test_first_message(running: RunningHub) -> None:
    subscribe, publish = commands(3)
    reader = start(*subscribe.split()[1:], "--limit", "1", url=running.tcp)
    with reader:
        while reader.poll() is None:  # until the hub knows of the subscriber
            done = hub("pub", publish.split()[2], publish.partition("'")[2][:-1], url=running.tcp)
            assert done.returncode == 0
        assert reader.stdout is not None
        assert json.loads(reader.stdout.read()) == {"topic": "/plant/east/press-1", "value": {"celsius": 71.5}}


@pytest.mark.slow
def test_a_slow_reader_an_alarm_and_history(running: RunningHub) -> None:
    with ExitStack() as stack:
        alarms = stack.enter_context(blocking.connect(running.tcp))
        alarm = stack.enter_context(alarms.subscribe("/alarm/"))
        program(stack, 7, running)
        report = program(stack, 6, running)
        program(stack, 4, running)
        assert re.fullmatch(r"report is slow: it lost \d+ messages", alarm.receive(timeout_s=PATIENCE_S).value)
        top = hub("top", "--once", url=running.tcp).stdout.decode().splitlines()[0]
        assert re.match(r"1 of \d subscribers is slow, [\d,]+ messages were dropped .*, all by `report`\.", top)
        assert report.stdout is not None
        assert re.fullmatch(r"gap: \d+ messages lost before this one\n", report.stdout.readline())

    (history,) = (line for line in commands(8) if "hub sub" in line)
    found = hub(*history.split()[1:], url=running.tcp).stdout.decode().splitlines()
    assert [json.loads(line)["offset"] for line in found] == [0, 1, 2]
    (consume,) = (line for line in commands(8) if "hub consume" in line)
    offsets = []
    for _ in range(2):
        done = hub(*consume.split()[1:], url=running.tcp)
        assert done.returncode == 0, done.stderr
        offsets += [json.loads(line)["offset"] for line in done.stdout.decode().splitlines()]
    assert offsets == [0, 1, 2, 3, 4, 5]
