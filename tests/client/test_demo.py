"""examples/demo: what its README promises is there, and it ends without anything left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from peers.client import Client, connect
from tests.forked.servers import python_path
from tests.hubs.ports import free_ports

pytestmark = pytest.mark.timeout(240)

DEMO = Path(__file__).parents[2] / "examples" / "demo" / "demo.py"

FLAGS = ("--east", "--east-page", "--west", "--west-page")


@contextlib.contextmanager
def running(folder: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    ports = free_ports(len(FLAGS))
    at = [text for flag, port in zip(FLAGS, ports, strict=True) for text in (flag, str(port))]
    environment = os.environ | python_path() | {"TMPDIR": str(folder)}
    command = [sys.executable, "-W", "error", str(DEMO), *at, *flags]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            yield process, ports
        finally:
            process.terminate()  # it ends its hubs


@pytest.fixture
def short_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def until(client: Client, topic: str, holds: Any) -> None:
    while True:
        if holds(await client.request(topic, None)):
            return
        await asyncio.sleep(0.1)


async def test_who_is_slow_is_seen(short_folder: Path) -> None:
    with running(short_folder) as (process, (east, page, *_)):
        assert process.stdout is not None
        said = iter(process.stdout.readline, "")
        assert await asyncio.to_thread(lambda: any(f"Open http://127.0.0.1:{page}/" in line for line in said))
        async with connect(f"tcp://127.0.0.1:{east}") as client:
            await until(client, "$hub/state", lambda it: "report" in dict(it["dropped_by"]))
            await until(client, "$hub/mesh/graph", lambda it: [len(row["links"]) for row in it] == [1, 1])
            await until(client, "$hub/consumers", lambda it: {row["name"] for row in it if row["lag"]} >= {"quality"})
            await until(client, "$hub/names", lambda it: [row["name"] for row in it] == ["org.example.plant.Converter"])
            await until(
                client, "$hub/stores", lambda it: [(row["name"], row["entries"]) for row in it] == [("last", 20)]
            )
        process.send_signal(signal.SIGINT)
        rest = await asyncio.to_thread(process.stdout.read)
        assert await asyncio.to_thread(process.wait) == 0, rest
        assert "Traceback" not in rest
    assert left_in(short_folder) == []
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", east)):
        pass


def test_it_ends_by_itself(short_folder: Path) -> None:
    with running(short_folder, "--seconds", "0.5") as (process, _):
        assert process.stdout is not None
        rest = process.stdout.read()
        assert process.wait() == 0, rest


def test_a_port_that_is_taken(short_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running(short_folder, "--west-page", port) as (process, _):
            assert process.stdout is not None
            rest = process.stdout.read()
            assert process.wait() == 1
    assert port in rest
    assert "demo: the hub at tcp://127.0.0.1:" in rest
    assert "Traceback" not in rest
