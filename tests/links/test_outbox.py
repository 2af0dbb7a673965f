"""What is due is written once a turn, in order, in portions, and only while the peer reads."""

from __future__ import annotations

from collections.abc import Callable

from peers.links.outbox import PORTIONS_PER_TURN, Outbox
from tests.hub.fakes import handler_of


class FakePart:
    """So many portions of a name."""

    def __init__(self, name: str, portions: int, due: Callable[[FakePart], None]) -> None:
        self.name = name
        self.portions = portions
        self._due = due
        due(self)

    def take(self) -> bytes:
        """Take the next one, and say whether there are more."""
        if not self.portions:
            return b""
        self.portions -= 1
        if self.portions:
            self._due(self)
        return self.name.encode()


class Scene:
    """An outbox, and what it has written."""

    def __init__(self) -> None:
        self.handler = handler_of()
        self.due: list[Callable[[], object]] = []
        self.written: list[bytes] = []
        self.outbox = Outbox(self.handler, self.due.append, self.written.extend)

    def end_turn(self) -> None:
        """Do what was put off till now."""
        due, self.due[:] = list(self.due), []
        for act in due:
            act()


def test_all_parts_in_one_turn() -> None:
    """Asked for several times, it is done once, for all that are due."""
    scene = Scene()
    first, _ = FakePart("a", 2, scene.outbox.due), FakePart("b", 2, scene.outbox.due)
    scene.outbox.due(first)
    assert len(scene.due) == 1
    scene.end_turn()
    assert scene.written == [b"a", b"b", b"a", b"b"]
    assert not scene.due


def test_portions() -> None:
    """What is more than a turn's portions follows in the next turns."""
    scene = Scene()
    FakePart("a", PORTIONS_PER_TURN + 1, scene.outbox.due)
    scene.end_turn()
    assert len(scene.written) == PORTIONS_PER_TURN
    scene.end_turn()
    assert len(scene.written) == PORTIONS_PER_TURN + 1
    assert not scene.due


def test_nothing_to_tell_any_more() -> None:
    """A part whose changes have cancelled each other out is not written."""
    scene = Scene()
    FakePart("a", 0, scene.outbox.due)
    scene.end_turn()
    assert not scene.written


def test_what_becomes_due_later() -> None:
    """Each turn in which something becomes due ends with a write."""
    scene = Scene()
    for name in "ab":
        FakePart(name, 1, scene.outbox.due)
        scene.end_turn()
    assert scene.written == [b"a", b"b"]


def test_a_peer_that_does_not_read() -> None:
    """Nothing is written and nothing is asked for again, until it reads on."""
    scene = Scene()
    scene.handler.pause()
    FakePart("a", 1, scene.outbox.due)
    scene.end_turn()
    assert not scene.written
    assert not scene.due
    scene.handler.resume()
    scene.outbox.write_more()
    assert scene.written == [b"a"]
