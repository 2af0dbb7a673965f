"""The work of a hub on each link: its lag, its token, news and messages; and how publishers are held back."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.handlers.handler import Handler
from hub.limits import Overflow, QueueLimits
from hub.mesh.announcement import Told, Wanted
from hub.mesh.mesh import Mesh
from hub.messages.batch import Batch
from hub.messages.frame import Origin, iterate_frames
from peers.server.link import PING_EVERY_S, Lag, LinkProof, MeshNews
from peers.server.traffic import LinkTraffic
from peers.wire.control import decode_origin
from peers.wire.kinds import Kind
from tests.connections.tcp.asking import asked, asking, serve
from tests.hub.fakes import handler_of
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of
from tests.links.way import Way

# How late a link is.


def test_an_answer_that_is_late_is_a_lag_already() -> None:
    lag = Lag(Overflow.DROP_OLDEST)
    assert lag.lag_s(0.0) is None
    token = lag.ask(0.0)
    assert token
    assert not lag.ask(PING_EVERY_S)
    for other in (b"", b"\0" * 4, b"\0" * 7 + b"\1"):
        lag.answer(other, 1.0)
    assert lag.round_trip_s is None
    assert lag.lag_s(3.0) == 3.0
    lag.answer(token, 4.0)
    assert lag.lag_s(100.0) == 4.0
    assert lag.round_trip_s == 4.0
    assert not lag.ask(PING_EVERY_S - 1.0)
    token = lag.ask(100.0)
    assert lag.lag_s(101.0) == 4.0
    assert lag.lag_s(107.0) == 7.0
    lag.answer(token, 108.0)
    lag.answer(token, 120.0)  # once more
    assert lag.lag_s(130.0) == 8.0


def test_a_queue_that_stands_still_grows_old() -> None:
    lag = Lag(Overflow.DROP_NEWEST)
    for now_s in range(200):
        lag.look(5, 0, 3, now_s)
    assert lag.waiting_s(5, 0, 3, 200.0) == 200.0
    for now_s in range(200, 400):
        lag.look(5, now_s, 3 + now_s, now_s)  # something comes all the time
    assert lag.waiting_s(5, 400, 403, 400.0) == 60.0
    assert lag.waiting_s(408, 400, 0, 400.0) == 0.0


@given(
    overflow=st.sampled_from([Overflow.DROP_OLDEST, Overflow.DROP_NEWEST]),
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=50),
)
def test_the_age_of_the_oldest(overflow: Overflow, steps: list[tuple[int, int]]) -> None:
    lag, room = Lag(overflow), 20
    queue: list[float] = []
    written = dropped = 0
    for second, (offered, read) in enumerate(steps):
        came_s = float(second)
        for _ in range(offered):
            if len(queue) == room:
                dropped += 1
                if overflow is Overflow.DROP_NEWEST:
                    continue
                del queue[0]
            queue.append(came_s)
        lag.look(written, dropped, len(queue), came_s)
        written += len(queue[:read])
        del queue[:read]
        age_s = came_s + 1.0 - queue[0] if queue else 0.0
        assert lag.waiting_s(written, dropped, len(queue), came_s + 1.0) == age_s


# When it shows its token afresh: `tests/connections/test_door.py` has one that has a token.


@pytest.mark.parametrize(("token", "shown_s"), [("first", [80.0, 90.0, 95.0, 98.0, 99.0]), ("", [])])
def test_when_a_link_shows_its_token_afresh(token: str, shown_s: list[float]) -> None:
    proof = LinkProof(lambda: token, list[str]().append)
    proof.hold(100.0, 0.0)
    assert [float(now_s) for now_s in range(100) if proof.next(float(now_s))] == shown_s


# What is written on it.

NEAR, FAR = Origin(b"n" * 16, 1), Origin(b"f" * 16, 1)
WANTED = Wanted(b"w" * 16)


class Scene:
    """News of a link; the mesh is a list of what it has to tell."""

    def __init__(self, fit: Callable[[list[Batch]], list[bytes]] | None = None) -> None:
        self.told: list[Told] = []
        self.news = MeshNews(cast("Mesh[Handler]", self), handler_of(), 1 << 16, lambda _: None, lambda _: None, fit)

    def take(self, _: Handler) -> list[Told]:
        told, self.told = self.told, []
        return told


def batch(origin: Origin, *values: object) -> Batch:
    made = Batch.of("/a", values)
    made.origin = origin
    return made


def only_small(batches: list[Batch]) -> list[bytes]:
    return [one.frames if one.frames_bytes < 100 else b"lost" for one in batches]


def kinds(frames: list[bytes]) -> list[int]:
    return [frame.kind for frame in iterate_frames(b"".join(frames))]


@pytest.mark.parametrize("fit", [None, only_small])
def test_origin_stands_where_it_changes(fit: Callable[[list[Batch]], list[bytes]] | None) -> None:
    news = Scene(fit).news
    messages, origin = Kind.MESSAGES, Kind.ORIGIN
    assert kinds(news.render([batch(NEAR, 1)])) == [origin, messages]
    assert kinds(news.render([batch(NEAR, 2)])) == [messages]
    assert kinds(news.render([batch(NEAR, 3), batch(FAR, 4), batch(FAR, 5)])) == [messages, origin, messages, messages]
    assert kinds(news.render([batch(FAR._replace(epoch=2), 6)])) == [origin, messages]
    written = b"".join(news.render([batch(NEAR, 1), batch(NEAR._replace(mark=7), 2), batch(NEAR, 3)]))
    origins = [decode_origin(frame.body) for frame in iterate_frames(written) if frame.kind == Kind.ORIGIN]
    assert origins == [NEAR, NEAR._replace(mark=7), NEAR]


def test_news_stand_before_the_messages_that_they_route() -> None:
    scene = Scene()
    scene.news.render([batch(NEAR, 1)])
    scene.told += [WANTED, FAR]
    scene.news.tell()
    messages, origin, routing = Kind.MESSAGES, Kind.ORIGIN, Kind.ROUTING
    assert kinds(scene.news.render([batch(NEAR, 2)])) == [routing, origin, origin, messages]
    assert kinds(scene.news.render([batch(NEAR, 3)])) == [messages]


# What is told of it.


def traffic(hub: Hub, other: str) -> LinkTraffic:
    (found,) = [one for one in hub.server.traffic.statistics(hub.clock.time()) if one.hub == other]
    return found


async def test_what_goes_one_way(start_hub: StartHub) -> None:
    near, far = [await start_hub(name=name) for name in ("near", "far")]
    near.dial(far)
    reader = await far.client("/a")
    await eventually(lambda: near.wanted_by(far) == {"/a"})
    writer = await near.client()
    for number in range(10):
        await writer.publish("/a", "x" * 1000, number)
    await reader.values(20)
    out, arrived = traffic(near, "far"), traffic(far, "near")
    assert (out.links, out.carried.sent_messages, out.carried.received_messages) == (1, 20, 0)
    assert (arrived.links, arrived.carried.received_messages, arrived.carried.sent_messages) == (1, 20, 0)
    assert 10_000 < out.carried.sent_bytes <= arrived.carried.received_bytes < 20_000
    assert not any(out.dropped.values())
    await serve(reader, "/a")
    await eventually(lambda: near.server.core.requests.statistics().services == 1)
    await writer.send(asking("/a", 1, "y" * 30_000))
    await asked(reader)
    grown = traffic(near, "far").carried.sent_bytes - out.carried.sent_bytes
    assert 30_000 < grown < 31_000
    assert traffic(far, "near").carried.received_bytes - arrived.carried.received_bytes >= grown
    await far.crash()
    await eventually(lambda: far.wanted_by(near) == set() and traffic(near, "far").links == 1)
    assert traffic(near, "far").carried.sent_messages == 20


async def measured(hub: Hub, other: str) -> None:
    while traffic(hub, other).lag_s is None:
        hub.later(1.0)
        await settle()


async def test_a_link_is_measured_though_it_is_busy(start_hub: StartHub) -> None:
    near, far = [await start_hub(name=name) for name in ("near", "far")]
    way = await Way(far.endpoint).start()
    near.dial(way)
    reader = await far.client("/busy")
    await eventually(lambda: near.wanted_by(far) == {"/busy"})
    writer = await near.client()
    for hub, other in ((near, "far"), (far, "near")):
        await writer.publish("/busy", 1)
        await measured(hub, other)
        assert await reader.values(1) == [("/busy", 1)]
    way.hold()
    near.later(PING_EVERY_S + 1.0)
    near.clock.ahead_s += 100.0
    assert (traffic(near, "far").lag_s or 0.0) >= 99.9  # a difference of times: as exact as the clock's own figures
    await near.stop_dialling()
    await way.stop()


async def test_what_waits_for_a_link(start_hub: StartHub) -> None:
    settings = settings_of(queue=QueueLimits(messages=50, overflow=Overflow.DROP_OLDEST))
    near, far = [await start_hub(name=name, settings=settings) for name in ("near", "far")]
    near.dial(far)
    await far.client("/a")
    await eventually(lambda: near.wanted_by(far) == {"/a"})
    writer = await near.client()
    near.handler("far").pause()
    await writer.publish("/a", *range(40))
    await writer.ping()
    while traffic(near, "far").waiting_s < 4.0:
        near.later(1.0)
    assert traffic(near, "far").queued_messages == 40
    await writer.publish("/a", *range(40))
    await writer.ping()
    now = traffic(near, "far")
    assert now.dropped["queue_full"] == 30
    assert now.queued_messages == 50
    near.handler("far").resume()
    assert traffic(near, "far").waiting_s == 0.0
