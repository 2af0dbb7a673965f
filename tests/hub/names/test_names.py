"""Claims, queues and announcements of service names, case by case."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode, ClosedError, InvalidNameError, RejectedError
from hub.limits import NameLimits
from hub.names.claim import Announced, Change, Standing
from hub.names.names import NamesStatistics
from hub.turn import STEPS_PER_TURN
from tests.hub.names.hubs import Hub, settle

NAME = "org.example.Player"


@pytest.fixture
def hub() -> Hub:
    return Hub(1)


@pytest.mark.parametrize(("name", "labels"), [("player", ()), ("a..b", ()), (NAME, ("",)), (NAME, ("x" * 129,))])
def test_what_is_no_name(hub: Hub, name: str, labels: tuple[str, ...]) -> None:
    with pytest.raises(InvalidNameError):
        hub.client().claim(name, *labels)
    assert hub.names.statistics() == NamesStatistics(0, 0, 0, 0, 1, 0, 0)


def test_limits() -> None:
    hub = Hub(1, NameLimits(per_client=2, queue=1, total=3))
    one, two, three = hub.client(), hub.client(), hub.client()
    one.claim("a.a")
    one.claim("a.b")
    with pytest.raises(RejectedError, match="has claimed 2 names, which is the limit"):
        one.claim("a.c")
    two.claim("a.c")
    with pytest.raises(RejectedError, match="3 names are claimed, which is the limit"):
        two.claim("a.d")
    two.claim("a.a", queue=True)
    with pytest.raises(RejectedError, match=r"1 clients wait for it.*it is owned by client 1"):
        three.claim("a.a", queue=True)
    with pytest.raises(RejectedError, match="has claimed 2 names"):
        two.claim("a.b", queue=True)
    assert one.claim("a.b", "new") is Standing.OWNED
    assert hub.names.statistics().refused_total == 4
    one.release("a.b")
    assert two.hub.names.statistics().names == 2


def test_a_client_that_has_left_claims_nothing(hub: Hub) -> None:
    one = hub.client()
    one.leave()
    with pytest.raises(ClosedError):
        one.claim(NAME)


def test_lists_in_pieces(hub: Hub) -> None:
    one = hub.client()
    for name in ("b.b", "a.c", "a.b", "a.ba", "a.a"):
        one.claim(name)

    def names(prefix: str = "", after: str = "", most: int = 1000) -> list[str]:
        return [each["name"] for each in hub.names.register.list(prefix, after, most)]

    assert names() == ["a.a", "a.b", "a.ba", "a.c", "b.b"]
    assert names(most=2) == ["a.a", "a.b"]
    assert names(after="a.b", most=2) == ["a.ba", "a.c"]
    assert names("a.b") == ["a.b", "a.ba"]
    assert names("a.b", after="a.b") == ["a.ba"]
    assert names("a.b", after="a.a") == ["a.b", "a.ba"]
    assert names("a", after="a.c") == []
    assert names("c") == []


def linked(*numbers: int) -> list[Hub]:
    hubs = [Hub(number) for number in numbers]
    for index, hub in enumerate(hubs):
        for far in hubs[:index]:
            hub.connect(far)
    return hubs


def test_a_slow_clock_does_not_take_a_known_name() -> None:
    here, there = linked(1, 2)
    owner, waiting = here.client(), there.client()
    owner.claim(NAME, now_us=1000)
    settle([here, there])
    waiting.claim(NAME, now_us=1, queue=True)
    here.disconnect(there)
    assert there.owner(NAME) == (there.id, 1)
    here.connect(there)
    settle([here, there])
    assert here.owner(NAME) == there.owner(NAME) == (here.id, 1)


def test_a_link_with_many_names_goes_in_portions() -> None:
    here, there = linked(1, 2)
    link = there.links[here].handler
    here.names.hear(link, [Announced(f"a.n{number}", (), 1, 1) for number in range(2500)], [])
    assert here.names.statistics().far == 2500
    here.disconnect(there)
    share = STEPS_PER_TURN // 2
    assert (here.names.statistics().far, here.wakes, here.names.is_behind) == (2500 - share, 1, True)
    for _ in range(2500 // share - 1):
        here.next_turn()
    assert here.names.statistics() == NamesStatistics(0, 0, 0, 2500, 0, 0, 0)
    assert not here.names.is_behind


def test_clients_that_leave_together_give_up_a_share_of_their_names_each_turn() -> None:
    hub = Hub(1, NameLimits(per_client=300))
    leaving = [hub.client() for _ in range(10)]
    for number, client in enumerate(leaving):
        for each in range(200):
            client.claim(f"a.n{number}.x{each}")
    waiting, patient = leaving[3], hub.client()
    waiting.claim("a.n9.x0", queue=True)
    patient.claim("a.n9.x0", queue=True)
    for client in leaving:
        client.leave()
    assert hub.names.statistics().names >= 2000 - STEPS_PER_TURN // 2
    assert hub.names.register.owner("a.n9.x199") is None
    newcomer = hub.client()
    assert newcomer.claim("a.n9.x199") is Standing.OWNED
    hub.names.release(newcomer.handler, "a.n9.x199")
    turns = 0
    while hub.names.is_behind:
        hub.next_turn()
        turns += 1
    assert turns in range(2, 4000 // STEPS_PER_TURN + 1)
    assert [each["name"] for each in hub.names.register.list()] == ["a.n9.x0"]
    assert hub.names.register.owner("a.n9.x0") is patient.handler
    assert (hub.names.statistics().names, hub.names.statistics().waiting) == (1, 0)
    assert (waiting.told, patient.told) == ([], [Change("a.n9.x0", Standing.OWNED)])


def test_a_link_that_comes_back_before_the_old_one_is_gone() -> None:
    here, there = linked(1, 2)
    owner = there.client()
    for number in range(1, 1100):
        here.names.hear(there.links[here].handler, [Announced(f"a.n{number}", (), 1, 1)], [])
    owner.claim("a.first", now_us=1)
    names = list(here.known)
    here.names.hear(there.links[here].handler, [Announced("a.a", (), 1, 1)], [])
    here.disconnect(there)
    assert here.names.is_behind
    here.connect(there)
    before = len(here.events)
    here.names.hear(there.links[here].handler, [Announced(names[0], (), 1, 1)], [])
    while here.names.is_behind:
        here.next_turn()
    assert here.names.register.owner(names[0]) is there.links[here].handler
    assert (("gone", names[0])) not in here.events[before:]


def test_bad_announcements(hub: Hub) -> None:
    far = Hub(2)
    hub.connect(far)
    link = far.links[hub].handler
    bad = [Announced("bad", (), 1, 1), Announced("a.b", ("ok",), 1, 1), Announced("a.c", ("",), 1, 1)]
    with pytest.raises(RejectedError, match=r"^2 announced names are not taken: name 'bad' is none") as caught:
        hub.names.hear(link, bad, ["never.announced"])
    assert caught.value.code == CloseCode.BAD_DATA
    assert list(hub.known) == ["a.b"]
    assert hub.names.statistics().unheard_total == 2


def test_too_many_announcements() -> None:
    hub, far = Hub(1, NameLimits(total=2)), Hub(2)
    hub.connect(far)
    hub.client().claim("a.a")
    with pytest.raises(RejectedError, match="1 announced names are not taken: 2 names are known, which is the limit"):
        hub.names.hear(far.links[hub].handler, [Announced(f"b.{n}", (), 1, 1) for n in "ab"], [])
    assert list(hub.known) == ["a.a", "b.a"]
