"""An act can be followed in few files: the modules whose functions run while it happens are counted here.

Counters and limits that an act passes count, too; code that the test's own clients run does not. The limits below are
what there is: lower them when an act becomes shorter. Goals: 11, 14, 14, 18, 20 and 18 files.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from hub.settings.settings import JournalSettings, Settings
from peers.client import Client, connect
from tests.commands.talkers import talker
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub, default_url, start_hub, uncaught
from tests.hubs.hub import Hub
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["default_url", "pytest_asyncio_loop_factories", "start_hub", "uncaught"]

ROOT = Path(__file__).parents[1]


def _module(frame: FrameType | None) -> str:
    """Return the path of a frame's file within the project; empty outside of `hub`, `peers` and `tests`."""
    if frame is None:
        return ""
    path = frame.f_code.co_filename
    name = path.removeprefix(f"{ROOT}/")
    return name if name != path and name.startswith(("hub/", "peers/", "tests/")) else ""


@contextmanager
def followed() -> Iterator[set[str]]:
    """Collect the files of the product whose functions are called, but for one that a compiled twin may replace."""
    files: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        name = _module(frame)
        if not name.startswith(("hub/", "peers/")) or name == "hub/messages/runs.py":
            return
        caller: FrameType | None = frame
        while _module(caller).startswith(("hub/", "peers/")):
            assert caller is not None
            caller = caller.f_back
        if not _module(caller).startswith("tests/"):
            files.add(name)

    sys.setprofile(look)
    try:
        yield files
    finally:
        sys.setprofile(None)


def show(act: str, files: set[str]) -> None:
    print(f"{act}: {len(files)} files\n  " + "\n  ".join(sorted(files)))  # noqa: T201 -- shown where a test fails


@pytest.fixture
async def hub(start_hub: StartHub, tmp_path: Path) -> Hub:
    recording = JournalSettings(path=str(tmp_path / "journal"), topics=("/kept/",), commit_s=0.001)
    hub = await start_hub(settings=msgspec.structs.replace(Settings(), journal=recording), name="north")
    hub.server.read_times.due_s = math.inf  # some reads are measured, which takes two files more
    return hub


async def two(hub: Hub, *prefixes: str) -> tuple[Any, Any]:
    """Return two clients, both connected for long."""
    clients = [await talker(hub, "tcp", hub.endpoint, *prefixes) for _ in range(2)]
    for client in clients:
        await client.barrier()
    await asyncio.sleep(0.1)
    return clients[0], clients[1]


async def test_a_message(hub: Hub) -> None:
    publisher, subscriber = await two(hub, "/a/")
    await publisher.publish("/a/x", 1)
    await subscriber.hear()
    with followed() as files:
        await publisher.publish("/a/x", 2)
        await subscriber.hear()
    show("message in to out", files)
    assert len(files) <= 8


async def test_a_subscription(hub: Hub) -> None:
    client, _ = await two(hub)
    with followed() as files:
        await client.done("subscribe", prefixes=["/b/"])
    show("SUBSCRIBE", files)
    assert len(files) <= 17


async def test_a_request(hub: Hub) -> None:
    asker, service = await two(hub)
    await service.done("serve", prefixes=["/add"])
    with followed() as files:
        await asker.say("request", request=1, topic="/add", value=1)
        asked = await service.hear()
        await service.say("reply", request=asked["request"], value=2)
        await asker.hear()
    show("REQUEST and REPLY", files)
    assert len(files) <= 14


async def test_a_record(hub: Hub) -> None:
    client, _ = await two(hub)
    await client.ask("publish", topic="/kept/x", value=1, confirm=True)
    await asyncio.sleep(0.1)
    with followed() as files:
        assert (await client.ask("publish", topic="/kept/x", value=2, confirm=True))["type"] == "recorded"
    show("append to confirm", files)
    assert len(files) <= 18


async def test_an_interest_of_another_hub(hub: Hub, start_hub: StartHub) -> None:
    south = await start_hub(name="south")
    south.server.read_times.due_s = math.inf
    hub.dial(south)
    await eventually(lambda: len(hub.server.links) == len(south.server.links) == 1)
    client = await talker(south, "tcp", south.endpoint)
    await asyncio.sleep(0.3)
    with followed() as files:
        await client.done("subscribe", prefixes=["/b/"])
        await eventually(lambda: "/b/" in hub.wanted_by(south))
    show("interest from hub to hub", files)
    assert len(files) <= 24


async def test_a_reconnect_of_a_client(hub: Hub) -> None:
    async with connect(hub.url) as client:
        assert isinstance(client, Client)
        async with client.subscribe("/a/"):
            await asyncio.sleep(0.1)
            with followed() as files:
                before = set(hub.server.connections)
                await hub.crash()
                await eventually(lambda: hub.server.connections and not before & set(hub.server.connections))
                await eventually(lambda: "/a/" in {p for h in hub.server.core.handlers.values() for p in h.prefixes})
    files = {name for name in files if name.startswith(("peers/client/", "peers/wire/", "peers/transport/"))}
    show("reconnect of a client", files)
    assert len(files) <= 17
