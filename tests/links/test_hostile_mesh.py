"""Hubs in odd situations, and peers that send any news of the mesh, are bounded; a quiet pair gets every message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, MutableMapping
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from hub.mesh.announcement import SEQ_LIMIT, Announcement, Digest, Wanted
from hub.mesh.upstream import FAR_EPOCH
from hub.messages.frame import Frame, Origin, encode_frame
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
    assert line["event"].startswith("another hub has more prefixes than are kept here")
    assert (line["hub"], line["name"], line["left_out"]) == (_PEER.hex(), "peer", 100_000)
    assert hub.server.core.mesh.left_out == 100_000 + 2
    assert hub.server.core.mesh.records[_PEER].believed == ("",)
    await eventually(lambda: pair.far.server.core.mesh.records[_PEER].believed == ("",))
    await peer.send(*told(Announcement(_PEER, 0, 4, "peer", ((hub.server.id, 1),), wanted[:_PREFIXES_LIMIT])))
    await peer.ping()
    await eventually(lambda: len(pair.far.server.core.mesh.records[_PEER].wants) == _PREFIXES_LIMIT)
    await eventually(lambda: not hub.server.core.scheduler.is_busy)


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
        f"ROUTING: announcement 10 of hub {_PEER.hex()}: part 3 does not continue the part before",
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


# Real hubs.

_DAY_US = 86_400_000_000


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


def warnings(logs: Iterable[MutableMapping[str, Any]]) -> list[str]:
    return [line["event"] for line in logs if line["log_level"] not in {"debug", "info"}]


async def test_a_hub_that_dials_itself(pair: QuietPair) -> None:
    with capture_logs() as logs:
        async with pair.busy():
            dialler = pair.near.dial(pair.near)
            await eventually(lambda: sum(line["event"] == "connection closed" for line in logs) == 2)
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert (line["event"], line["reason"], dialler.attempts) == ("no link to peer", dialler.last_reason, 1)
    assert dialler.last_reason == "a hub does not peer with itself (4010)"


async def test_a_clock_that_is_set_back(pair: QuietPair, monkeypatch: pytest.MonkeyPatch) -> None:
    hubs = (pair.near, pair.far)
    await eventually(lambda: all(hub.server.core.mesh.is_settled for hub in hubs))
    epochs = [hub.server.core.mesh.origin.epoch for hub in hubs]
    links = [list(hub.server.core.mesh.links) for hub in hubs]
    with capture_logs() as logs:
        async with pair.busy():
            wall_us = pair.near.server.wall_us() - 9_000 * _DAY_US
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
