"""docs/http.md and docs/websocket.md: examples run as they stand, with curl; conversations take place as written."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from hub.settings.settings import HttpSettings, Limits
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.websocket.http_content import RANGES_LIMIT
from tests.hub.fakes import publish

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "http.md").read_text()
LINES = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
PUBLISHING = [line for line in LINES if "/v1/publish" in line]
FOLLOWING = [line for line in LINES if "/v1/events" in line]

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    listen = ["ws://127.0.0.1:0", f"unix://{tmp_path}/hub.sock"]
    loaded = load({"listen": listen, "journal": {"path": str(tmp_path / "journal")}}, {})
    daemon = Daemon(loaded, "hub-1")
    await daemon.start()
    try:
        yield daemon
    finally:  # a hub that is left behind keeps the interpreter from ending
        await daemon.stop()


async def started(daemon: Daemon, line: str) -> asyncio.subprocess.Process:
    web, unix = daemon.endpoints
    text = line.replace("127.0.0.1:7401", f"127.0.0.1:{web.port}").replace("/run/hub.sock", unix.path)
    text = text.replace("curl ", "curl -sS --fail-with-body ", 1)
    text = text if "|" in text else f"exec {text}"  # so that what is ended is curl itself
    return await asyncio.create_subprocess_shell(text, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL)


def test_there_are_examples() -> None:
    assert len(PUBLISHING) + len(FOLLOWING) == len(LINES)
    assert len(PUBLISHING) >= 4
    assert len(FOLLOWING) >= 4


@needs_curl
@pytest.mark.parametrize("line", PUBLISHING)
async def test_publishing(daemon: Daemon, line: str) -> None:
    process = await started(daemon, line)
    told, _ = await process.communicate()
    assert process.returncode == 0, told
    answer = json.loads(told)
    assert answer["messages"] == (2 if "printf" in line else 1)
    assert ("offsets" in answer) == ("confirm" in line)


async def publish_until(daemon: Daemon, is_enough: asyncio.Event) -> None:
    while not is_enough.is_set():
        publish(daemon.server.core, "/zeek/dns", {"query": "example.org"})
        daemon.server.core.flush()
        await asyncio.sleep(0.01)


@needs_curl
@pytest.mark.parametrize("line", FOLLOWING)
async def test_following(daemon: Daemon, line: str) -> None:
    for _ in range(2):  # what is there already
        publish(daemon.server.core, "/zeek/dns", {"query": "example.org"})
    process = await started(daemon, line)
    has_come = asyncio.Event()
    publishing = asyncio.ensure_future(publish_until(daemon, has_come))  # it may take time until the stream begins
    assert process.stdout is not None
    found: list[str] = []
    try:
        while not any(one.startswith("data: ") for one in found):
            found += (await process.stdout.readuntil(b"\n\n")).decode().splitlines()
    finally:
        has_come.set()
        await publishing
        process.kill()
        await process.communicate()
    assert json.loads(found[-2].removeprefix("data: "))["value"] == {"query": "example.org"}
    assert any(one.startswith("id: ") for one in found) == ("overflow" not in line)


def test_numbers() -> None:
    assert HttpSettings().body_bytes == 1 << 30
    limits = Limits()
    assert (limits.handshake_bytes, limits.handshake_s, limits.frame_bytes) == (64 << 10, 5.0, 16 << 20)
    assert limits.ping_after_s + limits.ping_timeout_s == 30.0
    assert (RANGES_LIMIT, limits.frame_s, limits.frame_bytes_per_s) == (1000, 60.0, 1024)


CONVERSATION = re.findall(r"^([<>]) (\{.*\})$", (DOCS / "websocket.md").read_text(), re.MULTILINE)
VARIES = {"hub", "journal", "software", "epoch", "time_ms"}


def compared(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "" if key in VARIES else compared(inner) for key, inner in value.items()}
    return [compared(inner) for inner in value] if isinstance(value, list) else value


async def test_the_conversation(daemon: Daemon) -> None:
    assert len(CONVERSATION) >= 7
    url = f"ws://127.0.0.1:{daemon.endpoints[0].port}/v1/hub"
    async with connect(url, subprotocols=[Subprotocol("hub.v1.json")]) as socket:
        for side, text in CONVERSATION:
            if side == ">":
                await socket.send(text)
            else:
                assert compared(json.loads(await socket.recv())) == compared(json.loads(text))
