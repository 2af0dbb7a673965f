"""What is due is written once a turn, in order, in portions, and only while the peer reads."""

from __future__ import annotations

from collections.abc import Callable

from peers.links.outbox import PORTIONS_PER_TURN, Outbox
from tests.hub.fakes import handler_of


class FakePart:
    """So many portions of a name."""

    def __init__(self, name: str, portions: int) -> None:
        self.name = name
        self.portions = portions

    def __bool__(self) -> bool:
        """Whether some are left."""
        return self.portions > 0

    def take(self) -> bytes:
        """Take the next one."""
        self.portions -= 1
        return self.name.encode()


class Scene:
    """An outbox, and what it has written."""

    def __init__(self) -> None:
        self.handler = handler_of()
        self.due: list[Callable[[], object]] = []
        self.written: list[bytes] = []
        self.outbox = Outbox(self.handler, self.due.append, self.written.append)

    def end_turn(self) -> None:
        """Do what was put off till now."""
        due, self.due[:] = list(self.due), []
        for act in due:
            act()


def test_all_parts_in_one_turn() -> None:
    """Asked for several times, it is done once, in the order of the parts."""
    scene = Scene()
    for name in "ab":
        scene.outbox.add(FakePart(name, 2))
    scene.outbox.due()
    scene.outbox.due()
    assert len(scene.due) == 1
    scene.end_turn()
    assert scene.written == [b"a", b"a", b"b", b"b"]
    assert not scene.due


def test_portions() -> None:
    """What is more than a turn's portions follows in the next turns."""
    scene = Scene()
    scene.outbox.add(FakePart("a", PORTIONS_PER_TURN + 1))
    scene.outbox.due()
    scene.end_turn()
    assert len(scene.written) == PORTIONS_PER_TURN
    scene.end_turn()
    assert len(scene.written) == PORTIONS_PER_TURN + 1
    assert not scene.due


def test_a_peer_that_does_not_read() -> None:
    """Nothing is written and nothing is asked for again, until it reads on."""
    scene = Scene()
    scene.outbox.add(FakePart("a", 1))
    scene.handler.pause()
    scene.outbox.due()
    scene.end_turn()
    assert not scene.written
    assert not scene.due
    scene.handler.resume()
    scene.outbox.write_more()
    assert scene.written == [b"a"]
