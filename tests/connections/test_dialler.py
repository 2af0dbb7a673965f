"""The dialler: a link comes up when the far hub does, comes back when it was lost, and says why it is not there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import structlog

from hub.errors import CloseCode
from hub.overflow import QueueLimits
from peers.connections.dialler import hub_dialler
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import publication


async def test_a_link_heals(start_hub: StartHub) -> None:
    near = await start_hub(name="near")
    watcher = await near.client("$hub/peer/")
    far = await start_hub(name="far")
    dialler = near.dial(far)
    assert [topic for topic, _ in await watcher.values(1)] == ["$hub/peer/joined"]
    url = f"tcp://127.0.0.1:{far.endpoint.port}"
    for _ in range(2):
        await far.stop()
        ((topic, value),) = await watcher.values(1)
        assert (topic, value["name"], value["role"]) == ("$hub/peer/left", "far", "link")
        assert value["reason"]
        attempts = dialler.attempts
        await eventually(lambda attempts=attempts: dialler.attempts > attempts + 2)  # type: ignore[misc]
        far = await start_hub(url, name="far")
        ((topic, value),) = await watcher.values(1)
        assert (topic, value["name"], value["address"]) == ("$hub/peer/joined", "far", url)
        reader, publisher = await far.client("/a"), await near.client()
        await eventually(lambda: set(near.handler("far").shown_prefixes) == {"/a"})
        await publisher.publish("/a", 1)
        assert await reader.values(1) == [("/a", 1)]


async def test_a_hub_that_comes_later(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    await far.stop()
    with structlog.testing.capture_logs() as logs:
        dialler = near.dial(far)
        await eventually(lambda: dialler.attempts > 5)
        told = [line for line in logs if line["event"] == "no link to peer"]
    assert len(told) == 1
    assert told[0]["peer"] == f"tcp://127.0.0.1:{far.endpoint.port}"
    assert "Connect call failed" in told[0]["reason"] or "refused" in told[0]["reason"]
    await start_hub(far.endpoint.location, name="far again")
    await eventually(lambda: len(near.node.links) == 1)


async def test_over_a_unix_socket(start_hub: StartHub, tmp_path: Path) -> None:
    near = await start_hub(name="near")
    far = await start_hub(f"unix://{tmp_path}/far.sock", name="far")
    reader = await far.client("/a")
    near.dial(far)
    await eventually(lambda: len(near.node.links) == 1 and set(near.handler("far").shown_prefixes) == {"/a"})
    await (await near.client()).publish("/a", 1)
    assert await reader.values(1) == [("/a", 1)]
    assert near.handler("far").address == f"unix://{tmp_path}/far.sock"


UNREACHABLE = {
    "tcp://a..b:7400": "label empty",
    "tcp://" + "x" * 70 + ":7400": "label too long",
    "unix:///nowhere/at/all.sock": "No such file or directory",
}


@pytest.mark.parametrize("url", UNREACHABLE)
async def test_an_address_that_cannot_be_reached(hub: Hub, url: str) -> None:
    dialler = hub_dialler(hub.node, Endpoint.parse(url), QueueLimits(), Backoff(0.001, 0.001))
    task = asyncio.ensure_future(dialler.run())
    await eventually(lambda: dialler.attempts > 2 or task.done())
    assert not task.done()
    assert UNREACHABLE[url] in dialler.last_reason
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_refusal_is_not_repeated_quickly(start_hub: StartHub) -> None:
    """A far side that says "already connected" says so as long as that link stands: when it goes, the dialler is there.

    The first attempt behind that is at once, whatever the bound.
    """
    near, far = await start_hub(name="near"), await start_hub(name="far")
    near.dial(far)
    await eventually(lambda: len(near.node.links) == 1)
    dialler = near.dial(far, backoff=Backoff(base_s=0.0, cap_s=0.0))
    await eventually(lambda: "(4009)" in dialler.last_reason)
    await settle()
    assert dialler.attempts == 1
    (first, *_) = far.connections
    first.end(CloseCode.GOING_AWAY, "make room")
    await eventually(lambda: dialler.attempts > 1)


async def test_success_begins_anew(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    await far.stop()
    backoff = Backoff(base_s=0.0001, cap_s=0.01)
    dialler = near.dial(far, backoff=backoff)
    await eventually(lambda: backoff._bound_s == 0.01)
    far = await start_hub(far.endpoint.location, name="far")
    await eventually(lambda: len(near.node.links) == 1)
    attempts = dialler.attempts
    (connection,) = far.connections
    connection.end(CloseCode.GOING_AWAY, "restart")
    await eventually(lambda: dialler.attempts == attempts + 1)
    assert backoff._bound_s <= 0.0002


async def test_who_stops_dialling_hangs_up(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    dialler = hub_dialler(near.node, far.endpoint, QueueLimits())
    task = asyncio.ensure_future(dialler.run())
    await eventually(lambda: len(far.node.links) == len(near.node.links) == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await eventually(lambda: not len(far.node.links) and not near.node.connections)


async def test_a_link_drains(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    reader = await far.client("/a")
    dialler = hub_dialler(near.node, far.endpoint, QueueLimits())
    task = asyncio.ensure_future(dialler.run())
    await eventually(lambda: len(near.node.links) == 1 and set(near.handler("far").shown_prefixes) == {"/a"})
    publisher = await near.client()
    await publisher.send(*(publication("/a", number) for number in range(5000)))
    await publisher.ping()
    near.node.draining = True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for connection in list(near.node.connections):
        connection.drain()
    assert await reader.values(5000) == [("/a", number) for number in range(5000)]
    assert (await publisher.end())[0] == CloseCode.GOING_AWAY
    await eventually(lambda: not len(far.node.links))


async def test_refused_diallers_do_not_wake_each_other(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    near.dial(far)
    await eventually(lambda: len(near.node.links) == 1)
    diallers = [near.dial(far, backoff=Backoff(base_s=0.0, cap_s=0.0)) for _ in range(3)]
    await eventually(lambda: all("(4009)" in dialler.last_reason for dialler in diallers))
    await settle()
    assert [dialler.attempts for dialler in diallers] == [1, 1, 1]
