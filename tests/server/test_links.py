"""What was lost and carried with links, and which of two links to the same hub stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from peers.server.keepalive import Keepalive
from peers.server.links import PROOF_S, Links
from peers.server.traffic import (
    KEPT_S,
    NAMES_KEPT,
    REMEMBERED,
    SETTLE_S,
    TOLD_PER_LINK,
    Accounts,
    Carried,
    EndedLink,
    LinkTraffic,
    Loss,
    Moment,
    Peer,
    Traffic,
)
from peers.wire.control import Account

# What was lost: exactly where both sides can tell, at most where not; each message is counted once.


FAR = Peer(b"\x03" * 16, "south", "tcp://127.0.0.1:1")
LINK = b"link one"


class Book:
    def __init__(self) -> None:
        self.keepalive = Keepalive(0.0)
        self.told: list[Loss] = []
        self.accounts = Accounts(self.keepalive, self.told.append)

    def end(self, **fields: Any) -> None:
        known: dict[str, Any] = dict.fromkeys(("offered", "sent", "arrived", "missed", "waiting", "confirmed"), 0)
        known |= {"link": LINK, "peer": FAR, "is_settled": False}
        one = self.accounts.end(EndedLink(**(known | fields)), 0.0)
        self.accounts.conclude(one)

    def take_told(self) -> list[tuple[bool, int, bool]]:
        told, self.told[:] = list(self.told), []
        return [(loss.is_outward, loss.messages, loss.exactly) for loss in told]

    @property
    def counters(self) -> tuple[int, int, int, int]:
        accounts = self.accounts
        doubt = accounts.messages_in_doubt
        return accounts.lost_messages, accounts.possibly_lost_messages, accounts.missed_messages, doubt


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.mark.parametrize(("missed", "sent", "lost"), [(0, 42, 2), (10, 57, 7)])
def test_messages_that_did_not_come(book: Book, missed: int, sent: int, lost: int) -> None:
    book.end(arrived=40, missed=missed)
    for _ in range(2):
        book.accounts.hear(FAR.hub, Account(LINK, sent=sent, arrived=0))
    assert book.take_told() == [(False, lost, True)]
    assert book.counters == (0, 0, lost, 0)


def test_what_the_next_link_is_told(book: Book) -> None:
    for number in range(TOLD_PER_LINK + 1):
        book.end(link=bytes((number,)) * 8, offered=number, arrived=2 * number)
    book.end(link=b"to other", peer=FAR._replace(hub=b"\x04" * 16))
    assert book.accounts.former(FAR.hub) == [
        Account(bytes((number,)) * 8, number, 2 * number) for number in range(1, TOLD_PER_LINK + 1)
    ]


def test_the_memory_is_bounded(book: Book) -> None:
    for number in range(REMEMBERED + 3):
        book.end(link=number.to_bytes(8), sent=1)
    assert book.counters == (0, 3, 0, REMEMBERED)


def test_a_telling_that_cannot_be(book: Book) -> None:
    book.end(sent=10, confirmed=5)
    book.accounts.hear(FAR.hub, Account(LINK, sent=0, arrived=99))
    assert book.counters == (0, 0, 0, 0)
    book.end(link=b"link two", sent=10, confirmed=5)
    book.accounts.hear(FAR.hub, Account(b"link two", sent=0, arrived=0))
    assert book.counters == (5, 0, 0, 0)


@given(
    sent=st.integers(0, 50),
    confirmed=st.integers(0, 50),
    arrived=st.integers(0, 50),
    waiting=st.integers(0, 5),
    comes_back=st.booleans(),
)
def test_every_message_is_accounted_for(
    *, sent: int, confirmed: int, arrived: int, waiting: int, comes_back: bool
) -> None:
    arrived = min(arrived, sent)
    book = Book()
    book.end(sent=sent, confirmed=min(confirmed, arrived), waiting=waiting)
    if comes_back:
        book.accounts.hear(FAR.hub, Account(LINK, arrived=arrived))
    book.keepalive.tick(SETTLE_S + 1)
    lost, possibly, _, doubt = book.counters
    really = sent - arrived + waiting
    assert doubt == 0
    assert lost <= really <= lost + possibly
    assert not (comes_back and possibly)


# What links have carried, by the name of the hub at their other end.


class Standing:
    def __init__(self, name: str = "south", number: int = 1, *, lag_s: float | None = None, cost: int = 1) -> None:
        self.peer = Peer(bytes([number]) * 16, name, "tcp://192.0.2.1:7400")
        self.sums = Carried()
        self.now = Moment(queued_messages=0, waiting_s=0.0, lag_s=lag_s, cost=cost)

    def carried(self) -> Carried:
        return self.sums

    def moment(self, now_s: float) -> Moment:
        del now_s
        return self.now


def shown_of(traffic: Traffic, now_s: float = 0.0) -> dict[str, LinkTraffic]:
    return {one.hub: one for one in traffic.statistics(now_s)}


def test_sums_go_on_over_links_to_one_hub() -> None:
    traffic, first, second = Traffic(), Standing(lag_s=0.5), Standing(number=2, lag_s=0.1)
    traffic.begin(first, 0.0)
    first.sums = Carried(1, 10, 2, 20, 3, 4, 5)
    traffic.end(first, 1.0)
    first.sums = Carried(100)  # it is over
    down = shown_of(traffic)["south"]
    assert (down.links, down.carried, down.lag_s, down.cost) == (0, Carried(1, 10, 2, 20, 3, 4, 5), None, None)
    traffic.begin(second, 2.0)
    second.sums = Carried(received_messages=1)
    up = shown_of(traffic)["south"]
    assert (up.links, up.carried.received_messages, up.lag_s, up.cost) == (1, 2, 0.1, 1)
    traffic.end(second, 3.0)
    traffic.end(second, 3.0)
    assert shown_of(traffic)["south"].carried.received_messages == 2


def test_what_was_lost_with_links() -> None:
    traffic, link = Traffic(), Standing()
    traffic.begin(link, 0.0)
    traffic.end(link, 1.0)
    for number, (is_outward, exactly, is_overtaken) in enumerate(
        [(True, True, False), (False, True, False), (False, True, True), (True, False, False)], 1
    ):
        traffic.lose(Loss(link.peer, is_outward, number, exactly, is_overtaken))
    dropped = shown_of(traffic)["south"].dropped
    assert dropped == {"queue_full": 0, "too_large": 0, "cut": 1, "missed": 2, "overtaken": 3}


def test_a_hub_that_has_gone_for_good_is_forgotten() -> None:
    traffic, link = Traffic(), Standing()
    traffic.begin(link, 0.0)
    link.sums = Carried(sent_messages=5)
    traffic.lose(Loss(link.peer, is_outward=True, messages=2, exactly=True))
    traffic.end(link, 10.0)
    assert shown_of(traffic, 9.0 + KEPT_S).keys() == {"south"}
    gone = shown_of(traffic, 10.0 + KEPT_S)
    assert gone.keys() == {""}
    assert (gone[""].links, gone[""].carried.sent_messages, gone[""].dropped["cut"]) == (0, 5, 2)


def test_names_are_bounded() -> None:
    """Those that have gone make room; where all are up, further ones are shown together, also once there is room."""
    traffic = Traffic()
    links = [Standing(f"hub-{number}") for number in range(NAMES_KEPT)]
    for link in links:
        link.sums = Carried(received_messages=1)
        traffic.begin(link, 0.0)
    more = Standing("more")
    more.sums = Carried(received_messages=1)
    traffic.begin(more, 1.0)
    shown = shown_of(traffic, 1.0)
    assert len(shown) == NAMES_KEPT + 1
    assert "more" not in shown
    assert (shown[""].links, shown[""].carried.received_messages) == (1, 1)
    traffic.end(links[7], 2.0)
    traffic.end(links[3], 3.0)
    traffic.begin(Standing("other"), 4.0)
    shown = shown_of(traffic, 4.0)
    assert len(shown) == NAMES_KEPT + 1
    assert "hub-7" not in shown
    assert {"hub-3", "other"} <= shown.keys()
    traffic.begin(Standing("more", 2), 5.0)
    traffic.end(more, 6.0)
    shown = shown_of(traffic, 6.0)
    assert (shown["more"].links, shown[""].links) == (1, 0)
    assert sum(one.carried.received_messages for one in shown.values()) == NAMES_KEPT + 1


# Which link stays; crossed dialling is played through in `tests/links/test_crossed`.


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
