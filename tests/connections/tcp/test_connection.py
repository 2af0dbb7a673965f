"""Clients over TCP: frames as they came, bad input, origins, frames that do not fit; and limits of time and number."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from hub.messages.batch import Batch, decode_values, encode_value
from hub.messages.frame import (
    FLAG_BATCH,
    FLAG_CONFIRM,
    HEADER,
    KIND_MESSAGES,
    Frame,
    Origin,
    encode_frame,
    iterate_frames,
)
from hub.quotas import Resource, Usage, Whole
from hub.scheduling.memory import Memory
from hub.settings.settings import JournalSettings, Limits
from peers.connections.connection import Connection
from peers.connections.limits import LINGER_S, Holding, Progress
from peers.connections.tcp import Origins, as_they_came
from peers.journal.journal import Journal
from peers.transport.transport import unread_bytes
from peers.wire.control import Notice, decode_notice, decode_origin, encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.oversize import fitting
from peers.wire.records import Fetch, decode_records, encode_fetch
from tests.connections.pretend import Stage
from tests.connections.tcp.asking import asking
from tests.hub.fakes import FLAG_BROKER, frame, opaque_frame
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient, publication
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


HELLO = Hello(protocol=1, role="client").encode()


def messages(topic: bytes, body: bytes = b"\xc0", flags: int = 0) -> bytes:
    return encode_frame(Kind.MESSAGES, body, key=topic, flags=flags)


class Bad(NamedTuple):
    stream: bytes
    code: int
    text: str
    greeted: bool = True


ERROR, BIG = CloseCode.PROTOCOL_ERROR, CloseCode.TOO_BIG
FATAL = {
    "garbage": Bad(b"\xff" * 100, BIG, "routing key of 65535 bytes, limit 6144", greeted=False),
    "an unknown kind": Bad(encode_frame(99, b""), ERROR, "unknown kind 99"),
    "refused messages and then garbage": Bad(messages(b"") * 5 + b"\xff" * 8, BIG, "routing key of"),
}


@dataclass
class Others:
    publisher: RawClient
    subscriber: RawClient

    async def are_unaffected(self) -> None:
        await self.publisher.publish("/others", "still here")
        assert await self.subscriber.values(1) == [("/others", "still here")]
        assert await self.publisher.ping() == []
        assert await self.subscriber.ping() == []


@pytest.fixture
async def others(hub: Hub) -> Others:
    return Others(await hub.client(name="publisher"), await hub.client("/", name="subscriber"))


@pytest.mark.parametrize("name", FATAL)
async def test_what_ends_the_connection(hub: Hub, others: Others, name: str) -> None:
    """And the reason arrives while the client sends on."""
    bad = FATAL[name]
    client = await hub.raw()
    if bad.greeted:
        await client.greet(name="bad")
    await client.send(bad.stream)
    for _ in range(50):
        await client.send(publication("/others", "late") * 1000)
    code, text = await client.end()
    assert (code, bad.text in text) == (bad.code, True), text
    await client.send(publication("/others", "late") * 1000)
    assert [handler.name for handler in hub.server.core.handlers.values()] == ["publisher", "subscriber"]
    await others.are_unaffected()
    client.close()
    await eventually(lambda: len(hub.server.connections) == 2)


async def test_the_hub_reads_no_more_than_a_handshake(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(handshake_bytes=4096, frame_bytes=8192))
    client = await hub.raw()
    await client.send(HEADER.pack(4097, Kind.HELLO, 0, 0))
    assert await client.end() == (CloseCode.TOO_BIG, "body of 4097 bytes, limit 4096")
    client = await hub.client()
    await client.send(HEADER.pack(8193, Kind.MESSAGES, 0, 0))
    assert await client.end() == (CloseCode.TOO_BIG, "body of 8193 bytes, limit 8192")


PING = Frame(Kind.PING, 0, b"", b"")
PONG = encode_frame(Kind.PONG, b"")


# The handshake.


async def test_a_handshake_in_small_steps_gets_no_more_time(hub: Hub) -> None:
    client = await hub.raw()
    await eventually(lambda: hub.server.connections)
    for byte in HELLO[:6]:
        await say(hub, client, bytes([byte]))
        hub.later(0.9)
    hub.later(0.9)
    assert await client.end() == (CloseCode.PROTOCOL_ERROR, "no HELLO within 5 s")


async def say(hub: Hub, client: RawClient, data: bytes) -> None:
    (connection,) = hub.server.connections
    liveness = cast("Connection", connection).liveness
    heard_s = liveness.heard_s
    hub.later(0.01)  # the clock of a loop may stand while this is said
    await client.send(data)
    await eventually(lambda: liveness.heard_s > heard_s)


# Silence.


async def test_a_frame_that_drips(hub: Hub) -> None:
    client = await hub.client(name="me")
    (connection,) = hub.connections
    session = connection.session
    await client.send(publication("/a", bytes(60_000))[:1000])
    for _ in range(12):
        held = session.held_bytes
        await client.send(b"x")
        await eventually(lambda held=held: session.held_bytes != held)  # type: ignore[misc]
        hub.later(10)
        if session.closed:
            break
    assert session.closed
    assert await client.end() == (1002, "a frame has been incomplete for more than 60 s")
    assert hub.server.cut_connections == {"incomplete": 1, "unread": 0}


async def test_anything_is_an_answer(hub: Hub) -> None:
    for said in (publication("/a", 1), publication("/a", 1)[:5]):
        client = await hub.client()
        hub.later(21)
        assert await client.frame() == PING
        await say(hub, client, said)
        hub.later(11)
        await settle()
        assert len(hub.server.core.handlers) == 1
        client.close()
        await eventually(lambda: not hub.server.connections)


async def test_who_reads_slowly_is_alive(start_hub: StartHub, tmp_path: Path) -> None:
    hub = await start_hub(f"unix://{tmp_path}/hub.sock")
    client, handler = await stalled(hub), hub.handler("stalled")
    for _ in range(4):
        hub.later(21)
        written_bytes = handler.delivered_bytes
        while handler.delivered_bytes == written_bytes:
            await client.frame()
            await settle()
            assert not handler.closed
            if handler.writable:
                await refill(hub)
        hub.later(11)
        await settle()
        assert not handler.closed


async def refill(hub: Hub) -> None:
    publisher = await hub.client()
    while hub.handler("stalled").writable:
        await publisher.send(publication("/flood", bytes(10_000)) * 20)
        await publisher.ping()
    publisher.close()
    await settle()


async def test_times_are_those_of_the_settings(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(handshake_s=2.0, ping_after_s=3.0, ping_timeout_s=1.5))
    stranger, client = await hub.raw(), await hub.client()
    await eventually(lambda: len(hub.server.connections) == 2)
    hub.later(3.5)
    assert await stranger.end() == (CloseCode.PROTOCOL_ERROR, "no HELLO within 2 s")
    hub.later(1)
    assert await client.frame() == PING
    hub.later(3)
    assert await client.end() == (CloseCode.PROTOCOL_ERROR, "no answer to the ping within 1.5 s")


# Lingering.


async def test_who_does_not_close_is_closed(hub: Hub) -> None:
    client = await hub.client()
    await client.send(encode_frame(99, b""))
    assert await client.end() == (CloseCode.PROTOCOL_ERROR, "unknown kind 99")
    (connection,) = hub.connections
    await eventually(lambda: unread_bytes(connection.transport) == 0)
    hub.later(LINGER_S - 1)
    await settle()
    assert len(hub.server.connections) == 1
    hub.later(2)
    await settle()
    assert not hub.server.connections
    assert len(hub.server.keepalive) == 0


async def test_who_does_not_read_the_reason_is_closed(hub: Hub) -> None:
    client, publisher = await stalled(hub), await hub.client()
    await publisher.ping()
    await client.send(encode_frame(99, b""))
    await publisher.ping()
    hub.later(LINGER_S + 1)
    await settle()
    assert len(hub.server.connections) == 2
    hub.later(hub.server.settings.limits.linger_unread_s)
    await settle()
    assert len(hub.server.connections) == 1
    assert hub.server.cut_connections == {"incomplete": 0, "unread": 1}


async def stalled(hub: Hub) -> RawClient:
    client = await hub.client("/flood", name="stalled", receive_bytes=4096)
    await refill(hub)
    return client


# How many.


async def test_one_connection_too_many(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(connections=2))
    hub.server.admission.limit = 2
    first, second = await hub.client("/a"), await hub.client()
    for said in (b"", HELLO + publication("/a", "smuggled")):
        third = await hub.raw()
        await third.send(said)
        assert await third.end() == (CloseCode.TRY_AGAIN_LATER, "2 connections are open, which is the limit")
        third.close()
    await second.publish("/a", 1)
    assert await first.values(1) == [("/a", 1)]
    assert (hub.server.admission.accepted, hub.server.admission.refused) == (2, 2)
    second.close()
    await eventually(lambda: len(hub.server.connections) == 1)
    assert await (await hub.client()).ping() == []


# What a client makes the hub write.


def test_the_user_pays_from_when_he_is_known() -> None:
    account = Memory().account("connections")
    usage = Usage(Whole(Resource.QUEUED_BYTES, 10_000_000), "alice", 1_000_000, lambda: None)
    holding = Holding(account)
    holding.begin(600_000)
    holding.charge(usage, 10_000)
    assert usage.held == 600_000
    holding.leave_unwritten(700_000)
    assert (usage.held, holding.refusal) == (1_300_000, "")
    holding.leave_unwritten(10_000)
    assert usage.held == 600_000, "what is free is not charged"
    holding.leave_unwritten(300_000)
    holding.begin(700_000)
    assert (usage.held, holding.refusal) == (1_000_000, "")
    assert holding.begin(700_001)
    assert usage.held == account.size_bytes == 1_000_001
    assert holding.refusal.startswith("user alice has 1000000 bytes waiting, 1 more are too many")
    assert holding.refusal.endswith("the limit for this user is 1000000")
    holding.give_back()
    assert usage.held == account.size_bytes == 0


def test_what_waits_for_its_turn_is_charged_until_all_of_it_was_acted_on() -> None:
    memory = Memory()
    account = memory.account("connections")
    holding = Holding(account)
    assert not holding.grow(200_000, memory, waits=True)
    assert not holding.grow(100_000, memory, waits=True)
    assert account.size_bytes == 200_000
    assert not holding.grow(100_000, memory)
    assert account.size_bytes == 100_000


# How long whoever is closed may take to read why.


# Whether a frame that has begun gets on.


LIMITS = Limits()
FRAME_S = LIMITS.frame_s


def test_a_slow_line_is_not() -> None:
    progress = Progress()
    for number in range(1000):
        assert not progress.is_stuck(100.0 + 10 * number, 20 + 10 * number * LIMITS.frame_bytes_per_s, LIMITS)


def test_frames_within_a_message_are_no_progress_of_it() -> None:
    progress = Progress()
    assert not progress.is_stuck(100.0, 20, LIMITS, 1)
    progress.go_on(1)
    assert progress.is_stuck(100.0 + FRAME_S, 21, LIMITS, 1)
    progress.go_on(2)
    assert not progress.is_stuck(100.0 + FRAME_S, 20, LIMITS, 2)
    progress.go_on(2)
    assert progress.is_stuck(100.0 + 2 * FRAME_S, 21, LIMITS, 2)


def test_the_limits_are_those_of_the_settings() -> None:
    progress, limits = Progress(), Limits(frame_s=5, frame_bytes_per_s=2)
    assert not progress.is_stuck(100.0, 10, limits)
    assert not progress.is_stuck(104.0, 11, limits)
    assert not progress.is_stuck(105.0, 20, limits)
    assert progress.is_stuck(106.0, 21, limits)
