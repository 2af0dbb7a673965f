"""A hub where there is no `/proc`, as on macOS, on BSD, and in some chroots."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from peers.client import connect
from tests.daemon.hub_process import HubProcess

HIDDEN = ("sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
"""Runs a command that sees an empty `/proc`, in a mount namespace of its own."""


@pytest.fixture
def hidden() -> tuple[str, ...]:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is missing")
    for privileges in ((), ("--map-root-user",)):
        wrap = ("unshare", "--mount", *privileges, *HIDDEN)
        if subprocess.run([*wrap, "true"], capture_output=True, check=False).returncode == 0:
            return wrap
    pytest.skip("this process may not hide /proc")


@pytest.fixture
async def hub(hidden: tuple[str, ...], tmp_path: Path) -> AsyncIterator[HubProcess]:
    folder = str(tmp_path)
    flags = ("--listen", "tcp://127.0.0.1:0", "--listen", f"unix://{folder}/hub.sock", "--journal", f"{folder}/journal")
    process = await HubProcess.start((*flags, "--store", f"a={folder}/a.db"), {}, before=hidden)
    yield await process.wait_up(2)
    await process.kill()


async def test_a_hub_without_proc(hub: HubProcess) -> None:
    tcp, unix = (endpoint.location for endpoint in hub.endpoints)
    async with (
        connect(unix) as publisher,
        connect(tcp) as reader,
        reader.subscribe("/a", "$hub/statistics") as messages,
    ):
        await publisher.publish_confirmed("/a", 1)
        seen = [await anext(messages) for _ in range(4)]
        assert [one.value for one in seen if one.topic == "/a"] == [1]
        (told, *_) = [one.value for one in seen if one.topic == "$hub/statistics"]
        assert 0 < told["memory_bytes"] < told["memory_limit_bytes"]
        store = publisher.store("a")
        await store.put("key", 7)
        assert await store.get("key") == 7
    hub.signal(signal.SIGTERM)
    code, log = await hub.wait_ended()
    assert code == 0
    assert "bug" not in log
