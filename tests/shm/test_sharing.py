"""Messages in memory of their own, and in blocks of a segment: what the hub does with descriptors and segments."""

from __future__ import annotations

from collections.abc import Iterator

import msgpack
import pytest

from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_CONFIRM, FLAG_SHARED, KIND_MESSAGES, Frame
from hub.messages.request_frame import Request
from peers.shm.sharing import Memfd, SharedBatch
from peers.wire.control import Notice, encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.shared import (
    DESCRIPTORS,
    Handle,
    Released,
    Segment,
    decode_handle,
    decode_released,
    decode_segment,
    encode_released,
    encode_segment,
)
from tests.hubs.eventually import settle
from tests.hubs.raw_client import publication
from tests.shm.conftest import StartHub
from tests.shm.hubs import Ring, SharingClient, SharingHub, handle_frame, memfd, shared_settings

LARGE = msgpack.packb(b"x" * 200_000)


async def test_a_descriptor_goes_to_those_who_take_it_and_bytes_to_the_others(hub: SharingHub) -> None:
    """One on the same socket without `shared`, one over TCP, and one that shares: all get the same value."""
    publisher = await hub.sharing()
    reader = await hub.sharing("/a")
    plain = await hub.client("/a")
    remote = await hub.over_tcp("/a")
    await publisher.publish_shared("/a", LARGE)
    await publisher.publish("/a", "behind")
    assert await reader.shared_values() == ("/a", LARGE)
    assert await reader.values(1) == [("/a", "behind")]
    for client in (plain, remote):
        assert await client.values(2) == [("/a", b"x" * 200_000), ("/a", "behind")]
    assert hub.server.shared.messages_total == 1


async def test_several_values_in_one_frame(hub: SharingHub) -> None:
    publisher, reader, plain = await hub.sharing(), await hub.sharing("/a"), await hub.client("/a")
    values = LARGE + msgpack.packb("second")
    frame = handle_frame("/a", Handle(len(values)), flags=FLAG_BATCH, count=BATCH_COUNT.pack(2))
    await publisher.hand_over(frame, memfd(values))
    assert await reader.shared_values() == ("/a", values)
    assert await plain.values(2) == [("/a", b"x" * 200_000), ("/a", "second")]


@pytest.mark.parametrize(("flags", "count"), [(0, b""), (FLAG_BATCH, BATCH_COUNT.pack(1))])
def test_it_is_known_how_much_it_is_as_bytes(flags: int, count: bytes) -> None:
    handle = Handle(len(LARGE))
    batch = SharedBatch(Frame(KIND_MESSAGES, flags, b"/a", count + handle.encode()), Memfd(memfd(LARGE), handle))
    assert batch.frames_bytes == len(batch.frames)


async def test_nothing_is_lost_at_the_hand_over(hub: SharingHub) -> None:
    """Whatever stands behind HELLO in the same packet, and comes while the socket changes hands, is acted on, once."""
    for size in (0, 1, 1000, 300_000):
        reader = await hub.client(f"/{size}/")
        publisher = await hub.raw()
        numbers = range(20)
        hello = Hello(protocol=1, role="client", shared=1).encode()
        rest = b"".join(publication(f"/{size}/", number, bytes(size)) for number in numbers)
        await publisher.send(hello + rest)
        found = await reader.values(2 * len(numbers))
        assert [value for _, value in found[::2]] == list(numbers)


async def test_whoever_reads_no_descriptors_is_given_no_more_than_its_share(start_hub: StartHub) -> None:
    hub = await start_hub(settings=shared_settings(client_descriptors=3))
    reader = await hub.sharing("/a", name="reader")
    values = [msgpack.packb([number, b"x" * 100_000]) for number in range(8)]
    for first in (0, 3, 6):  # each publisher with its own share
        publisher = await hub.sharing()
        for value in values[first : first + 3]:
            await publisher.publish_shared("/a", value)
        await publisher.ping()
    statistics = hub.handler("reader").statistics()
    assert (statistics.delivered_messages, statistics.queued_messages) == (3, 5)
    assert statistics.queued_bytes > 5 * 100_000
    found = [await reader.shared_values() for _ in range(3)]
    assert await reader.ping() == []  # it is read, and answered, all the same
    for taken in (3, 6):
        await reader.send(encode_released([(DESCRIPTORS, taken)]))
        found += [await reader.shared_values() for _ in range(min(3, len(values) - taken))]
    assert found == [("/a", value) for value in values]


