"""Messages in blocks of a segment: what the hub does with segments, and who is told what was released."""

from __future__ import annotations

from collections.abc import Iterator

import msgpack
import pytest

from hub.frame import FLAG_SHARED
from hub.request_frame import Request
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind
from peers.wire.shared import (
    DESCRIPTORS,
    Released,
    Segment,
    decode_handle,
    decode_released,
    decode_segment,
    encode_released,
    encode_segment,
)
from tests.shm.conftest import StartHub
from tests.shm.hubs import Ring, SharingClient, SharingHub, handle_frame, shared_settings

LARGE = msgpack.packb(b"x" * 100_000)


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    yield ring
    ring.close()


async def released(client: SharingClient) -> Released:
    frame = await client.frame()
    assert frame.kind == Kind.RELEASED, frame
    return decode_released(frame.body)


async def test_a_segment_is_handed_over_once(hub: SharingHub, ring: Ring) -> None:
    publisher, reader = await hub.sharing(), await hub.sharing("/a")
    remote = await hub.over_tcp("/a")
    number = await publisher.open_segment(ring)
    handles = [ring.fill(offset, generation, LARGE) for generation, offset in ((1, 0), (2, 128 * 1024))]
    for handle in handles:
        await publisher.send(handle_frame("/a", handle))
    segment = await reader.frame()
    assert decode_segment(segment.body) == Segment(number, ring.size_bytes)
    for handle in handles:
        frame = await reader.frame()
        assert decode_handle(frame.body, frame.flags) == handle
    assert len(reader.descriptors) == 1
    assert await remote.values(2) == [("/a", b"x" * 100_000)] * 2


async def test_a_block_is_released_when_every_reader_has_released_it(hub: SharingHub, ring: Ring) -> None:
    publisher, one, two = await hub.sharing(), await hub.sharing("/a"), await hub.sharing("/a", "/b")
    number = await publisher.open_segment(ring)
    await publisher.send(handle_frame("/nobody", ring.fill(0, 1, LARGE)))
    assert await released(publisher) == Released([(number, 1)])
    await publisher.send(handle_frame("/a", ring.fill(0, 2, LARGE)))
    await publisher.send(handle_frame("/b", ring.fill(128 * 1024, 3, LARGE)))
    await publisher.ping()
    await two.send(encode_released([(number, 3)]))
    await two.ping()
    assert await publisher.ping() == []
    await one.send(encode_released([(number, 2)]))
    assert await released(publisher) == Released([(number, 3)])


async def test_a_reader_that_leaves_releases_all(hub: SharingHub, ring: Ring) -> None:
    publisher, reader = await hub.sharing(), await hub.sharing("/a")
    number = await publisher.open_segment(ring)
    await publisher.send(handle_frame("/a", ring.fill(0, 1, LARGE)))
    await publisher.ping()
    reader.close()
    assert await released(publisher) == Released([(number, 1)])


async def test_readers_are_told_when_the_publisher_goes(hub: SharingHub, ring: Ring) -> None:
    publisher, reader = await hub.sharing(), await hub.sharing("/a")
    number = await publisher.open_segment(ring)
    await publisher.send(handle_frame("/a", ring.fill(0, 1, LARGE)))
    await reader.frame()
    await reader.frame()
    publisher.close()
    frame = await reader.frame()
    assert decode_segment(frame.body) == Segment(number, 0)
    assert hub.node.shared.segments == 0


async def test_a_publisher_may_give_its_segment_back(start_hub: StartHub, ring: Ring) -> None:
    hub = await start_hub(settings=shared_settings(segments=1))
    publisher = await hub.sharing()
    number = await publisher.open_segment(ring)
    await publisher.send(encode_segment(Segment(number, 0)))
    assert await publisher.open_segment(ring) != number
    assert hub.node.shared.descriptors.open == 1


async def test_what_comes_behind_a_later_block_comes_as_bytes(start_hub: StartHub, ring: Ring) -> None:
    """A request overtakes messages that wait: its block is later, and to release it must not release theirs."""
    hub = await start_hub(settings=shared_settings(client_descriptors=1))
    publisher, other, reader = await hub.sharing(), await hub.sharing(), await hub.sharing("/a", name="reader")
    await reader.send(encode_subscription(Kind.SERVE, ["/s"], 1))
    await reader.notice()
    number = await publisher.open_segment(ring)
    await other.publish_shared("/a", LARGE)  # the reader is given no more until it has taken this
    await other.ping()
    await publisher.send(handle_frame("/a", ring.fill(0, 1, LARGE)))
    request = Request(b"/s", 1, 0, ring.fill(128 * 1024, 2, LARGE).encode(), FLAG_SHARED)
    await publisher.send(request.encode())
    await publisher.ping()
    statistics = hub.handler("reader").statistics()
    assert statistics.queued_messages == 1
    assert statistics.queued_bytes > 200_000  # of both
    await reader.send(encode_released([(DESCRIPTORS, 1)]))
    await reader.shared_values()
    frames = [await reader.frame() for _ in range(3)]
    assert [frame.kind for frame in frames] == [Kind.SEGMENT, Kind.REQUEST, Kind.MESSAGES]
    assert not frames[2].flags
    assert frames[2].body == LARGE
    assert await released(publisher) == Released([(number, 1)])
    await reader.send(encode_released([(number, 2)]))
    assert await released(publisher) == Released([(number, 2)])
