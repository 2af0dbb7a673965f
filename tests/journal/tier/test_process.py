"""The process that copies: what it tells, how it goes on after failures, and that it may be killed at any time."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from peers.journal.tier.copier import Copier, copy
from peers.journal.tier.place import place_at
from peers.journal.tier.progress import Order, Progress, Told
from tests.journal.files import everything
from tests.journal.tier.made import copied, fill_untidily, id_of, journal


@pytest.fixture
def order(tmp_path: Path) -> Order:
    (tmp_path / "tier").mkdir()
    return Order(str(journal(tmp_path / "journal", 40, 30, 25)), str(tmp_path / "tier"))


class Pauses:
    def __init__(self, *due: object) -> None:
        self.waited: list[float] = []
        self._due = list(due)

    def __call__(self, _: socket.socket, wait_s: float) -> bool:
        self.waited.append(wait_s)
        if not self._due:
            return True
        act = self._due.pop(0)
        if callable(act):
            act()
        return False


def told(order: Order, *due: object) -> tuple[list[Told], list[float]]:
    ours, theirs = socket.socketpair()
    pauses = Pauses(*due)
    with ours, theirs:
        copy(order, theirs, pauses)
        theirs.close()
        data = b"".join(iter(lambda: ours.recv(65536), b""))
    return [msgspec.json.decode(line, type=Told) for line in data.splitlines()], pauses.waited


def test_it_tells_how_far_it_is(order: Order) -> None:
    lines, waited = told(order, 1, 2, 3)
    assert waited == [0, 0, 1, 1]
    (line,) = lines
    assert line.progress == Progress(0, 95, 1, line.progress.size_bytes)
    assert (line.failures, line.error) == (0, "")
    assert line.progress.size_bytes > 0


def test_a_tier_that_is_away_is_tried_again(order: Order, tmp_path: Path) -> None:
    """Later each time, up to a limit; counted; told in one line while the error is the same; then it goes on."""
    away, back = tmp_path / "away", tmp_path / "tier"
    back.rename(away)
    lines, waited = told(order, *[None] * 8, lambda: away.rename(back), None)
    assert waited == [0, 1, 2, 4, 8, 16, 32, 60, 60, 0, 1]
    assert [line.failures for line in lines] == [*range(1, 9), 8]
    assert all("no such folder" in line.error for line in lines[:-1])
    assert (lines[-1].progress.next, lines[-1].error) == (95, "")


def test_what_nobody_foresaw(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Copier.step

    def step(_: Copier, __: int) -> bool:
        raise ValueError("two\nlines")

    monkeypatch.setattr(Copier, "step", step)
    lines, waited = told(order, None, None, None, lambda: monkeypatch.setattr(Copier, "step", original), None)
    assert waited == [0, 1, 2, 4, 0, 1]
    assert [line.failures for line in lines] == [1, 2, 3, 3]
    assert all(line.error.startswith("ValueError at ") for line in lines[:-1])
    assert all(line.error.endswith(": two lines") for line in lines[:-1])
    assert (lines[-1].progress.next, lines[-1].error) == (95, "")


def test_it_ends_with_its_socket(order: Order) -> None:
    ours, theirs = socket.socketpair()
    text = msgspec.json.encode(order).decode()
    command = [sys.executable, "-m", "peers.journal.tier.copier", text, str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=(theirs.fileno(),)) as running:
        theirs.close()
        line = ours.makefile("rb").readline()
        assert msgspec.json.decode(line, type=Told).progress.next == 95
        ours.close()
        assert running.wait(60) == 0
    assert copied(place_at(order.tier), id_of(Path(order.path))) == everything(Path(order.path))[:95]


def test_it_may_be_killed_at_any_time(order: Order) -> None:
    path = Path(order.path)
    chance = random.Random(14)  # noqa: S311
    code = "import sys; from peers.journal.tier import copier, parquet; parquet.FILE_BYTES = 100; copier.main()"
    for _ in range(4):
        fill_untidily(path, *[5] * 50)
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", code, msgspec.json.encode(order).decode(), str(theirs.fileno())]
        with subprocess.Popen(command, pass_fds=(theirs.fileno(),)) as running:
            theirs.close()
            with ours, ours.makefile("rb") as lines:
                for _ in range(chance.randrange(1, 15)):
                    lines.readline()  # about 25 come, so that it dies in the midst of a file
                os.kill(running.pid, signal.SIGKILL)
    told(order, *[None] * 500)
    found = copied(place_at(order.tier), id_of(path))
    assert found == everything(path)[: len(found)]
    assert len(found) == 100 + 4 * 250
    names = place_at(order.tier).sizes(f"{id_of(path).hex()}/data")
    assert not [name for name in names if name.endswith(".new")]
