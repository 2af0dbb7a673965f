"""Changes of a filter on their way to a peer: replaying what was told gives the filter, in few frames."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.filter import Change, Filter
from hub.frame import iterate_frames
from peers.links.announcement import Announcement
from peers.wire.control import PREFIXES_LIMIT, decode_subscription
from peers.wire.hello import FRAME_LIMIT_BYTES
from peers.wire.kinds import Kind
from tests.hub.fakes import nasty_texts


class Far:
    """A peer that does as it is told, and counts what does not add up."""

    def __init__(self) -> None:
        self.prefixes: set[str] = set()

    def hear(self, frames: bytes) -> None:
        """Subscribe and unsubscribe; twice the same would be an error, since a hub counts subscriptions."""
        for frame in iterate_frames(frames):
            request, prefixes = decode_subscription(frame.kind, frame.body)
            assert bool(request) == (frame.kind == Kind.SUBSCRIBE and bool(prefixes))
            for prefix in prefixes:
                if frame.kind == Kind.SUBSCRIBE:
                    assert prefix not in self.prefixes
                    self.prefixes.add(prefix)
                else:
                    self.prefixes.remove(prefix)


def announcement(limit_bytes: int = FRAME_LIMIT_BYTES) -> Announcement:
    """One that schedules nothing."""
    return Announcement(lambda _: None, limit_bytes, count(1))


@given(
    steps=st.lists(
        st.one_of(nasty_texts.map(lambda text: ("add", text)), st.sampled_from([("drop", ""), ("tell", "")]))
    )
)
def test_replaying_gives_the_filter(steps: list[tuple[str, str]]) -> None:
    """Whatever is subscribed, taken back and told in between: in the end the peer knows the minimal filter."""
    wanted, held = Filter(), list[str]()
    far, changes = Far(), announcement()
    changes.change(Change())
    for step, prefix in steps:
        if step == "add":
            held.append(prefix)
            changes.change(wanted.add(prefix))
        elif step == "drop" and held:
            changes.change(wanted.discard(held.pop(len(held) // 2)))
        elif step == "tell":
            far.hear(changes.take())
            assert far.prefixes == set(wanted.minimal)
    far.hear(changes.take())
    assert far.prefixes == set(wanted.minimal)
    assert changes.take() == b""


def test_what_is_taken_back_is_not_told() -> None:
    """Subscribing and unsubscribing within a turn is nothing to speak of."""
    changes = announcement()
    changes.change(Change(("/a", "/b"), ()))
    changes.change(Change((), ("/a",)))
    (frame,) = iterate_frames(changes.take())
    assert (frame.kind, decode_subscription(frame.kind, frame.body)[1]) == (Kind.SUBSCRIBE, ["/b"])


def test_additions_come_first() -> None:
    """So that no message falls between a wide prefix that goes and the narrow ones that replace it."""
    changes = announcement()
    changes.change(Change(("/a/x", "/a/y"), ("/a/",)))
    frames = list(iterate_frames(changes.take()))
    assert [frame.kind for frame in frames] == [Kind.SUBSCRIBE, Kind.UNSUBSCRIBE]


def test_nothing_is_a_frame_too() -> None:
    """The first announcement tells the peer that its HELLO was read, also where nothing is wanted yet; no later one."""
    due: list[Announcement] = []
    changes = Announcement(due.append, FRAME_LIMIT_BYTES, count(1), tells_of_itself=True)
    changes.change(Change())
    assert due == [changes]
    (frame,) = iterate_frames(changes.take())
    assert decode_subscription(frame.kind, frame.body) == (0, [])
    assert changes.take() == b""


@pytest.mark.parametrize("limit_bytes", [4096, 100_000, FRAME_LIMIT_BYTES])
def test_frames_are_within_what_the_peer_takes(limit_bytes: int) -> None:
    """A filter of many long prefixes is told in several frames, each within the limits of size and number."""
    changes = announcement(limit_bytes)
    prefixes = [f"/{number:05}/" + "x" * (1017 if number % 2 else 3) for number in range(2500)]
    changes.change(Change(tuple(prefixes), ()))
    frames = list(iterate_frames(changes.take()))
    assert all(len(frame.body) <= limit_bytes for frame in frames)
    told = [decode_subscription(Kind.SUBSCRIBE, frame.body)[1] for frame in frames]
    assert all(len(some) <= PREFIXES_LIMIT for some in told)
    assert [prefix for some in told for prefix in some] == prefixes
    assert len(frames) < 2500