async def test_beyond_the_limit_of_descriptors_it_is_copied(start_hub: StartHub) -> None:
    """A publisher whose messages wait in queues holds no more descriptors of the hub than its share."""
    hub = await start_hub(settings=shared_settings(client_descriptors=2))
    publisher, reader = await hub.sharing(), await hub.sharing("/a", name="reader")
    for _ in range(6):
        await publisher.publish_shared("/a", LARGE)
    await publisher.ping()
    assert hub.server.shared.descriptors.open <= 2
    assert hub.server.shared.copied_total > 0
    assert hub.server.shared.descriptors.refused == hub.server.shared.copied_total
    assert hub.handler("reader").dropped_messages == 0
    await reader.send(encode_released([(DESCRIPTORS, 2)]))
    await settle()


async def test_a_confirmation_comes_all_the_same(hub: SharingHub) -> None:
    publisher = await hub.sharing()
    frame = handle_frame("/a", Handle(len(LARGE)), flags=FLAG_CONFIRM)
    await publisher.hand_over(frame, memfd(LARGE))
    notice = await publisher.notice()
    assert (notice.kind, notice.count) == ("unrecorded", 1)


async def test_a_client_that_asks_for_none_gets_none(hub: SharingHub) -> None:
    client = await hub.client()
    await client.send(handle_frame("/a", Handle(100)))
    notice = await client.notice()
    assert (notice.kind, notice.count, notice.code) == ("error", 1, 1008)
    assert await client.ping() == []


async def test_a_notice_of_loss_counts_messages(hub: SharingHub) -> None:
    publisher, reader = await hub.sharing(), await hub.sharing("/a", frame=100_000)
    await publisher.publish_shared("/a", LARGE)
    assert await reader.notice() == Notice("dropped", count=1)


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
    handles = [ring.fill(offset, generation, LARGE) for generation, offset in ((1, 0), (2, 256 * 1024))]
    for handle in handles:
        await publisher.send(handle_frame("/a", handle))
    segment = await reader.frame()
    assert decode_segment(segment.body) == Segment(number, ring.size_bytes)
    for handle in handles:
        frame = await reader.frame()
        assert decode_handle(frame.body, frame.flags) == handle
    assert len(reader.descriptors) == 1
    assert await remote.values(2) == [("/a", b"x" * 200_000)] * 2


async def test_a_block_is_released_when_every_reader_has_released_it(hub: SharingHub, ring: Ring) -> None:
    publisher, one, two = await hub.sharing(), await hub.sharing("/a"), await hub.sharing("/a", "/b")
    number = await publisher.open_segment(ring)
    await publisher.send(handle_frame("/nobody", ring.fill(0, 1, LARGE)))
    assert await released(publisher) == Released([(number, 1)])
    await publisher.send(handle_frame("/a", ring.fill(0, 2, LARGE)))
    await publisher.send(handle_frame("/b", ring.fill(256 * 1024, 3, LARGE)))
    await publisher.ping()
    await two.send(encode_released([(number, 3)]))
    await two.ping()
    assert await publisher.ping() == []
    await one.send(encode_released([(number, 2)]))
    assert await released(publisher) == Released([(number, 3)])


async def test_readers_are_told_when_the_publisher_goes(hub: SharingHub, ring: Ring) -> None:
    publisher, reader = await hub.sharing(), await hub.sharing("/a")
    number = await publisher.open_segment(ring)
    await publisher.send(handle_frame("/a", ring.fill(0, 1, LARGE)))
    await reader.frame()
    await reader.frame()
    publisher.close()
    frame = await reader.frame()
    assert decode_segment(frame.body) == Segment(number, 0)
    assert hub.server.shared.segments == 0


async def test_a_publisher_may_give_its_segment_back(start_hub: StartHub, ring: Ring) -> None:
    hub = await start_hub(settings=shared_settings(segments=1))
    publisher = await hub.sharing()
    number = await publisher.open_segment(ring)
    await publisher.send(encode_segment(Segment(number, 0)))
    assert await publisher.open_segment(ring) != number
    assert hub.server.shared.descriptors.open == 1


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
    request = Request(b"/s", 1, 0, ring.fill(256 * 1024, 2, LARGE).encode(), FLAG_SHARED)
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
