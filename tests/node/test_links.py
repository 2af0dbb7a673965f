"""Which of two links to the same hub stays; the rules one by one. Crossed dialling is played through in tests/links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from hub.errors import CloseCode
from peers.node.keepalive import Keepalive
from peers.node.links import PROOF_S, Links

LOW, OWN, HIGH = b"\x01" * 16, b"\x02" * 16, b"\x03" * 16


@dataclass(eq=False)
class FakeLink:
    dialled: bool = False
    used: bool = False
    refused: list[int] = field(default_factory=list)
    asked: list[bytes] = field(default_factory=list)
    proceeded: int = 0

    def ask(self, token: bytes) -> None:
        self.asked.append(token)

    def proceed(self) -> None:
        self.proceeded += 1

    def refuse(self, code: int, text: str) -> None:
        assert text
        self.refused.append(code)


class Scene:
    def __init__(self, hub_id: bytes = HIGH, link: FakeLink | None = None) -> None:
        self.keepalive = Keepalive(0.0)
        self._due: list[Callable[[], object]] = []
        self.links = Links(OWN, self.keepalive, self._due.append)
        if link is not None:
            assert self.links.add(hub_id, link, 0.0)

    def end_turn(self) -> None:
        due, self._due[:] = list(self._due), []
        for act in due:
            act()

    def wait(self) -> None:
        self.keepalive.tick(PROOF_S + 1.0)
        self.end_turn()


@pytest.mark.parametrize("far", [LOW, HIGH])
@pytest.mark.parametrize("older_dialled", [False, True])
@pytest.mark.parametrize("newer_dialled", [False, True])
def test_a_link_that_answers_stays(far: bytes, *, older_dialled: bool, newer_dialled: bool) -> None:
    older, newer = FakeLink(dialled=older_dialled, used=True), FakeLink(dialled=newer_dialled)
    scene = Scene(far, older)
    assert not scene.links.add(far, newer, 0.0)
    (token,) = older.asked
    scene.links.answered(far, older, b"")
    scene.links.answered(far, newer, token)
    scene.links.answered(OWN, older, token)
    assert not newer.refused
    scene.links.answered(far, older, token)
    assert newer.refused == [CloseCode.ALREADY_CONNECTED]
    assert not scene.links.remove(far, newer)
    scene.wait()
    assert not newer.proceeded
    assert not older.refused
    assert far in scene.links


def test_a_link_that_does_not_answer_goes() -> None:
    older, newer = FakeLink(used=True), FakeLink()
    scene = Scene(HIGH, older)
    assert not scene.links.add(HIGH, newer, 0.0)
    scene.keepalive.tick(PROOF_S - 0.5)
    assert not older.refused
    scene.wait()
    assert older.refused == [CloseCode.ALREADY_CONNECTED]
    assert newer.proceeded == 1
    assert not scene.links.remove(HIGH, older)
    scene.links.answered(HIGH, older, older.asked[0])
    assert not newer.refused
    assert scene.links.remove(HIGH, newer)
    assert len(scene.links) == 0
    assert not len(scene.keepalive)


def test_a_link_that_ends_makes_room_at_once() -> None:
    older, newer = FakeLink(used=True), FakeLink()
    scene = Scene(HIGH, older)
    scene.links.add(HIGH, newer, 0.0)
    assert scene.links.remove(HIGH, older)
    assert not newer.proceeded, "not from within the end of the other"
    scene.end_turn()
    assert newer.proceeded == 1
    assert not older.refused
    assert HIGH in scene.links
    assert not len(scene.keepalive)


def test_of_several_that_wait_the_last_one_counts() -> None:
    older, first, second = FakeLink(used=True), FakeLink(), FakeLink()
    scene = Scene(HIGH, older)
    scene.links.add(HIGH, first, 0.0)
    scene.links.add(HIGH, second, 0.0)
    assert first.refused == [CloseCode.ALREADY_CONNECTED]
    assert len(set(older.asked)) == 2, "an answer to the first question proves nothing any more"
    scene.links.answered(HIGH, older, older.asked[0])
    assert not second.refused
    scene.wait()
    assert second.proceeded == 1


@pytest.mark.parametrize("far", [LOW, HIGH])
@pytest.mark.parametrize("dialled", [False, True])
def test_two_in_one_direction(far: bytes, *, dialled: bool) -> None:
    older, newer = FakeLink(dialled=dialled), FakeLink(dialled=dialled)
    scene = Scene(far, older)
    assert not scene.links.add(far, newer, 0.0)
    scene.links.answered(far, older, older.asked[0])
    assert newer.refused == [CloseCode.ALREADY_CONNECTED]
    assert not older.refused


@pytest.mark.parametrize("far", [LOW, HIGH])
@pytest.mark.parametrize("older_dialled", [False, True])
def test_of_crossed_links_the_one_that_the_lower_has_dialled_stays(far: bytes, *, older_dialled: bool) -> None:
    older, newer = FakeLink(dialled=older_dialled), FakeLink(dialled=not older_dialled)
    links = Scene(far, older).links
    lower_dialled = older if older.dialled == (far > OWN) else newer
    if lower_dialled is older:
        assert not links.add(far, newer, 0.0)
        links.answered(far, older, older.asked[0])
        assert newer.refused == [CloseCode.ALREADY_CONNECTED]
        assert not older.refused
    else:
        assert links.add(far, newer, 0.0)
        assert older.refused == [CloseCode.ALREADY_CONNECTED]
        assert not newer.refused
    assert len(links) == 1
    links.remove(far, older if lower_dialled is newer else newer)
    assert len(links) == 1, "the one that stays is not forgotten with the other"
    links.remove(far, lower_dialled)
    assert len(links) == 0


def test_a_sweep_is_over_once_all_have_answered() -> None:
    first, second, done = FakeLink(), FakeLink(), list[str]()
    scene = Scene(LOW, first)
    assert scene.links.add(HIGH, second, 0.0)
    scene.links.sweep([LOW, HIGH, OWN], lambda: done.append("all"))
    (token,) = first.asked
    assert second.asked == [token]
    scene.links.answered(LOW, first, b"another")
    scene.links.answered(LOW, first, token)
    scene.links.answered(LOW, first, token)
    assert not done
    scene.links.answered(HIGH, second, token)
    assert done == ["all"]


def test_a_sweep_does_not_wait_for_who_is_gone() -> None:
    first, done = FakeLink(), list[str]()
    scene = Scene(LOW, first)
    scene.links.sweep([LOW], lambda: done.append("one"))
    scene.links.remove(LOW, first)
    assert done == ["one"]
    scene.links.sweep([LOW], lambda: done.append("none"))
    assert done == ["one"]
    scene.end_turn()
    assert done == ["one", "none"]
