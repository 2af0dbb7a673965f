"""What is written to a hub of the mesh: ORIGIN where it must stand, and how much that is altogether."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from hub.batch import Batch
from hub.errors import CloseCode
from hub.frame import iterate_frames
from hub.origin import Origin
from hub.request_frame import Item, Reply, Request, Status
from peers.connections.tcp import render_items
from peers.links.mesh_news import MeshNews
from peers.links.onward import Onward
from peers.wire.control import encode_close
from peers.wire.kinds import Kind
from peers.wire.origin import decode_origin

NEAR, FAR = Origin(b"n" * 16, 1), Origin(b"f" * 16, 1)
NEWS = encode_close(CloseCode.GOING_AWAY, "any frame")


class News:
    """News of the mesh: none, or one frame."""

    is_due = False
    said: Origin | None = None

    def take_turn(self) -> bytes:
        """Return the frame."""
        self.is_due = False
        return NEWS


@pytest.fixture
def news() -> News:
    """News that nothing is to be told of."""
    return News()


def batch(origin: Origin, *values: object) -> Batch:
    """Some messages that have entered the mesh somewhere."""
    made = Batch.of("/a", values)
    made.origin = origin
    return made


def only_small(batches: list[Batch]) -> list[bytes]:
    """Leave out what is too large for the far side."""
    return [one.frames if one.frames_bytes < 100 else b"lost" for one in batches]


def kinds(frames: list[bytes]) -> list[int]:
    """Of which kind each frame is."""
    return [frame.kind for frame in iterate_frames(b"".join(frames))]


@pytest.mark.parametrize("fit", [None, only_small])
def test_origin_stands_where_it_changes(news: News, fit: Callable[[list[Batch]], list[bytes]] | None) -> None:
    """In front of the first message, of those of another hub or epoch, and of no others."""
    onward = Onward(fit, cast("MeshNews", news))
    messages, origin = Kind.MESSAGES, Kind.ORIGIN
    assert kinds(onward.render([batch(NEAR, 1)])) == [origin, messages]
    assert kinds(onward.render([batch(NEAR, 2)])) == [messages]
    assert kinds(onward.render([batch(NEAR, 3), batch(FAR, 4), batch(FAR, 5)])) == [
        messages,
        origin,
        messages,
        messages,
    ]
    assert kinds(onward.render([batch(FAR._replace(epoch=2), 6)])) == [origin, messages]


def test_news_stand_before_the_messages_that_they_route(news: News) -> None:
    """Once."""
    onward = Onward(None, cast("MeshNews", news))
    onward.render([batch(NEAR, 1)])
    news.is_due = True
    assert onward.render([batch(NEAR, 2)]) == [NEWS, batch(NEAR, 2).frames]
    assert onward.render([batch(NEAR, 3)]) == [batch(NEAR, 3).frames]


@pytest.mark.parametrize("fit", [None, only_small])
def test_what_was_written_is_what_the_handler_counts_and_what_stands_beside_it(
    news: News, fit: Callable[[list[Batch]], list[bytes]] | None
) -> None:
    """To the byte: with ORIGIN and news, heads of requests and replies, and without what is too large."""
    onward = Onward(fit, cast("MeshNews", news))
    counted = written = 0
    rounds = (
        [batch(NEAR, 1)],
        [batch(NEAR, 2)],
        [batch(FAR, "x" * 1000)],
        [batch(FAR, 3), batch(NEAR, 4), batch(NEAR, 5)],
    )
    for number, batches in enumerate(rounds):
        news.is_due = number == 1
        counted += sum(one.frames_bytes for one in batches)
        written += sum(map(len, onward.render(batches)))
    items: list[Item] = [Request(b"/a", 1, 100, b"\x01"), Reply(1, Status.OK, b"\x02" * 20_000)]
    counted += sum(item.size_bytes for item in items)
    written += sum(map(len, onward.post(items, render_items(items))))
    assert written == counted + onward.beside_bytes


def test_a_mark(news: News) -> None:
    """It goes with the origin of the batch that has it, and with that one alone."""
    onward = Onward(None, cast("MeshNews", news))
    written = b"".join(onward.render([batch(NEAR, 1), batch(NEAR._replace(mark=7), 2), batch(NEAR, 3)]))
    told = [decode_origin(frame.body) for frame in iterate_frames(written) if frame.kind == Kind.ORIGIN]
    assert told == [NEAR, NEAR._replace(mark=7), NEAR]
