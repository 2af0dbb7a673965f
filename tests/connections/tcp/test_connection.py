"""Clients of a hub over real sockets: subscribing, publishing, order, and how they come and go."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from hub.limits import Overflow
from hub.messages.batch import Batch, decode_values, encode_value
from hub.messages.frame import FLAG_BATCH, FLAG_CONFIRM, KIND_MESSAGES, Frame, Origin, encode_frame, iterate_frames
from hub.settings.settings import JournalSettings, Limits, Settings
from peers.connections.tcp import Origins, as_they_came
from peers.journal.journal import Journal
from peers.wire.control import Notice, decode_notice, decode_origin, encode_subscription
from peers.wire.hello import Hello, QueueWish
from peers.wire.kinds import Kind
from peers.wire.oversize import fitting
from peers.wire.records import Fetch, decode_records, encode_fetch
from tests.connections.pretend import Stage
from tests.connections.tcp.asking import asking
from tests.hub.fakes import FLAG_BROKER, frame, opaque_frame
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import publication
from tests.hubs.settings import settings_of
from tests.journal.files import records


async def test_frames_go_on_as_they_came(hub: Hub) -> None:
    subscriber, publisher = await hub.client("/"), await hub.client()
    sent = [
        Frame(Kind.MESSAGES, 1, b"/a", b"\x00\x00\x00\x03\xc0\xc1\xff"),
        Frame(Kind.MESSAGES, 0, b"/a", b""),
        Frame(Kind.MESSAGES, 2, b"/b", b"broker's own"),
        Frame(Kind.MESSAGES, 3, b"/b", b"\x00\x00\x00\x01x"),
    ]
    await publisher.send(*(encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags) for frame in sent))
    assert [await subscriber.frame() for _ in sent] == sent


# Queues.


async def test_a_listener_has_a_queue_of_its_own(start_hub: StartHub) -> None:
    hub = await start_hub("tcp://127.0.0.1:0?messages=10&overflow=disconnect", settings=Settings())
    client = await hub.raw()
    assert (await client.greet()).queue == QueueWish(10, 64 << 20, Overflow.DISCONNECT)


async def test_answers_and_requests_in_one_packet() -> None:
    stage = Stage()
    connection = stage.connect()
    frames = [
        Hello(protocol=1, role="client").encode(),
        encode_subscription(Kind.SUBSCRIBE, ["/a"], 1),
        encode_subscription(Kind.SERVE, ["/b"], 2),
        asking("/nobody", 3, 1),
        asking("/b", 4, 1),
        encode_frame(Kind.PING, b"x"),
    ]
    connection.data_received(b"".join(frames))
    (written,) = stage.transport_of(connection).far.incoming
    assert written is not None
    told = list(iterate_frames(written))
    kinds = [Kind.HELLO, Kind.NOTICE, Kind.NOTICE, Kind.PONG, Kind.REPLY, Kind.REQUEST]
    assert [frame.kind for frame in told] == kinds
    assert [decode_notice(frame.body).request for frame in told[1:3]] == [1, 2]


# Over sockets, with a real journal.


@pytest.fixture
async def recording(start_hub: StartHub, tmp_path: Path) -> AsyncIterator[Hub]:
    hub = await start_hub(settings=settings_of(ping_after_s=3600.0))
    defaults = JournalSettings(path=str(tmp_path / "journal"), commit_s=0.001, buffer_bytes=100_000)
    journal = Journal(hub.server.core, defaults, Limits())
    hub.server.journal = journal
    yield hub
    await journal.stop()


async def test_a_malformed_batch_with_confirm(recording: Hub) -> None:
    client = await recording.client()
    await client.send(encode_frame(KIND_MESSAGES, b"\0\0\0\7x", key=b"/a", flags=FLAG_BATCH | FLAG_CONFIRM))
    assert (await client.notice()).code == CloseCode.BAD_DATA
    await client.send(encode_frame(KIND_MESSAGES, b"\0\0\0\3\xc1\xc1\xc1", key=b"/a", flags=FLAG_BATCH | FLAG_CONFIRM))
    assert await client.notice() == Notice("recorded", count=3, offset=0)
    await client.send(encode_fetch(Fetch(1)))
    found = records(decode_records((await client.frame()).body).blocks)
    assert [record.body for record in found] == [b"\xc1\xc1\xc1", b"", b""]


values = st.integers(0, 120).map(bytes)
frames = st.one_of(values.map(lambda value: [value]), st.lists(values, min_size=1, max_size=8))


@given(
    batches=st.lists(st.lists(st.tuples(frames, st.booleans()), min_size=1, max_size=4), max_size=4),
    limit_bytes=st.integers(1, 200),
)
def test_only_values_over_the_limit_are_lost(batches: list[list[tuple[list[bytes], bool]]], limit_bytes: int) -> None:
    made = [
        Batch(b"".join(frame(inside, packed=packed) for inside, packed in one), sum(len(inside) for inside, _ in one))
        for one in batches
    ]
    sent = [value for one in batches for inside, _ in one for value in inside]
    found: list[bytes | None] = []
    for piece in fitting(made, limit_bytes):
        if isinstance(piece, int):
            found += [None] * piece
            continue
        inside = [value for part in piece.parts() for value in decode_values(part)]
        assert len(inside) == piece.messages
        assert all(len(part.body) <= limit_bytes for part in piece.parts())
        found += inside
    assert found == [value if len(encode_value(value)) <= limit_bytes else None for value in sent]


@pytest.mark.parametrize("large", [opaque_frame(5, b"\xc1" * 100), opaque_frame(5, b"\xc0" * 100, flags=FLAG_BROKER)])
def test_what_cannot_be_split_is_lost_alone(large: bytes) -> None:
    small = frame([1])
    first, lost, second = fitting([Batch(small + large + small, 7)], 50)
    assert isinstance(first, Batch)
    assert isinstance(second, Batch)
    assert (first.frames, lost, second.frames) == (small, 5, small)


def test_a_value_that_fits_only_alone() -> None:
    (piece,) = fitting([Batch(frame([bytes(58)], packed=True), 1)], 60)
    assert isinstance(piece, Batch)
    (part,) = iterate_frames(piece.frames)
    assert not part.flags & FLAG_BATCH
    assert decode_values(part) == [bytes(58)]


async def test_a_client_that_takes_small_frames(hub: Hub) -> None:
    small, large = await hub.client("/a", frame=1000, name="small"), await hub.client("/a")
    publisher = await hub.client()
    batch = [bytes([number]) * 300 for number in range(20)]
    await publisher.send(
        publication("/a", *batch),
        publication("/a", "before"),
        publication("/a", bytes(5000)),
        publication("/a", bytes(6000)),
        publication("/a", "behind"),
    )
    got: list[object] = []
    while got[-1:] != ["behind"]:
        received = await small.frame()
        if received.kind == Kind.NOTICE:
            got.append("2 lost")
            assert decode_notice(received.body) == Notice("dropped", count=2)
            continue
        assert len(received.body) <= 1000
        got += decode_values(received)
    assert got == [*batch, "before", "2 lost", "behind"]
    assert len(await large.values(24)) == 24
    statistics = hub.handler("small").statistics()
    assert (statistics.delivered_messages, statistics.dropped_messages) == (22, 2)
    assert [event.value["lost"] for event in hub.server.core.report_drops()] == [2]


HERE, FAR, FARTHER = b"h" * 16, b"f" * 16, b"g" * 16


def batch(number: int, hub: bytes | None, epoch: int = 1) -> Batch:
    made = Batch.of("/a", [number])
    made.origin = None if hub is None else Origin(hub, epoch)
    return made


def read(pieces: Sequence[bytes]) -> tuple[list[tuple[int, bytes]], int]:
    origin, told = HERE, 0
    found = []
    for one in iterate_frames(b"".join(pieces)):
        if one.kind == Kind.ORIGIN:
            origin = decode_origin(one.body).hub
            told += 1
        else:
            found.append((one.body[0], origin))
    return found, told


def test_what_is_written_elsewhere_counts() -> None:
    origins = Origins(HERE, as_they_came)
    assert origins.before(batch(1, HERE)) == b""
    (frame,) = iterate_frames(origins.before(batch(1, FAR)))
    assert decode_origin(frame.body) == Origin(FAR, 1)
    assert read(origins.render([batch(2, FAR)])) == ([(2, HERE)], 0)


@given(st.lists(st.lists(st.sampled_from([None, HERE, FAR, FARTHER]), min_size=1, max_size=6), max_size=6))
def test_each_message_is_read_with_its_origin(writes: list[list[bytes | None]]) -> None:
    origins = Origins(HERE, as_they_came)
    pieces: list[bytes] = []
    expected = []
    for hubs in writes:
        start = len(expected)
        pieces += origins.render([batch(start + place, hub) for place, hub in enumerate(hubs)])
        expected += [(start + place, hub or HERE) for place, hub in enumerate(hubs)]
    found, told = read(pieces)
    assert found == expected
    ways = [HERE, *(hub for _, hub in expected)]
    assert told == sum(one != other for one, other in itertools.pairwise(ways))
