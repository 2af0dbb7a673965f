"""Work and writes that are too much for one turn: in order, and each kind of work, and few readers, go ahead."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.scheduling.scheduler import FEW, SMALL_WRITE_BYTES, STEPS_PER_TURN, WRITES_PER_TURN, Scheduler
from tests.hub.fakes import FakeOutlet, Turn, handler_of


class Desk:
    def __init__(self) -> None:
        self.wakes = 0
        self.done: list[str] = []
        self.scheduler = Scheduler(self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def turn(self) -> list[str]:
        self.done = []
        self.scheduler.begin()
        self.scheduler.run()
        return self.done

    def work(self, name: str, steps: int) -> Iterator[None]:
        for _ in range(steps):
            self.done.append(name)
            yield


def test_work_of_one_kind_keeps_its_order_and_kinds_take_turns() -> None:
    desk = Desk()
    desk.scheduler.add("a", desk.work("first", STEPS_PER_TURN + 1))
    assert (desk.done, desk.wakes) == (["first"] * STEPS_PER_TURN, 1)
    desk.scheduler.add("a", desk.work("second", 2 * STEPS_PER_TURN))
    desk.scheduler.add("b", desk.work("third", 40))
    done = desk.turn()
    assert len(done) == STEPS_PER_TURN
    assert done[0] == "first"
    assert done.index("third") <= STEPS_PER_TURN // 5
    assert done.count("third") == 40
    assert desk.turn() == ["second"] * STEPS_PER_TURN
    assert (desk.wakes, desk.scheduler.is_busy) == (3, True)
    assert desk.turn() == ["second"] * 41
    assert (desk.wakes, desk.scheduler.is_busy) == (3, False)


def test_work_that_fails_holds_up_nothing() -> None:
    desk = Desk()

    def failing() -> Iterator[None]:
        yield
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        desk.scheduler.add("a", failing())
    assert desk.wakes == 1
    desk.scheduler.add("a", desk.work("next", 1))
    assert desk.turn() == ["next"]
    assert not desk.scheduler.is_busy


CROWD = 3 * WRITES_PER_TURN + 7


class Crowd:
    def __init__(self, size: int = CROWD) -> None:
        self.turn = Turn()
        self.core = self.turn.core
        self.source, _ = self.turn.join()
        self.members: list[tuple[Handler, FakeOutlet]] = [self.turn.join("/crowd") for _ in range(size)]

    def read(self, *messages: tuple[str, object]) -> None:
        self.turn.read(self.source, list(messages))

    def end_turn(self) -> None:
        self.core.flush()

    @property
    def served(self) -> int:
        return sum(bool(outlet.told) for _, outlet in self.members)

    def settle(self) -> int:
        turns = 0
        while self.core.writers.late:
            wakes = self.turn.wakes
            self.end_turn()
            assert not self.core.writers.late or self.turn.wakes > wakes, "somebody waits, and no turn was asked for"
            turns += 1
        return turns


def test_a_message_for_a_crowd_takes_several_turns() -> None:
    """Links and the journal do not wait; nor does whoever has few readers."""
    crowd, behind = Crowd(), list[int]()
    others = [crowd.turn.join("/crowd", role=role)[1] for role in (Role.LINK, Role.LEAF, Role.LOCAL)]
    pairs = [crowd.turn.join("/quiet")[1] for _ in range(FEW)]
    crowd.settle()
    wakes = crowd.turn.wakes
    crowd.read(("/crowd", 1))
    assert (crowd.served, crowd.turn.wakes) == (WRITES_PER_TURN, wakes + 1)
    assert [outlet.values for outlet in others] == [[1]] * 3
    crowd.core.writers.call_behind(lambda: behind.append(crowd.served))
    crowd.read(("/quiet", 2))
    assert [outlet.values for outlet in pairs] == [[2]] * FEW
    assert crowd.served == WRITES_PER_TURN
    crowd.end_turn()
    assert crowd.served == 2 * WRITES_PER_TURN
    assert crowd.settle() == 2
    assert [outlet.values for _, outlet in crowd.members] == [[1]] * CROWD
    assert crowd.core.writers.put_off_total == CROWD - WRITES_PER_TURN
    assert behind == [CROWD]


def test_order_and_nothing_lost() -> None:
    """What comes for those who wait is written with what they have, in its order; whoever pauses gets it later."""
    chance = random.Random(7)  # noqa: S311 -- a test
    crowd = Crowd()
    others = [crowd.turn.join("/other", "/crowd") for _ in range(20)]
    paused: list[Handler] = []
    numbers: list[tuple[str, int]] = []
    for number in range(60):
        topic = chance.choice(["/crowd", "/crowd", "/other"])
        numbers.append((topic, number))
        crowd.read((topic, number))
        match chance.randrange(4):
            case 0:
                crowd.end_turn()
            case 1:
                paused.append(chance.choice(crowd.members + others)[0])
                paused[-1].pause()
            case 2 if paused:
                paused.pop().resume()
            case _:
                pass
    for handler in paused:
        handler.resume()
    crowd.settle()
    told = [number for topic, number in numbers if topic == "/crowd"]
    assert all(outlet.values == told for _, outlet in crowd.members)
    assert all(outlet.values == [number for _, number in numbers] for _, outlet in others)


DEAR = 64


def test_a_few_who_are_dear_take_several_turns() -> None:
    crowd = Crowd(0)
    dear = []
    for _ in range(4):
        outlet = FakeOutlet()
        handler = handler_of(outlet, role=Role.LEAF)
        handler.make_dear(DEAR)
        crowd.core.attach(handler)
        crowd.core.subscribe(handler, ["/sealed"])
        crowd.end_turn()
        outlet.told.clear()
        dear.append(outlet)
    text = "x" * (WRITES_PER_TURN * SMALL_WRITE_BYTES // DEAR)
    crowd.read(("/sealed", text))
    assert [outlet.values for outlet in dear] == [[text], [], [], []]
    crowd.read(("/sealed", 2))
    crowd.end_turn()
    assert [len(outlet.values) for outlet in dear] == [1, 2, 0, 0]
    crowd.settle()
    assert [outlet.values for outlet in dear] == [[text, 2]] * 4
