"""What was lost with a link: exactly where both sides can tell, at most where not; each message is counted once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.node.accounts import REMEMBERED, SETTLE_S, TOLD_PER_LINK, Accounts, EndedLink, Loss, Peer
from peers.node.keepalive import Keepalive
from peers.wire.control import Account

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


def test_what_did_not_come(book: Book) -> None:
    book.end(arrived=40)
    for _ in range(2):
        book.accounts.hear(FAR.hub, Account(LINK, sent=42, arrived=0))
    assert book.take_told() == [(False, 2, True)]
    assert book.counters == (0, 0, 2, 0)


def test_what_the_far_side_has_told_of_is_not_missed_twice(book: Book) -> None:
    book.end(arrived=40, missed=10)
    book.accounts.hear(FAR.hub, Account(LINK, sent=57, arrived=0))
    assert book.take_told() == [(False, 7, True)]


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
