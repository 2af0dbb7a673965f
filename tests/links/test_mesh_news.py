"""What is written on a link: news once a turn, while the peer reads; ORIGIN where it must stand; and how much it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from hub.batch import Batch
from hub.frame import iterate_frames
from hub.handler import Handler
from hub.mesh.announcement import Told, Wanted
from hub.mesh.mesh import Mesh
from hub.origin import Origin
from hub.request_frame import Item, Reply, Request, Status
from peers.connections.tcp import render_items
from peers.links.mesh_news import PORTIONS_PER_TURN, MeshNews
from peers.wire.control import decode_origin
from peers.wire.kinds import Kind
from tests.hub.fakes import handler_of

NEAR, FAR = Origin(b"n" * 16, 1), Origin(b"f" * 16, 1)
WANTED = Wanted(b"w" * 16)
PORTION = 8
"""So many frames are written at once."""


class Scene:
    """A link, and what was written on it; the mesh is a list of what it has to tell."""

    def __init__(self, fit: Callable[[list[Batch]], list[bytes]] | None = None) -> None:
        self.link = handler_of()
        self.due: list[Callable[[], object]] = []
        self.written: list[bytes] = []
        self.told: list[Told] = []
        self.news = MeshNews(cast("Mesh[Handler]", self), self.link, 1 << 16, self.due.append, self.written.extend, fit)

    def take(self, _: Handler) -> list[Told]:
        told, self.told = self.told, []
        return told

    def tell(self, count: int) -> None:
        self.told += [WANTED] * count
        self.news.tell()

    def end_turn(self) -> int:
        due, self.due[:] = list(self.due), []
        for act in due:
            act()
        frames = len(kinds(self.written))
        self.written.clear()
        return frames


def batch(origin: Origin, *values: object) -> Batch:
    made = Batch.of("/a", values)
    made.origin = origin
    return made


def only_small(batches: list[Batch]) -> list[bytes]:
    return [one.frames if one.frames_bytes < 100 else b"lost" for one in batches]


def kinds(frames: list[bytes]) -> list[int]:
    return [frame.kind for frame in iterate_frames(b"".join(frames))]


def test_news_are_written_once_a_turn_in_portions() -> None:
    scene = Scene()
    scene.tell(1)
    scene.tell(1)
    assert len(scene.due) == 1
    assert scene.end_turn() == 2
    most = PORTIONS_PER_TURN * PORTION
    scene.tell(most + 3)
    assert [scene.end_turn() for _ in range(3)] == [most, 3, 0]
    assert not scene.due
    scene.news.tell()  # they have cancelled each other out
    assert scene.end_turn() == 0


def test_news_that_come_while_others_are_written() -> None:
    scene = Scene()
    most = PORTIONS_PER_TURN * PORTION
    scene.tell(most + 1)
    scene.end_turn()
    scene.tell(1)
    assert scene.end_turn() == 2
    assert not scene.news.is_due


def test_a_peer_that_does_not_read() -> None:
    scene = Scene()
    scene.link.pause()
    scene.tell(1)
    assert scene.end_turn() == 0
    assert not scene.due
    scene.link.resume()
    scene.news.write_more()
    assert scene.end_turn() == 1


@pytest.mark.parametrize("fit", [None, only_small])
def test_origin_stands_where_it_changes(fit: Callable[[list[Batch]], list[bytes]] | None) -> None:
    news = Scene(fit).news
    messages, origin = Kind.MESSAGES, Kind.ORIGIN
    assert kinds(news.render([batch(NEAR, 1)])) == [origin, messages]
    assert kinds(news.render([batch(NEAR, 2)])) == [messages]
    assert kinds(news.render([batch(NEAR, 3), batch(FAR, 4), batch(FAR, 5)])) == [messages, origin, messages, messages]
    assert kinds(news.render([batch(FAR._replace(epoch=2), 6)])) == [origin, messages]


def test_news_stand_before_the_messages_that_they_route() -> None:
    scene = Scene()
    scene.news.render([batch(NEAR, 1)])
    scene.tell(1)
    scene.told.append(FAR)
    messages, origin, routing = Kind.MESSAGES, Kind.ORIGIN, Kind.ROUTING
    assert kinds(scene.news.render([batch(NEAR, 2)])) == [routing, origin, origin, messages]
    assert kinds(scene.news.render([batch(NEAR, 3)])) == [messages]


@pytest.mark.parametrize("fit", [None, only_small])
def test_what_was_written_is_what_the_handler_counts_and_what_stands_beside_it(
    fit: Callable[[list[Batch]], list[bytes]] | None,
) -> None:
    scene = Scene(fit)
    counted = written = 0
    rounds = (
        [batch(NEAR, 1)],
        [batch(NEAR, 2)],
        [batch(FAR, "x" * 1000)],
        [batch(FAR, 3), batch(NEAR, 4), batch(NEAR, 5)],
    )
    for number, batches in enumerate(rounds):
        if number == 1:
            scene.tell(1)
        counted += sum(one.frames_bytes for one in batches)
        written += sum(map(len, scene.news.render(batches)))
    items: list[Item] = [Request(b"/a", 1, 100, b"\x01"), Reply(1, Status.OK, b"\x02" * 20_000)]
    counted += sum(item.size_bytes for item in items)
    written += sum(map(len, scene.news.post(items, render_items(items))))
    assert written == counted + scene.news.beside_bytes


def test_a_mark() -> None:
    written = b"".join(Scene().news.render([batch(NEAR, 1), batch(NEAR._replace(mark=7), 2), batch(NEAR, 3)]))
    told = [decode_origin(frame.body) for frame in iterate_frames(written) if frame.kind == Kind.ORIGIN]
    assert told == [NEAR, NEAR._replace(mark=7), NEAR]
