"""Clients that share memory: what a program sees, over a Unix socket and elsewhere, and that nothing is left of it."""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from hub.errors import BusyError, UsageError
from peers.client import Client, InvalidValueError, ServiceRequest, connect
from peers.shm.views import View
from tests.client.scripted import quick_backoff
from tests.hubs.eventually import eventually
from tests.shm.conftest import StartHub, memfds
from tests.shm.hubs import SharingHub, shared_settings

LARGE = bytes(range(256)) * 1000
MIB = 1 << 20


def url_of(hub: SharingHub) -> str:
    return hub.endpoint.location


async def test_large_values_travel_as_memory(hub: SharingHub) -> None:
    remote = await hub.over_tcp("/a")
    async with connect(url_of(hub)) as client, client.subscribe("/a") as messages:
        values = [1, LARGE, "small", [LARGE, {"x": LARGE}], None]
        for value in values:
            client.publish_nowait("/a", value)
        assert [(await anext(messages)).value for _ in values] == values
        assert await remote.values(5) == [("/a", value) for value in values]
        assert hub.server.shared.messages_total == 2


async def test_a_hub_that_does_not_share(start_hub: StartHub) -> None:
    hub = await start_hub(settings=shared_settings(over_bytes=0))
    async with connect(url_of(hub)) as client, client.subscribe("/a") as messages:
        client.publish_nowait("/a", LARGE)
        block = await client.allocate(len(LARGE))
        block.memory[:] = LARGE
        client.publish_nowait("/a", block)
        assert [(await anext(messages)).value for _ in range(2)] == [LARGE, LARGE]


async def test_many_messages_are_more_than_may_be_in_flight(hub: SharingHub) -> None:
    async with connect(url_of(hub)) as client, client.subscribe("/a") as messages:
        for number in range(100):
            await client.publish("/a", [number, LARGE])
            if number % 20 == 19:
                await client.drain()
        for number in range(100):
            assert (await anext(messages)).value == [number, LARGE]
        assert client.dropped_messages == 0


async def test_views_are_not_copied(hub: SharingHub) -> None:
    """With `views=True` bytes that came in shared memory are given as a `View`, others as they are."""
    async with connect(url_of(hub), views=True) as client, client.subscribe("/a") as messages:
        for value in (LARGE, b"small", [LARGE]):
            client.publish_nowait("/a", value)
        first, second, third = [await anext(messages) for _ in range(3)]
        assert isinstance(first.value, View)
        with first.view() as memory:
            assert memory == LARGE
            assert memory.readonly
        assert len(first.value) == len(LARGE)
        assert (second.value, third.value) == (b"small", [LARGE])
        with second.view() as memory:
            assert memory == b"small"


async def test_blocks(hub: SharingHub) -> None:
    remote = await hub.over_tcp("/a")
    async with (
        connect(url_of(hub)) as publisher,
        connect(url_of(hub), views=True) as viewer,
        connect(url_of(hub)) as reader,
        viewer.subscribe("/a") as views,
        reader.subscribe("/a") as values,
    ):
        await confirmed(hub, publisher)
        for number in range(5):
            block = await publisher.allocate(MIB)
            block.memory[:] = bytes([number]) * MIB
            publisher.publish_nowait("/a", block)
            publisher.publish_nowait("/a", number)
            with (await anext(views)).view() as memory:
                assert bytes(memory) == bytes([number]) * MIB
            assert (await anext(views)).value == number
            assert (await anext(values)).value == bytes([number]) * MIB
            assert (await anext(values)).value == number
            assert await remote.values(2) == [("/a", bytes([number]) * MIB), ("/a", number)]
        assert hub.server.shared.segments == 1


async def confirmed(hub: SharingHub, client: Client) -> None:
    client.allocate_nowait(1)
    await eventually(lambda: client._exchange.blocks._conversation._ring_number > 0)  # type: ignore[union-attr]
    assert hub.server.shared.segments > 0


async def test_without_room_there_is_no_block(hub: SharingHub) -> None:
    async with (
        connect(url_of(hub), ring_bytes=2 * MIB, lease_s=3600.0) as publisher,
        connect(url_of(hub), views=True) as viewer,
        viewer.subscribe("/a") as views,
    ):
        await confirmed(hub, publisher)
        publisher.publish_nowait("/a", await publisher.allocate(MIB))
        held = await anext(views)
        with pytest.raises(BusyError):
            publisher.allocate_nowait(MIB)
        ring = publisher._exchange.blocks._ring  # type: ignore[union-attr]
        assert ring is not None
        ring.lease_s = 0.05  # from the beginning this could be over before it was tried
        await publisher.allocate(MIB)
        assert held is not None
        with pytest.raises(UsageError, match="larger ring_bytes"):
            await publisher.allocate(3 * MIB)


async def test_a_block_is_sent_once(hub: SharingHub) -> None:
    async with connect(url_of(hub)) as client:
        await confirmed(hub, client)
        block = await client.allocate(MIB)
        client.publish_nowait("/a", block)
        await client.drain()
        with pytest.raises(UsageError, match="sent once"):
            client.publish_nowait("/a", block)
        with pytest.raises(InvalidValueError):
            client.publish_nowait("/a", [await client.allocate(10)])


