"""Publishing with the asyncio client, over each transport, to a real hub."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import BusyError, CloseCode, RejectedError
from hub.messages.batch import Batch, encode_value
from hub.messages.frame import iterate_frames
from hub.settings.settings import Settings
from peers.client import Client, connect
from peers.client.publications import BATCH_BYTES, Publications
from peers.client.values import decode_batch
from tests.client.scripted import Told
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of


def fill(client: Client) -> None:
    while True:
        client.publish_nowait("/a", bytes(1000))


async def test_full_buffer(start_hub: StartHub) -> None:
    hub = await start_hub()
    told = Told()
    async with told.connect(hub.url, buffer_bytes=10_000) as client:
        await hub.stop()
        await told.disconnected.get()
        with pytest.raises(BusyError, match="the limit is 10000"):
            fill(client)
        taken = client.statistics()
        assert 0 < taken.buffered_bytes <= 10_000
        assert taken.published_messages == 9
        waiting = asyncio.ensure_future(client.publish("/a", bytes(1000)))
        await asyncio.sleep(0)
        assert not waiting.done()
        await start_hub(hub.endpoint)
        await waiting
        await client.drain()
        assert client.statistics().buffered_bytes == 0


async def test_too_large_for_the_hub(start_hub: StartHub, listen_url: str) -> None:
    """What the hub would end the connection for is refused by the call; the limit is the connected hub's own."""
    hub = await start_hub(listen_url, settings=settings_of(frame_bytes=16 * 1024))
    async with connect(hub.url) as client, client.subscribe("/a") as messages:
        with pytest.raises(RejectedError, match="the hub accepts at most") as caught:
            client.publish_nowait("/a", bytes(16 * 1024))
        assert caught.value.code == CloseCode.TOO_BIG
        for number in range(100):
            client.publish_nowait("/a", [number, bytes(1000)])
        assert [(await anext(messages)).value[0] for _ in range(100)] == [*range(100)]
        assert client.statistics().connections == 1


async def test_a_smaller_hub_comes_back(start_hub: StartHub) -> None:
    hub = await start_hub()
    told = Told()
    async with told.connect(hub.url) as client:
        await hub.stop()
        await told.disconnected.get()
        for size in (10, 100_000, 20):
            client.publish_nowait("/a", bytes(size))
        stream = client.subscribe("/a")
        opening = asyncio.ensure_future(stream.open())
        await start_hub(hub.endpoint, settings=settings_of(frame_bytes=16 * 1024))
        await opening
        assert [len((await anext(stream)).value) for _ in range(2)] == [10, 20]
        assert (await told.rejected.get()).code == CloseCode.TOO_BIG
        assert client.statistics().rejected_messages == 1


async def test_closing_sends_first(hub: Hub) -> None:
    async with connect(hub.url) as other, other.subscribe("/") as messages:
        async with connect(hub.url, close_timeout_s=60) as client:
            for number in range(5_000):
                client.publish_nowait(f"/{number % 3}", number)
        assert [(await anext(messages)).value for _ in range(5_000)] == list(range(5_000))


async def test_closing_does_not_wait_forever(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings())
    client: Client = await connect(hub.url, close_timeout_s=0.01, buffer_bytes=64 * 1024 * 1024)
    (connection,) = hub.server.connections
    connection.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(400):
        client.publish_nowait("/a", bytes(100_000))
    await client.close()
    assert client.statistics().unsent_messages > 0


def frames_of(publications: Publications) -> list[tuple[str, int]]:
    frames = b"".join(publications.take(2**40))
    return [(frame.key.decode(), frame.messages) for frame in iterate_frames(frames)]


calls = st.lists(st.tuples(st.sampled_from(["/a", "/b"]), st.binary(max_size=200)), max_size=60)


@given(calls, st.sets(st.integers(0, 60)), st.integers(1, 300))
def test_order_and_bytes(published: list[tuple[str, bytes]], turns: set[int], limit_bytes: int) -> None:
    publications = Publications()
    taken: list[bytes] = []
    for number, (topic, value) in enumerate(published):
        publications.append(topic, encode_value(value))
        assert (
            publications.buffered_messages + sum(frame.messages for frame in iterate_frames(b"".join(taken)))
            == number + 1
        )
        if number in turns:
            taken += publications.take(limit_bytes)
    while publications:
        taken += publications.take(limit_bytes)
    messages, bad = decode_batch(Batch(b"".join(taken), 1))
    assert [(message.topic, message.value) for message in messages] == published
    assert not bad
    assert publications.buffered_bytes == 0
    assert publications.published_messages == len(published)
    keys = [frame.key for frame in iterate_frames(b"".join(taken))]
    if not turns:
        assert all(one != other for one, other in pairwise(keys))


@given(st.lists(st.tuples(st.sampled_from(["/a", "/b"]), st.integers(0, 300)), max_size=50), st.integers(100, 2000))
def test_bound(published: list[tuple[str, int]], limit_bytes: int) -> None:
    publications = Publications(limit_bytes)
    accepted = []
    for topic, size in published:
        before = publications.buffered_messages
        try:
            publications.append(topic, encode_value(bytes(size)))
        except (BusyError, RejectedError):
            assert publications.buffered_messages == before
        else:
            accepted.append((topic, size))
        assert 0 <= publications.buffered_bytes <= limit_bytes
    held = publications.buffered_bytes
    frames = b"".join(publications.take(2**40))
    assert len(frames) <= held
    messages, _ = decode_batch(Batch(frames, 1))
    assert [(message.topic, len(message.value)) for message in messages] == accepted


def test_batches_end() -> None:
    publications = Publications()
    for _ in range(5000):
        publications.append("/a", b"\x01")
    assert frames_of(publications) == [("/a", 4096), ("/a", 904)]
    for size in (BATCH_BYTES - 3, 10, BATCH_BYTES * 2, 1):
        publications.append("/a", bytes(size))
    assert frames_of(publications) == [("/a", 1), ("/a", 1), ("/a", 1), ("/a", 1)]
    publications.append("/a", b"\x01")
    publications.seal()
    publications.append("/a", b"\x01")
    publications.append("/b", b"\x01")
    assert frames_of(publications) == [("/a", 1), ("/a", 1), ("/b", 1)]
