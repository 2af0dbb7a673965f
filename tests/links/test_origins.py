"""Clients that ask are told by which hub each message has entered, over several hops and in shared memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.batch import decode_values
from peers.client import Client, MessageStream, connect
from peers.wire.control import decode_origin
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

LARGE = bytes(1 << 20)
"""More than what travels as memory over a Unix socket, by default."""


def knows(hub: Hub, other: Hub, prefix: str) -> bool:
    record = hub.node.core.mesh.records.get(other.node.id)
    return record is not None and prefix in record.wants


async def brought(stream: MessageStream, publisher: Client, value: object) -> tuple[object, bytes]:
    await publisher.publish("/a", value)
    message = await stream.receive()
    return message.value, message.origin


@pytest.mark.parametrize("scheme", ["tcp", "unix"])
async def test_a_row_of_hubs(start_hub: StartHub, tmp_path: Path, scheme: str) -> None:
    url = "tcp://127.0.0.1:0" if scheme == "tcp" else f"unix://{tmp_path}/near.sock"
    near, middle, far = await start_hub(url, name="near"), await start_hub(name="middle"), await start_hub(name="far")
    near.dial(middle)
    middle.dial(far)
    async with (
        connect(near.url, origins=True) as reader,
        reader.subscribe("/a") as stream,
        connect(near.url) as at_near,
        connect(middle.url) as at_middle,
        connect(far.url) as at_far,
    ):
        await eventually(lambda: knows(far, near, "/a") and knows(middle, near, "/a"))
        publishers = [at_near, at_far, at_middle, at_far, at_near, at_near]
        hubs = [near, far, middle, far, near, near]
        for value in (1, LARGE):
            found = [await brought(stream, publisher, value) for publisher in publishers]
            assert found == [(value, hub.node.id) for hub in hubs]


async def test_a_client_that_takes_small_frames(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    near.dial(far)
    reader = await near.raw()
    assert (await reader.greet(origins=True, frame=100)).origins
    await reader.subscribe("/a")
    await eventually(lambda: knows(far, near, "/a"))
    publisher = await far.client()
    await publisher.publish("/a", bytes(60), bytes(61), bytes(62))
    origin, *messages = [await reader.frame() for _ in range(4)]
    assert origin.kind == Kind.ORIGIN
    assert decode_origin(origin.body).hub == far.node.id
    assert [decode_values(frame) for frame in messages] == [[bytes(size)] for size in (60, 61, 62)]


async def test_a_single_hub(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with connect(hub.url, origins=True) as reader, reader.subscribe("/a", "$hub/client/") as stream:
        assert await brought(stream, reader, 1) == (1, hub.node.id)
        async with connect(hub.url, name="another"):
            told = await stream.receive()
        assert (told.topic, told.origin) == ("$hub/client/joined", hub.node.id)


async def test_over_websockets_nothing_is_told(start_hub: StartHub) -> None:
    hub = await start_hub("ws://127.0.0.1:0")
    async with connect(hub.url, origins=True) as reader, reader.subscribe("/a") as stream:
        assert await brought(stream, reader, 1) == (1, b"")
