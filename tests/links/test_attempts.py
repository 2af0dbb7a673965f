"""What a peer refuses for now is told again, merged with what changes meanwhile, in the end all of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog import get_logger

from hub.filter import Change
from hub.frame import Frame, iterate_frames
from hub.names.claim import Announced
from hub.tags.rules import Rule
from peers.links.announcement import Announcement
from peers.links.attempts import Attempts
from peers.links.names import LinkNames
from peers.links.outbox import Outbox, Part
from peers.links.rules import LinkRules
from peers.wire.control import decode_subscription
from peers.wire.hello import FRAME_LIMIT_BYTES
from peers.wire.kinds import Kind
from peers.wire.names import decode_names
from peers.wire.rules import decode_rules
from tests.hub.fakes import handler_of

Held = dict[str, int]
"""What the peer holds, and how often."""


class Way:
    """This hub's outbox with one part, a wire, and a peer that has room for so much."""

    def __init__(self, kind: str) -> None:
        self.room = 3
        self.held: Held = {}
        self.frames = 0
        """How many were written."""
        self._now_s = 0.0
        self._wire: deque[Frame] = deque()
        self._turn: list[Callable[[], object]] = []
        outbox = self._outbox = Outbox(handler_of(), self._turn.append, self._write)
        self.part, self.want, self._read = _KINDS[kind](outbox)
        outbox.add(self.part)

    def _write(self, pieces: list[bytes]) -> None:
        frames = list(iterate_frames(b"".join(pieces)))
        self.frames += len(frames)
        self._wire.extend(frames)

    def tell(self) -> None:
        """End the turn: what is due is written."""
        turn, self._turn[:] = list(self._turn), []
        for act in turn:
            act()

    def answer(self) -> None:
        """Let the peer read one frame and answer it."""
        if not self._wire:
            return
        number, has_room = self._read(self, self._wire.popleft())
        if number and has_room:
            self._outbox.confirm(number)
        elif number:
            assert self._outbox.refuse(number, self._now_s, for_now=True) or not has_room

    def later(self) -> None:
        """Let so much time pass that whatever was refused is told again."""
        self._now_s += 61.0
        self._outbox.check(self._now_s)

    def settle(self) -> None:
        """Tell and answer until nothing is left."""
        while self._wire or self._turn:
            self.tell()
            self.answer()

    def take(self, item: str) -> bool:
        """The peer takes an item if it has room."""
        if item not in self.held and len(self.held) >= self.room:
            return False
        self.held[item] = self.held.get(item, 0) + 1
        return True

    def lose(self, item: str) -> None:
        """The peer takes one back; it passes over what it does not hold."""
        if item in self.held:
            self.held[item] -= 1
            if not self.held[item]:
                del self.held[item]


Read = Callable[[Way, Frame], tuple[int, bool]]
Kit = tuple[Part, Callable[[str, bool], None], Read]


def _prefixes(outbox: Outbox) -> Kit:
    part = Announcement(outbox.due, FRAME_LIMIT_BYTES, outbox.numbers)

    def want(item: str, wanted: bool) -> None:  # noqa: FBT001 -- as the core
        part.change(Change((item,), ()) if wanted else Change((), (item,)))

    def read(way: Way, frame: Frame) -> tuple[int, bool]:
        number, items = decode_subscription(frame.kind, frame.body)
        if frame.kind == Kind.UNSUBSCRIBE:
            for item in items:
                way.lose(item)
            return number, True
        has_room = len(way.held.keys() | set(items)) <= way.room
        return number, has_room and all(way.take(item) for item in items)

    return part, want, read


def _rules(outbox: Outbox) -> Kit:
    part = LinkRules(outbox.due, FRAME_LIMIT_BYTES, outbox.numbers)

    def want(item: str, wanted: bool) -> None:  # noqa: FBT001 -- as the core
        part.change(Rule(("x",), item, ""), wanted)

    def read(way: Way, frame: Frame) -> tuple[int, bool]:
        change = decode_rules(frame.kind, frame.body)
        for _, prefix, _ in change.rules:
            if not change.subscribe:
                way.lose(prefix)
            elif not way.take(prefix):  # those before it stay
                return change.request, False
        return change.request, True

    return part, want, read


def _names(outbox: Outbox) -> Kit:
    part = LinkNames(outbox.due, FRAME_LIMIT_BYTES, outbox.numbers, get_logger())

    def want(item: str, wanted: bool) -> None:  # noqa: FBT001 -- as the core
        part.change(item, Announced(item, (), 1, 1) if wanted else None)

    def read(way: Way, frame: Frame) -> tuple[int, bool]:
        heard = decode_names(frame.body)
        taken = [way.held.get(each.name) == 1 or way.take(each.name) for each in heard.held]
        for name in heard.released:
            way.lose(name)
        return heard.request, all(taken)

    return part, want, read


_KINDS = {"prefixes": _prefixes, "rules": _rules, "names": _names}

ITEMS = [f"n.{letter}" for letter in "abcdefgh"]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.sampled_from(ITEMS)),
        st.tuples(st.just("room"), st.integers(0, len(ITEMS))),
        st.tuples(st.sampled_from(["tell", "answer", "later"]), st.none()),
    ),
    max_size=60,
)


@pytest.mark.parametrize("kind", _KINDS)
@given(steps=STEPS)
def test_in_the_end_the_peer_has_what_is_wanted(kind: str, steps: list[tuple[str, str | int | None]]) -> None:
    """Whatever is wanted, taken back, told, refused and answered in between: each once, as soon as there is room."""
    way, wanted = Way(kind), set[str]()
    for step, value in steps:
        match step, value:
            case "want", str(item):
                wanted ^= {item}
                way.want(item, item in wanted)
            case "room", int(room):
                way.room = room
            case _:
                getattr(way, step)()
    way.room = len(ITEMS)
    way.settle()
    way.later()
    way.settle()
    assert way.held == dict.fromkeys(wanted, 1)
    assert not way.part.attempts.refused
    assert not way.part.attempts._number_of
    assert not way.part.attempts._frames


@pytest.mark.parametrize("kind", _KINDS)
def test_as_much_as_there_is_room_for(kind: str) -> None:
    """Of many that are refused together, in the end the peer has as many as it takes."""
    way = Way(kind)
    for item in ITEMS:
        way.want(item, True)
    for _ in range(8):
        way.settle()
        way.later()
    assert len(way.held) == way.room == 3


@pytest.mark.parametrize("kind", _KINDS)
def test_a_peer_that_stays_full(kind: str) -> None:
    """It is asked for one item each time, however many wait, and not more often than the pauses say."""
    way = Way(kind)
    way.room = 0
    for number in range(400):
        way.want(f"n.{number}", True)
    for _ in range(12):
        way.settle()
        way.later()
    way.settle()
    before = way.frames
    for _ in range(10):
        way.later()
        way.settle()
        way._outbox.check(way._now_s)  # no time has passed
        way.settle()
    assert way.frames - before <= 10 * (2 if kind == "rules" else 1)
    assert way.held == {}


def test_another_error_is_no_reason_to_tell_again() -> None:
    """What is not allowed would be refused again."""
    attempts: Attempts[str, None] = Attempts(count(1), 10)
    number = attempts.ask({"/a": None})
    assert attempts.refuse(number, for_now=False) == ["/a"]
    assert not attempts.refused
    assert attempts.refuse(number, for_now=True) is None
    assert not attempts.confirm(number)
