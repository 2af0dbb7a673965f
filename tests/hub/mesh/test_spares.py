"""Which hubs are dialled as spares; that meshes stay together by it is shown in `tests/mesh_simulation/test_spares`."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from hub.mesh.spares import REMEMBER_S, RETRY_CAP_S, STEADY_S, Dial, Spares, Steps, View


def hub(number: int) -> bytes:
    """An id; they stand on the ring in the order of their numbers."""
    return number.to_bytes(16, "big")


class Scene:
    """Hub 0, and what it knows."""

    def __init__(self, *edges: tuple[int, int], degree: int = 2) -> None:
        self.spares = Spares(hub(0), degree, Random(1))  # noqa: S311 -- the same each time
        self.now_s = 1000.0
        self.refused: set[str] = set()
        self.links: dict[bytes, dict[bytes, int]] = {hub(0): {}}
        self.changes = 0
        self.addresses: dict[bytes, tuple[str, ...]] = {}
        self.lost: set[bytes] = set()
        for one, other in edges:
            self.link(one, other)

    def link(self, one: int, other: int) -> None:
        """Two hubs are linked; each has one address."""
        for near, far in ((one, other), (other, one)):
            self.links.setdefault(hub(near), {})[hub(far)] = 1
            self.addresses.setdefault(hub(near), (f"tcp://{near}",))
        self.changes += 1

    def cut(self, one: int, other: int) -> None:
        """They are linked no more."""
        del self.links[hub(one)][hub(other)], self.links[hub(other)][hub(one)]
        self.changes += 1

    def look(self) -> Steps:
        """Let a second pass."""
        self.now_s += 1.0
        own = self.links[hub(0)]
        reached = frozenset(self.links) - self.lost
        view = View(self.links, reached, self.changes, own.__contains__, self.addresses, self._may_dial)
        return self.spares.look(view, self.now_s)

    def _may_dial(self, address: str) -> bool:
        return address not in self.refused

    def dialled(self, seconds: int, *, fail: bool = True) -> list[Dial]:
        """Who is dialled in this time; nobody answers."""
        dials = []
        for _ in range(seconds):
            dial = self.look().dial
            if dial is not None:
                dials.append(dial)
                if fail:
                    self.spares.failed(dial.hub, self.now_s)
        return dials


def test_who_comes_next_is_dialled_first_and_who_comes_before_later() -> None:
    """All are linked by hub 5, and the neighbours of 0 on the ring are 1 and 9."""
    scene = Scene((0, 5), (1, 5), (9, 5), (3, 5))
    (first,) = scene.dialled(3, fail=False)
    assert first == Dial(hub(1), "tcp://1")
    scene.link(0, 1)
    scene.spares.linked(hub(1), hub(1), scene.now_s)
    assert scene.spares.hubs == {hub(1)}
    (second,) = scene.dialled(9, fail=False)
    assert second == Dial(hub(9), "tcp://9")


def test_one_attempt_at_a_time() -> None:
    """Whatever there would be to dial."""
    scene = Scene((0, 5), (1, 5), (9, 5), degree=8)
    assert len(scene.dialled(60, fail=False)) == 1


def test_an_address_that_fails_is_left_alone_for_longer_each_time() -> None:
    """Up to a minute, and its hub with it; then another address of the hub is dialled first."""
    scene = Scene((0, 5), (1, 5))
    scene.refused = {"tcp://5"}
    assert {dial.address for dial in scene.dialled(600)} == {"tcp://1"}
    assert 8 <= scene.spares.statistics().failed_total <= 30
    last = len(scene.dialled(int(4 * RETRY_CAP_S)))
    assert 3 <= last <= 9
    scene.addresses[hub(1)] = ("tcp://1", "tcp://1-too")
    assert [dial.address for dial in scene.dialled(240)][:2] == ["tcp://1-too", "tcp://1"]


def test_a_spare_that_does_not_last_has_failed() -> None:
    """One that has lasted is dialled again as if nothing had been."""
    scene = Scene((0, 5), (1, 5))
    attempts = []
    for lasting_s in (0.0, 2 * STEADY_S):
        before = scene.spares.statistics().attempts_total
        for _ in range(200):
            dial = scene.look().dial
            if dial is not None:
                scene.spares.linked(dial.hub, dial.hub, scene.now_s)
                scene.now_s += lasting_s
                scene.spares.lost(dial.hub, scene.now_s)
        attempts.append(scene.spares.statistics().attempts_total - before)
    assert attempts[0] < 20
    assert attempts[1] > 40


def test_what_a_hostile_hub_tells_is_bounded() -> None:
    """Hundreds of hubs with addresses where nobody is: an attempt a second at most, and fewer once all have failed.

    So a hub that does answer has its turn, however many addresses those before it have.
    """
    scene = Scene(*((5, number) for number in range(1, 200)), (0, 5))
    for number in range(1, 200):
        scene.addresses[hub(number)] = tuple(f"tcp://{number}-{which}" for which in range(8))
    dials = scene.dialled(600)
    assert len(dials) <= 600
    assert len({dial.hub for dial in dials}) > 50
    assert max(Counter(dial.hub for dial in dials).values()) < 30
    assert len(scene.dialled(600)) < 300


def test_hubs_that_are_lost_are_dialled_for_an_hour() -> None:
    """The next ones on the ring in both directions; not those whose address somebody else has now."""
    scene = Scene((0, 5), (5, 1), (5, 2), (5, 9))
    scene.refused = {"tcp://5"}
    scene.dialled(1)
    for number in (1, 2, 9):
        del scene.links[hub(number)], scene.links[hub(5)][hub(number)], scene.addresses[hub(number)]
    scene.changes += 1
    assert {dial.address for dial in scene.dialled(600)} == {"tcp://1", "tcp://2", "tcp://9"}
    scene.addresses[hub(5)] = ("tcp://9",)
    assert "tcp://9" not in {dial.address for dial in scene.dialled(600)}
    scene.dialled(int(REMEMBER_S))
    assert not scene.dialled(600)


def test_no_more_spares_than_there_may_be() -> None:
    """Even where links are said to come and go without end."""
    scene = Scene((0, 50))
    for number in range(1, 40):
        scene.link(50, number)
        for _ in range(20):
            dial = scene.look().dial
            if dial is not None:
                scene.spares.linked(dial.hub, dial.hub, scene.now_s)
                scene.link(0, int.from_bytes(dial.hub, "big"))
                scene.addresses[dial.hub] = ()
    assert len(scene.spares.hubs) == scene.spares.limit == 4


@pytest.mark.parametrize("degree", [0, 2])
def test_a_hub_that_is_alone(degree: int) -> None:
    """It knows of nobody."""
    scene = Scene(degree=degree)
    assert scene.dialled(30) == []
