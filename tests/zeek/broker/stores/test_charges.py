"""What users of the hub write to a store that follows a Zeek's is charged to them, on its way and once it is there."""

from __future__ import annotations

import random

import pytest

from hub.errors import StoreError
from hub.stores.command import ENTRY_BYTES, Change, StoreLimits
from peers.values import Count, encode
from peers.zeek.broker.stores.channel import SILENT_TICKS, ChannelLimits
from tests.zeek.broker.stores.test_writes import Followed, HubSimulation, asked

USER_BYTES = 3 * (ENTRY_BYTES + 100)


def follow(limits: StoreLimits, channel: ChannelLimits | None = None) -> Followed:
    simulation = HubSimulation(1, clones=1)
    made = Followed(simulation, channel, limits)
    simulation.tick(5)
    assert made.clone.is_attached
    return made


@pytest.fixture
def followed() -> Followed:
    return follow(StoreLimits(user_entries=3, user_bytes=USER_BYTES))


def refusal(followed: Followed, number: int) -> str:
    error = followed.answers[number]
    assert isinstance(error, StoreError)
    return error.text


def test_a_user_is_charged_for_what_is_there(followed: Followed) -> None:
    for key in "ab":
        assert isinstance(followed.answer(asked("put", key, 1), "ada"), Change)
    assert followed.copy.store.charged("ada")[0] == 2
    assert isinstance(followed.answer(asked("put", "a", 2), "bob"), Change)
    assert [followed.copy.store.charged(user)[0] for user in ("ada", "bob")] == [1, 1]
    followed.simulation.served.put("b", 7)
    followed.simulation.tick(5)
    assert followed.copy.store.charged("ada") == (0, 0)
    followed.answer(asked("erase", "a"), "carl")
    assert followed.copy.store.charged("bob") == (0, 0)


def test_a_user_who_has_as_much_as_he_may(followed: Followed) -> None:
    followed.answer(asked("put", "a", 1), "ada")
    first = [followed.ask(asked("put", key, 1), user="ada") for key in "bcd"]
    assert "3 entries of user 'ada'" in refusal(followed, first[2])
    large = followed.ask(asked("put", "b", "x" * USER_BYTES), user="bob")
    assert "too much of user 'bob'" in refusal(followed, large)
    assert isinstance(followed.answer(asked("put", "d", 1), "bob"), Change)
    assert followed.content().keys() == {encode(key) for key in "abcd"}
    assert followed.copy.store.charged("ada")[0] == 3
    for kind, key in (("put", "a"), ("increment", "b"), ("put", "c")):  # what he has he may change, several at a time
        followed.ask(asked(kind, key, 5), user="ada")
    followed.simulation.tick(20)
    assert not [each for number, each in followed.answers.items() if number > large and isinstance(each, StoreError)]
    followed.answer(asked("erase", "a"), "ada")
    assert isinstance(followed.answer(asked("put", "e", 1), "ada"), Change)


def test_one_key_counts_once_while_it_is_on_its_way(followed: Followed) -> None:
    first = followed.ask(*(asked("put", "k", "x" * (100 - number)) for number in range(50)), user="ada")
    followed.ask(asked("put", "l", 1), user="ada")
    followed.simulation.tick(20)
    assert all(isinstance(followed.answers[first + number], Change) for number in range(51))
    assert followed.copy.store.charged("ada")[0] == 2


def test_what_does_not_fit_any_more_is_held_nevertheless() -> None:
    followed = follow(StoreLimits(user_bytes=USER_BYTES))
    followed.answer(asked("put", "t", "x"), "ada")
    followed.simulation.served.put("other", 1)
    first = followed.ask(*(asked("append", "t", "y" * 200) for _ in range(8)), user="ada")
    followed.simulation.tick(20)
    assert {number - first for number, each in followed.answers.items() if isinstance(each, Change)} >= {0, 1}
    assert followed.content() == followed.simulation.served.store.content
    assert followed.copy.store.charged("ada")[1] <= USER_BYTES


def test_what_is_refused_or_lost_is_charged_no_more(followed: Followed) -> None:
    followed.answer(asked("put", "a", "text"), "ada")
    followed.answer(asked("increment", "a", Count(1)), "ada")
    followed.answer(asked("put_unique", "a", 1), "bob")
    assert len(followed.clone._charges) == 0
    followed.simulation.network.cut.add("master")
    first = followed.ask(asked("put", "b", 1), asked("put", "c", 1), user="ada")
    assert len(followed.clone._charges) == 1
    for _ in range(SILENT_TICKS + 1):
        followed.clone.tick()
    assert "nobody knows whether it was carried out" in refusal(followed, first)
    assert len(followed.clone._charges) == 0
    busy = follow(StoreLimits(), ChannelLimits(actions=1))
    busy.simulation.network.cut.add("master")
    numbers = [busy.ask(asked("put", key, 1), user="ada") for key in "abcd"]
    assert "has not confirmed" in refusal(busy, numbers[3])
    assert len(busy.clone._charges) == 1


@pytest.mark.parametrize("seed", range(5))
def test_charges_are_as_the_entries_say(seed: int) -> None:
    followed = follow(StoreLimits(user_entries=4, user_bytes=USER_BYTES))
    chance = random.Random(seed)  # noqa: S311 -- to be repeatable
    for _ in range(300):
        user, key = chance.choice(["ada", "bob", None]), chance.choice("abcdefgh")
        kind = chance.choice(["put", "put", "append", "put_unique", "erase"])
        followed.ask(asked(kind, key, "x" * chance.randrange(60)), user=user)
        if chance.random() < 0.3:
            followed.simulation.tick()
        if chance.random() < 0.05:
            followed.simulation.served.put(key, 1)
    followed.simulation.tick(50)
    assert followed.content() == followed.simulation.served.store.content
    assert len(followed.clone._charges) == 0
    store = followed.copy.store
    for user in ("ada", "bob"):
        his = [len(key) + len(value) + ENTRY_BYTES for key, (value, _, of) in store.entries.items() if of == user]
        assert store.charged(user) == (len(his), sum(his))
        assert len(his) <= 4