@pytest.mark.parametrize("size_bytes", [100, 100_000])
async def test_many_blocks_in_one_turn(hub: SharingHub, size_bytes: int) -> None:
    """Each request has its own answer, whether they travel in a frame of their own or with others; no room is lost."""
    async with connect(url_of(hub), ring_bytes=8 * MIB) as service, connect(url_of(hub), ring_bytes=8 * MIB) as asker:
        await confirmed(hub, service)
        await confirmed(hub, asker)

        def answer(request: ServiceRequest) -> object:
            block = service.allocate_nowait(size_bytes)
            block.memory[:] = request.value[::-1]
            return block

        async with service.serve("/turned", answer):
            for turn in range(4):
                values = [bytes([turn, number]) * (size_bytes // 2) for number in range(20)]
                asked = []
                for value in values:
                    block = await asker.allocate(size_bytes)
                    block.memory[:] = value
                    asked.append(asker.request_nowait("/turned", block))
                assert await asyncio.gather(*asked) == [value[::-1] for value in values]


def echo(request: ServiceRequest) -> object:
    return request.value


async def test_requests_between_those_who_share_and_those_who_do_not(hub: SharingHub) -> None:
    async with (
        connect(url_of(hub)) as sharing,
        connect(url_of(hub), shared_memory=False) as plain,
        plain.serve("/plain", echo),
        sharing.serve("/shared", echo),
    ):
        assert await sharing.request("/plain", LARGE) == LARGE
        assert await plain.request("/shared", LARGE) == LARGE
        assert await sharing.request("/shared", LARGE) == LARGE


async def test_another_connection_takes_the_ring_again(hub: SharingHub) -> None:
    async with connect(url_of(hub), backoff=quick_backoff(), ring_bytes=4 * MIB) as publisher:
        await confirmed(hub, publisher)
        publisher.publish_nowait("/a", await publisher.allocate(MIB))
        await publisher.drain()
        for connection in hub.connections:
            connection.abort()
        async with connect(url_of(hub), views=True) as viewer, viewer.subscribe("/a") as views:
            await eventually(lambda: publisher.statistics().connections == 2)
            await eventually(lambda: hub.server.shared.segments == 1)
            await eventually(lambda: publisher._exchange.blocks._conversation._ring_number > 1)  # type: ignore[union-attr]
            for _ in range(8):
                publisher.publish_nowait("/a", await publisher.allocate(MIB))
                with (await anext(views)).view() as memory:
                    assert len(memory) == MIB


async def test_what_waits_in_a_stream_keeps_few_descriptors(hub: SharingHub) -> None:
    async with (
        connect(url_of(hub)) as publisher,
        connect(url_of(hub)) as reader,
        reader.subscribe("/a", buffer_bytes=1 << 30) as messages,
    ):
        for number in range(150):
            await publisher.publish("/a", [number, LARGE])
            await publisher.drain()
        await eventually(lambda: reader.statistics().received_messages == 150)
        assert 0 < memfds() <= 64
        for number in range(150):
            assert (await anext(messages)).value == [number, LARGE]


PAGE = Path(__file__).parents[2] / "docs" / "shared-memory.md"
PYTHON = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", PYTHON, ids=range(len(PYTHON)))
async def test_document(hub: SharingHub, block: str) -> None:
    text = block.replace("unix:///run/hub.sock", hub.endpoint.location)
    code = compile(text, "docs/shared-memory.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {"connect": connect}
    made = eval(code, names)  # noqa: S307 -- our own page
    if inspect.isawaitable(made):
        await made
    assert hub.server.shared.messages_total > 0


CLIENT = """
import asyncio, sys
from peers.client import connect

async def main():
    async with connect(sys.argv[1], views=True) as client, client.subscribe("/") as messages:
        await client.allocate(1)
        held = []
        while True:
            client.publish_nowait("/memfd", bytes(200_000))
            block = await client.allocate(200_000)
            client.publish_nowait("/block", block)
            held.append(await anext(messages))
            if len(held) > 40:
                held.pop(0)
                print("held", flush=True)

asyncio.run(main())
"""


def shared_names() -> set[str]:
    folder = Path("/dev/shm")  # noqa: S108 -- it is what is looked at
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_client_that_is_killed(hub: SharingHub, end: signal.Signals) -> None:
    before = shared_names()
    reader = await hub.sharing("/")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, hub.endpoint.location, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    for _ in range(20):
        await process.stdout.readline()
    assert hub.server.shared.segments == 1
    process.send_signal(end)
    await process.wait()
    await eventually(lambda: len(hub.server.core.handlers) == 1)
    reader.close()
    await eventually(lambda: not hub.server.core.handlers)
    gc.collect()
    reader.descriptors.clear()
    assert memfds() == 0
    assert hub.server.shared.descriptors.open == 0
    assert hub.server.shared.segments == 0
    assert shared_names() <= before
