"""The process that lays segments anew: what it tells, when it ends, and that it may be killed at any time."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from peers.journal.regroup.process import Order, Told, regroup
from peers.journal.store import Store
from tests.journal.files import AT_US, everything, failing
from tests.journal.regroup.made import forms, left_over, owned


def take(store: Store, line: bytes) -> Told:
    """What was told; the owner of the folder gives what is offered its place."""
    told = msgspec.json.decode(line, type=Told)
    if told.offered is not None:
        store.laid.append(told.offered)
        store.commit(now_us=AT_US)
    return told


def told_by(path: Path, store: Store, *, wait: Callable[[float], bool] = lambda _: False) -> list[Told]:
    """What the process tells until it ends; between two steps it waits, and what it has offered is taken."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    found: list[Told] = []

    def waited(_: socket.socket, wait_s: float) -> bool:
        try:
            lines = ours.recv(1 << 16).splitlines()
        except BlockingIOError:
            lines = []
        found.extend(take(store, line) for line in lines)
        return wait(wait_s)

    with ours, theirs:
        regroup(Order(str(path), least_bytes=1), theirs, waited)
        waited(theirs, 0.0)
    return found


def test_it_tells_what_it_has_laid(path: Path) -> None:
    """One segment after the other, each once; then it ends."""
    before = everything(path)
    with owned(path) as store:
        told = told_by(path, store)
    assert [one.laid for one in told] == [0, 1, 1, 2, 2, 3]
    assert [one.offered is not None for one in told] == [True, False] * 3
    assert told[-1].before_bytes > told[-1].after_bytes > 0
    assert told[-1].error == ""
    assert forms(path) == [1, 1, 1, 0]
    assert everything(path) == before


def test_it_waits_until_what_it_offers_is_taken(path: Path) -> None:
    """And lays nothing else meanwhile; if the hub ends, it goes."""
    waited: list[float] = []

    def wait(wait_s: float) -> bool:
        waited.append(wait_s)
        return len([one for one in waited if one]) > 5

    ours, theirs = socket.socketpair()
    with ours, theirs:
        regroup(Order(str(path), least_bytes=1), theirs, lambda _, wait_s: wait(wait_s))
        theirs.close()
        lines = b"".join(iter(lambda: ours.recv(65536), b"")).splitlines()
    assert len(lines) == 1
    assert {one for one in waited if one} == {0.1}
    assert left_over(path) == []
    assert forms(path) == [0, 0, 0, 0]


def test_a_full_disk_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later each time; what is wrong is told, and that it is over."""
    waited: list[float] = []

    def wait(wait_s: float) -> bool:
        waited.append(wait_s)
        return False

    with owned(path) as store:
        calls = [0]
        true = os.statvfs(path)

        def statvfs(_: str) -> os.statvfs_result:
            calls[0] += 1
            return os.statvfs_result((*true[:4], 5, *true[5:])) if calls[0] <= 3 else true

        with monkeypatch.context() as patch:
            patch.setattr(os, "statvfs", statvfs)
            told = told_by(path, store, wait=wait)
    assert [one.failures for one in told[:4]] == [1, 2, 3, 3]
    assert all("MiB are free" in one.error for one in told[:3])
    assert told[3].error == ""
    assert told[-1].laid == 3
    assert [one for one in waited if one >= 1] == [1.0, 2.0, 4.0]


def test_a_journal_that_cannot_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the very start: it is told, and tried again."""
    with owned(path) as store, failing(monkeypatch, "listdir"):
        told = told_by(path, store)
    assert told[0].failures == 1
    assert told[-1].laid == 3


def test_it_may_be_killed_at_any_time(path: Path) -> None:
    """All that was recorded is there at any moment, and at last all of it is laid anew."""
    before = everything(path)
    draw = random.Random(2)  # noqa: S311 -- the same every time
    kills = 0
    with owned(path) as store:
        while forms(path) != [1, 1, 1, 0]:
            ours, theirs = socket.socketpair()
            ours.settimeout(10)
            order = msgspec.json.encode(Order(str(path), least_bytes=1)).decode()
            command = [sys.executable, "-m", "peers.journal.regroup.process", order, str(theirs.fileno())]
            with ours, theirs, subprocess.Popen(command, pass_fds=(theirs.fileno(),)) as process:
                theirs.close()
                line = ours.recv(1 << 16) if draw.random() < 0.6 else b""
                if not line:
                    time.sleep(draw.random() * 0.4)
                process.send_signal(signal.SIGKILL)
                kills += 1
            assert everything(path) == before
            for one in line.splitlines():
                take(store, one)
            assert everything(path) == before
    assert kills >= 3
    with owned(path):
        assert left_over(path) == []
    assert everything(path) == before
