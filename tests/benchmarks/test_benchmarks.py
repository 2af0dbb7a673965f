"""Benchmarks run to their end, and the load generator sees every loss, repetition, exchange and damage."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from peers.bench.processes import child_environment
from tests.benchmarks.brokers import Dialect, HubDialect, NatsDialect, WrongBytesError
from tests.benchmarks.generate import Receiver, Stream, payload
from tests.benchmarks.goals.figure import TOO_SLOW

PERIOD = 64
FAULTS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "lost": lambda units: units[:20] + units[21:],
    "repeated": lambda units: units[:20] + units[19:],
    "exchanged": lambda units: [*units[:20], units[21], units[20], *units[22:]],
    "damaged": lambda units: [*units[:20], units[20].replace(b".", b"!", 1), *units[21:]],
    "surplus": lambda units: [*units[:20], b"\0\0\0\x01\x09\0\0\0\x80", *units[20:]],
}


def units_of(dialect: Dialect, publisher: int) -> list[bytes]:
    count = dialect.unit_messages
    payloads = [payload(number, publisher, 40) for number in range(PERIOD * count)]
    several = [payloads[start : start + count] for start in range(0, PERIOD * count, count)]
    return [dialect.delivery(("bench", "stream"), one, 0) for one in several]


@pytest.mark.parametrize("piece", [5, 3_000, 100_000])
@pytest.mark.parametrize("publishers", [1, 3])
@pytest.mark.parametrize(
    ("dialect", "control"),
    [
        (HubDialect(0), b"\0\0\0\x02\x07\0\0\0ab"),
        (HubDialect(0, batched_bytes=16_000), b"\0\0\0\x02\x07\0\0\0ab"),
        (NatsDialect(0), b'PING\r\nINFO {"x":1}\r\n'),
    ],
    ids=["hub", "hub-batch", "nats"],
)
def test_every_byte_is_compared_however_it_is_cut(
    dialect: Dialect, control: bytes, publishers: int, piece: int
) -> None:
    each = [units_of(dialect, publisher) for publisher in range(publishers)]
    left, right = socket.socketpair()

    def feed(streams: list[list[bytes]]) -> Receiver:
        expected = [Stream(one, dialect.unit_messages) for one in each]
        receiver = Receiver(right, expected, dialect, each[0][0].index(b"00000000"))
        longest = max(map(len, streams))
        mixed = [units[start : start + 3] for start in range(0, longest, 3) for units in streams]
        data = b"".join(unit for units in mixed for unit in units)
        for start in range(0, len(data), piece):
            receiver.feed(data[start : start + piece])
        return receiver

    with left, right:
        receiver = feed([[*units * 3, control] for units in each])
        got = [receiver.messages(one) for one in range(publishers)]
        assert got == [3 * PERIOD * dialect.unit_messages] * publishers
        for fault in FAULTS.values():
            with pytest.raises(WrongBytesError):
                feed([*each[:-1], fault(each[-1])])


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", "--repeat", "1", *arguments]
    pipe = subprocess.PIPE
    return subprocess.run(
        command, stdout=pipe, stderr=pipe, text=True, timeout=200, check=False, env=child_environment()
    )


@pytest.mark.slow
def test_some_goals(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    names = ("one-topic", "memory-subscription", "stalled-disconnect", "journal-confirmed-frames", "churn-1000")
    only = [argument for name in names for argument in ("--only", name)]
    done = run("goals", *only, "--scale", "0.001", "--json", str(figures))
    document = json.loads(figures.read_bytes())
    assert len(document["figures"]) == len(names) + 2, "churn and stalled have two figures"
    for figure in document["figures"]:
        assert figure["values"], figure
        faults = [fault for fault in figure["faults"] if not fault.startswith(TOO_SLOW)]  # that is the machine's fault
        assert not faults, figure
    reached = all(figure["reached"] for figure in document["figures"])
    assert done.returncode == (0 if reached else 3), done.stderr
    assert "a quick look, no figures" in done.stdout


@pytest.mark.slow
def test_the_hub_is_compared(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = run("compare", "--only", "hub", "--workloads", "fan-in", "--scale", "0.05", "--json", str(figures))
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(figures.read_bytes())["runs"]
    assert one["contestant"] == "hub"
    assert one["figures"]["cpu_us"] > 0
