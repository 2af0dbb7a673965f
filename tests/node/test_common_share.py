"""`CommonShare`: who goes on when, and with how much."""

from __future__ import annotations

from collections.abc import Callable

from peers.node.common_share import CommonShare


class Stage:
    def __init__(self) -> None:
        self.turns: list[Callable[[], object]] = []
        self.share = CommonShare(100, self.turns.append)
        self.went_on: list[tuple[str, int]] = []

    def turn(self) -> list[tuple[str, int]]:
        (begin,) = self.turns
        self.turns.clear()
        self.went_on = []
        begin()
        return self.went_on

    def waiting(self, name: str, needs: int) -> Waiting:
        waiting = Waiting(self, name, needs)
        self.share.wait(waiting)
        return waiting


class Waiting:
    def __init__(self, stage: Stage, name: str, needs: int) -> None:
        self.stage, self.name, self.needs = stage, name, needs

    def take_turn(self, events: int) -> None:
        self.stage.went_on.append((self.name, events))
        self.stage.share.spend(min(self.needs, events))
        self.needs -= events
        if self.needs > 0:
            self.stage.share.wait(self)


def test_the_share_is_full_again_in_the_next_turn() -> None:
    stage = Stage()
    stage.share.spend(60)
    stage.share.spend(90)
    assert stage.share.left < 0
    assert stage.turn() == []
    assert stage.share.left == 100
    assert stage.turns == []


def test_who_waits_gets_as_much_as_the_others() -> None:
    stage = Stage()
    for name in "abcd":
        stage.waiting(name, 30)
    assert stage.turn() == [(name, 25) for name in "abcd"]
    assert len(stage.share) == 4
    assert stage.turn() == [(name, 25) for name in "abcd"]
    assert len(stage.share) == 0
    assert stage.share.put_off_total == 8


def test_there_are_more_than_can_go_on_in_one_turn() -> None:
    stage = Stage()
    for number in range(20):
        stage.waiting(f"{number}", 20)
    order = [name for _ in range(4) for name, _ in stage.turn()]
    assert order[:20] == [f"{number}" for number in range(20)]
    assert len(stage.turn()) <= 8
    while stage.turns:
        stage.turn()
    assert len(stage.share) == 0
