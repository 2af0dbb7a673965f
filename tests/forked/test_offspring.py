"""What a forked hub starts is forked, and what a new interpreter starts is a new interpreter."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.daemon.hub_process import HubProcess
from tests.forked.names import asked_by
from tests.hubs.eventually import eventually
from tests.workers.conftest import is_worker, workers_of


@pytest.mark.parametrize("is_new", [False, True], ids=["forked", "new"])
async def test_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_new: bool) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--listen", "tcp://127.0.0.1:0", "--workers", "2", "--log-format", "json"]
    hub = await (await HubProcess.start(flags, {}, is_new=is_new)).wait_up()
    try:
        lines = [await hub.wait_logged("worker is up") for _ in range(2)]
        pids = {line["pid"] for line in lines}
        assert {*workers_of(hub.pid)} == pids
        assert all(map(is_worker, pids))
        assert {asked_by(pid) for pid in pids} == {0 if is_new else hub.pid}
        os.kill(lines[0]["pid"], signal.SIGKILL)
        assert (await hub.wait_logged("worker ended"))["reason"] == "killed by SIGKILL"
        pids = {lines[1]["pid"], (await hub.wait_logged("worker is up"))["pid"]}
        hub.signal(signal.SIGKILL)
        assert (await hub.wait_ended())[0] == -signal.SIGKILL
        await eventually(lambda: not any(map(is_worker, pids)))
    finally:
        await hub.kill()
