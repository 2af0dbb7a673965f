"""Limits of time and number: handshake, silence, lingering, connections, and what a client makes the hub write."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from hub.errors import CloseCode
from hub.messages.frame import Frame, encode_frame
from hub.quotas import FREE_BYTES, Resource, Usage, Whole
from hub.scheduling.memory import Memory
from hub.settings.settings import Limits
from peers.connections.connection import TURN_EVENTS, Connection
from peers.connections.limits import LINGER_S, Holding, Lingering, Progress
from peers.transport.transport import unread_bytes
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient, publication
from tests.hubs.settings import settings_of

PING = Frame(Kind.PING, 0, b"", b"")
PONG = encode_frame(Kind.PONG, b"")
HELLO = Hello(protocol=1, role="client").encode()


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


async def most_in_a_turn(done: Callable[[], int], total: int) -> int:
    most = before = 0
    while before < total:
        await asyncio.sleep(0)
        most, before = max(most, done() - before), done()
    return most


async def test_messages_of_many_topics_do_not_hold_up_the_others(hub: Hub) -> None:
    client = await hub.client()
    await client.send(b"".join(encode_frame(Kind.MESSAGES, b"", key=b"/%d" % number) for number in range(8_000)))
    assert await most_in_a_turn(lambda: hub.server.core.routes.misses, 8_000) <= 2 * TURN_EVENTS


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


@pytest.mark.parametrize("rest_bytes", [0, 250_000])
def test_a_user_without_room_is_refused_what_is_incomplete(rest_bytes: int) -> None:
    memory = Memory()
    usage = Usage(Whole(Resource.QUEUED_BYTES, 400_000), "alice", 240_000, lambda: None)
    holding = Holding(memory.account("connections"))
    holding.charge(usage, FREE_BYTES)
    assert not holding.grow(300_000, memory, waits=True)
    assert usage.held == 300_000
    assert holding.grow(rest_bytes, memory).startswith("user alice has") is bool(rest_bytes)
    assert not holding.grow(rest_bytes, memory)
    assert usage.held == rest_bytes


# How long whoever is closed may take to read why.


LINGERING = Limits(linger_s=80, linger_unread_s=14)


def test_who_reads_slowly_is_waited_for() -> None:
    lingering, now_s, unread = Lingering(100.0, 1_000_000, LINGERING), 100.0, 1_000_000
    looks = 0
    while math.isfinite(next_s := lingering.check(now_s, unread)):
        assert next_s == now_s + LINGER_S
        now_s, unread, looks = next_s, unread - 1000, looks + 1
    assert looks == LINGERING.linger_s / LINGER_S
    assert unread > 0


# Whether a frame that has begun gets on.


LIMITS = Limits()
FRAME_S = LIMITS.frame_s


def test_a_slow_line_is_not() -> None:
    progress = Progress()
    for number in range(1000):
        assert not progress.is_stuck(100.0 + 10 * number, 20 + 10 * number * LIMITS.frame_bytes_per_s, LIMITS)


def test_each_frame_has_its_time() -> None:
    for renew in (Progress.forget, lambda progress: progress.go_on(0)):
        progress = Progress()
        for number in range(5):
            renew(progress)
            assert not progress.is_stuck(100.0 + FRAME_S * number, 20, LIMITS)


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


def test_without_an_incomplete_frame_nothing_is_stuck() -> None:
    progress = Progress()
    assert not any(progress.is_stuck(100.0 + FRAME_S * number, 0, LIMITS) for number in range(5))
