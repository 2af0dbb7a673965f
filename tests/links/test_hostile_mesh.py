"""Hubs in odd situations, and peers that send any news of the mesh, are bounded; a quiet pair gets every message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, MutableMapping
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from hub.mesh.announcement import SEQ_LIMIT, Announcement, Digest, Wanted
from hub.mesh.upstream import FAR_EPOCH
from hub.messages.frame import EPOCH_LIMIT, Frame, Origin, encode_frame
from hub.settings.settings import MeshSettings, Settings
from peers.wire.control import decode_notice, encode_origin
from peers.wire.kinds import Kind
from peers.wire.routing import AnnouncementPart, decode_routing
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.mesh_peer import MeshPeer, told
from tests.hubs.raw_client import publication
from tests.hubs.settings import settings_of
from tests.links.meshes import QuietPair

_PEER, _OTHER = b"peer" * 4, b"else" * 4
_HUBS_LIMIT = 100
_PREFIXES_LIMIT = 5_000
_FRAME_BYTES = 1 << 20


@pytest.fixture
async def pair(start_hub: StartHub) -> AsyncIterator[QuietPair]:
    limits = settings_of(prefixes_per_peer=_PREFIXES_LIMIT).limits
    settings = Settings(limits=limits, mesh=MeshSettings(hubs=_HUBS_LIMIT))
    near, far = [await start_hub(name=name, settings=settings) for name in ("near", "far")]
    pair = await QuietPair.of(near, far)
    yield pair
    await pair.exchange()


async def linked(hub: Hub) -> MeshPeer:
    peer = await hub.peer(id=_PEER)
    peer.quiet = frozenset({Kind.ACCOUNT})
    await peer.ping()
    return peer


def routing(frames: list[Frame]) -> list[AnnouncementPart | Digest | Wanted]:
    return [decode_routing(frame.body) for frame in frames if frame.kind == Kind.ROUTING]


def other(number: int) -> bytes:
    return number.to_bytes(16, "big")


async def test_origins_that_cannot_be(pair: QuietPair) -> None:
    hub = pair.near
    reader = await hub.client("/a")
    peer = await linked(hub)
    said = (
        (Origin(hub.server.id, 5), False),
        (Origin(_OTHER, 5), False),
        (Origin(_PEER, 7), True),
        (Origin(_PEER, SEQ_LIMIT), True),
        (Origin(_PEER, 8), False),
        (Origin(_PEER, 7), False),
        (Origin(_PEER, SEQ_LIMIT), True),
    )
    for number, (origin, _) in enumerate(said):
        await peer.send(encode_origin(origin), publication("/a", number))
    taken = [number for number, (_, is_taken) in enumerate(said) if is_taken]
    assert await reader.values(len(taken)) == [("/a", number) for number in taken]
    mesh = hub.server.core.mesh
    assert (mesh.repeated_messages, mesh.overtaken_messages) == (3, 1)
    await peer.send(encode_frame(Kind.ORIGIN, b"short"))
    assert await peer.end() == (1002, "ORIGIN: 5 bytes, expected 20")


@pytest.mark.parametrize("asks", ["digests", "wishes"])
async def test_small_frames_that_ask_for_large_ones(pair: QuietPair, asks: str) -> None:
    hub = pair.near
    await hub.client(*(f"/{number:03}" for number in range(900)))
    peer = await linked(hub)
    copies = 0
    for _ in range(30):
        await peer.send(*told(Digest(()) if asks == "digests" else Wanted(hub.server.id)))
        copies += sum(
            isinstance(one, AnnouncementPart) and one.hub == hub.server.id for one in routing(await peer.ping())
        )
    assert 0 < copies < 15


async def test_gaps_without_end(pair: QuietPair) -> None:
    hub = pair.near
    peer = await linked(hub)
    for first in range(1, 3_000, 1_000):
        news = [Announcement(other(number), 5, 6, "", None, ("/a",)) for number in range(first, first + 1_000)]
        await peer.send(*told(*news))
    frames = await peer.ping()
    assert 0 < sum(isinstance(one, Wanted) for one in routing(frames)) <= 3_000
    assert len(hub.server.core.mesh.records) == 3
    await pair.exchange()


async def test_twenty_thousand_hubs(pair: QuietPair) -> None:
    hub = pair.near
    peer = await linked(hub)
    for first in range(1, 3_001, 1_000):
        news = [Announcement(other(number), 0, 1, "x", ((_PEER, 1),)) for number in range(first, first + 1_000)]
        await peer.send(*told(*news))
    frames = await peer.ping()
    notices = [decode_notice(frame.body).text for frame in frames if frame.kind == Kind.NOTICE]
    assert any(f"{_HUBS_LIMIT} hubs are known here, the limit is {_HUBS_LIMIT}" in text for text in notices)
    assert hub.server.core.mesh.statistics().refused_total == 3_000 - (_HUBS_LIMIT - 3)
    assert len(hub.server.core.mesh.records) == _HUBS_LIMIT
    await pair.exchange()
    assert len(pair.far.server.core.mesh.records) <= _HUBS_LIMIT


async def test_a_filter_without_end(pair: QuietPair) -> None:
    hub = pair.near
    peer = await linked(hub)
    wanted = tuple(f"/{number}" for number in range(100_000))
    frames = told(Announcement(_PEER, 1, 2, "", None, wanted))
    with capture_logs() as logs:
        async with pair.busy():
            await peer.send(*frames)
            await peer.ping()
        await peer.send(*told(Announcement(_PEER, 2, 3, "", None, ("/one", "/more"))))
        await peer.ping()
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert line["event"].startswith("another hub wants more than is kept here")
    assert (line["hub"], line["name"], line["left_out"]) == (_PEER.hex(), "peer", 100_000)
    assert hub.server.core.mesh.left_out == 100_000 + 2
    assert hub.server.core.mesh.records[_PEER].believed == ("",)
    await eventually(lambda: pair.far.server.core.mesh.records[_PEER].believed == ("",))
    await peer.send(*told(Announcement(_PEER, 0, 4, "peer", ((hub.server.id, 1),), wanted[:_PREFIXES_LIMIT])))
    await peer.ping()
    await eventually(lambda: len(pair.far.server.core.mesh.records[_PEER].wants) == _PREFIXES_LIMIT)
    await eventually(lambda: not hub.server.core.scheduler.is_busy)


async def test_links_that_change_all_the_time(pair: QuietPair) -> None:
    hub = pair.near
    peer = await linked(hub)
    for number in range(2, 202):
        links = ((hub.server.id, 1 + number % 3), *((other(one), 1) for one in range(number % 7)))
        await peer.send(*told(Announcement(_PEER, number - 1, number, "", links)))
        if not number % 50:
            await pair.exchange()
    await peer.send(*told(Announcement(_PEER, 0, SEQ_LIMIT, "peer", ((hub.server.id, 1),), ("/last",))))
    await peer.send(*told(Announcement(_PEER, 0, 2_000, "peer", ((hub.server.id, 1),), ("/later",))))
    await peer.ping()
    assert list(hub.server.core.mesh.records[_PEER].wants) == ["/last"]
    await eventually(lambda: pair.far.server.core.mesh.records[_PEER].seq == SEQ_LIMIT)


async def test_numbers_that_cannot_be(pair: QuietPair) -> None:
    hub = pair.near
    peer = await linked(hub)
    mesh = hub.server.core.mesh
    frames = told(Announcement(_PEER, 1, 9, "", None, ("/at/9",)))
    async with pair.busy():
        backward = AnnouncementPart(_PEER, 12, 10, 0, True, "", None, ("/backward",), ())
        onward = AnnouncementPart(_PEER, 9, 10, 3, True, "", None, ("/part/3",), ())
        for part in (backward, onward):
            frames.append(encode_frame(Kind.ROUTING, msgspec.msgpack.encode(part)))
        frames += told(Announcement(_PEER, 1, 8, "", None, ("/old",)), Announcement(_PEER, 0, 9, "", ()))
        frames += told(Announcement(_PEER, 50, 60, "", None, ("/far/ahead",)))
        await peer.send(*frames)
        answers = await peer.ping()
        while not any(isinstance(one, Wanted) for one in routing(answers)):
            answers += await peer.ping()
    notices = [decode_notice(frame.body).text for frame in answers if frame.kind == Kind.NOTICE]
    assert notices == [
        "ROUTING: an announcement that leads from 12 to 10",
        f"ROUTING: announcement 10 of hub {_PEER.hex()}: part 3 does not continue what came before",
    ]
    assert [one for one in routing(answers) if isinstance(one, Wanted)] == [Wanted(_PEER)]
    assert (mesh.records[_PEER].seq, list(mesh.records[_PEER].wants)) == (9, ["/at/9"])


async def test_who_speaks_in_the_name_of_others(pair: QuietPair) -> None:
    hub, far = pair.near, pair.far
    peer = await linked(hub)
    seq = hub.server.core.mesh.records[far.server.id].seq
    with capture_logs() as logs:
        for lie in range(1, 4):
            await peer.send(*told(Announcement(far.server.id, 0, seq + 10 * lie, "liar", ())))
            await peer.ping()
            await eventually(
                lambda: hub.wanted_by(far) == {"/quiet"} and far.server.id in hub.server.core.mesh.graph.reached
            )
            await pair.exchange()
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert (line["event"][:35], line["hub"]) == ("another hub has the id of this one,", far.server.id.hex())
    assert far.server.core.mesh.clashes == 3
    await peer.send(*told(Announcement(hub.server.id, 0, 1_000, "liar", (), ("/everything",))))
    await eventually(lambda: hub.server.core.mesh.records[hub.server.id].seq > 1_000)
    assert not far.wanted_by(hub)


async def test_the_highest_epoch_in_the_name_of_a_hub_that_is_linked(pair: QuietPair) -> None:
    hub, far = pair.near, pair.far
    reader, writer = await hub.client("/a"), await far.client()
    await eventually(lambda: far.wanted_by(hub) == {"/a"})
    await writer.publish("/a", 1)
    assert await reader.values(1) == [("/a", 1)]
    peer = await linked(hub)
    await peer.send(encode_origin(Origin(far.server.id, EPOCH_LIMIT)), publication("/a", "a lie"))
    await peer.send(*told(Announcement(far.server.id, 0, SEQ_LIMIT, "liar", ())))
    await peer.ping()
    await writer.publish("/a", 2)
    assert await reader.values(1) == [("/a", 2)]
    assert hub.server.core.mesh.repeated_messages == 1
    await pair.exchange()


async def test_a_newer_epoch_in_the_name_of_a_hub_that_is_linked(pair: QuietPair) -> None:
    hub, far = pair.near, pair.far
    reader, writer = await hub.client("/a"), await far.client()
    await hub.client("/b")
    await eventually(lambda: far.wanted_by(hub) == {"/a", "/b"})
    peer = await linked(hub)
    with capture_logs() as logs:
        for lie in (far.server.core.mesh.origin.epoch + 1_000, FAR_EPOCH):
            await peer.send(encode_origin(Origin(far.server.id, lie)), publication("/a", "a lie"))
            assert await reader.values(1) == [("/a", "a lie")]
            await writer.publish("/b", "unheard")
            await eventually(lambda lie=lie: far.server.core.mesh.origin.epoch > lie)  # type: ignore[misc]
            await writer.publish("/a", lie)
            assert await reader.values(1) == [("/a", lie)]
            await pair.exchange()
    assert far.server.core.mesh.clashes == 2
    assert [line["hub"] for line in logs if "id of this one" in line["event"]] == [far.server.id.hex()]


# Real hubs.

_DAY_S = 86_400.0
_FLAPS = 20
_BURST = 8  # So many changes of links a hub announces at once, and then one a second (docs/mesh.md)


def warnings(logs: Iterable[MutableMapping[str, Any]]) -> list[str]:
    return [line["event"] for line in logs if line["log_level"] not in {"debug", "info"}]


async def test_two_hubs_with_one_id(pair: QuietPair, start_hub: StartHub) -> None:
    twins = [await start_hub(name=name, hub_id=b"twin" * 4) for name in ("one", "other")]
    with capture_logs() as logs:
        async with pair.busy():
            for twin, hub in zip(twins, (pair.near, pair.far), strict=True):
                twin.dial(hub)
            await eventually(lambda: all(twin.server.core.mesh.clashes >= 3 for twin in twins))
    assert [line["hub"] for line in logs if line["log_level"] == "warning"] == [(b"twin" * 4).hex()] * 2
    assert {text[:35] for text in warnings(logs)} == {"another hub has the id of this one,"}


async def test_a_hub_that_dials_itself(pair: QuietPair) -> None:
    with capture_logs() as logs:
        async with pair.busy():
            dialler = pair.near.dial(pair.near)
            await eventually(lambda: sum(line["event"] == "connection closed" for line in logs) == 2)
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert (line["event"], line["reason"], dialler.attempts) == ("no link to peer", dialler.last_reason, 1)
    assert dialler.last_reason == "that is yourself: a hub does not peer with itself (4010)"


async def test_a_link_that_flaps(pair: QuietPair, start_hub: StartHub) -> None:
    flapping = await start_hub(name="flapping")
    mesh, clock = pair.far.server.core.mesh, pair.far.clock
    before, since_s = mesh.statistics().announcements_total, clock.time()
    async with pair.busy():
        flapping.dial(pair.near)
        for _ in range(_FLAPS):
            await eventually(lambda: len(flapping.server.links) == 1)
            await flapping.crash()
    told = mesh.statistics().announcements_total - before
    assert 0 < told <= 2 * (_BURST + 1 + clock.time() - since_s)


@pytest.mark.parametrize("jump_s", [-9_000 * _DAY_S, 9_000 * _DAY_S])
async def test_clocks_that_are_set(pair: QuietPair, monkeypatch: pytest.MonkeyPatch, jump_s: float) -> None:
    hubs = (pair.near, pair.far)
    await eventually(lambda: all(hub.server.core.mesh.is_settled for hub in hubs))
    epochs = [hub.server.core.mesh.origin.epoch for hub in hubs]
    links = [list(hub.server.core.mesh.links) for hub in hubs]
    with capture_logs() as logs:
        async with pair.busy():
            wall_us = pair.near.server.wall_us() + round(jump_s * 1e6)
            monkeypatch.setattr(pair.near.server, "wall_us", lambda: wall_us)
            for hub in hubs:
                hub.later(1.5)
            reader = await pair.near.client("/late")
            await eventually(lambda: "/late" in pair.far.wanted_by(pair.near))
            await (await pair.far.client()).publish("/late", 1)
            assert await reader.values(1) == [("/late", 1)]
    assert [hub.server.core.mesh.origin.epoch for hub in hubs] == epochs
    assert [list(hub.server.core.mesh.links) for hub in hubs] == links
    assert warnings(logs) == []
