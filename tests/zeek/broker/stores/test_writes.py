"""What clients of the hub write to a store that follows a Zeek's: granted there, answered here, once each."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from hub.errors import CloseCode, StoreError
from hub.stores.command import ENTRY_BYTES, Change, Command, StoreLimits
from peers.values import Count, decode, encode, from_msgpack, to_msgpack
from peers.zeek.broker.stores.channel import SILENT_TICKS, ChannelLimits
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import decode_command, entity
from tests.zeek.broker.stores.simulated import Faults, MemoryOwner, Simulation, node_id

HUB = node_id(0xAA)


def pack(value: Any) -> bytes:
    return to_msgpack(encode(value))


def asked(kind: str, key: Any, *operand: Any, **terms: Any) -> Command:
    return Command(kind, pack(key), pack(operand[0]) if operand else None, **terms)


class Followed:
    def __init__(
        self, simulation: Simulation, limits: ChannelLimits | None = None, store: StoreLimits | None = None
    ) -> None:
        self.simulation = simulation
        self.copy = MemoryOwner(store)
        numbers = iter(range(1, 1_000_000))
        self.clone = Clone(
            "db",
            self.copy,
            lambda: entity(HUB, next(numbers)),
            lambda _, command: simulation.network.send("hub", "master", command),
            lambda _: None,
            limits=limits,
        )
        simulation.network.join("hub", lambda _, data: self.clone.hear(decode_command(data), len(data)))
        simulation.clones.append(self)  # type: ignore[arg-type]
        self.node = HUB
        self.answers: dict[int, Change | StoreError | None] = {}
        self.asked = 0
        self.clone.begin()

    def ask(self, *commands: Command, publisher: str = "alice", user: str | None = None) -> int:
        first = self.asked
        self.asked += len(commands)
        self.clone.apply(commands, partial(self._answer, first), publisher, user)
        return first

    def _answer(self, first: int, outcomes: list[Change | StoreError | None], error: object) -> None:
        assert error is None
        for number, outcome in enumerate(outcomes, first):
            assert number not in self.answers
            self.answers[number] = outcome

    def answer(self, command: Command, user: str | None = None) -> Change | StoreError | None:
        number = self.ask(command, user=user)
        for _ in range(100):
            if number in self.answers:
                return self.answers[number]
            self.simulation.tick()
        raise AssertionError(command)

    def value(self, command: Command) -> Any:
        outcome = self.answer(command)
        assert isinstance(outcome, Change), outcome
        assert outcome.value is not None
        return decode(from_msgpack(outcome.value))

    def content(self) -> dict[bytes, bytes]:
        return self.copy.content


class HubSimulation(Simulation):
    def _to_clones(self, to: bytes, command: bytes) -> None:
        for cloned in self.clones:
            if to in (bytes(16), cloned.node):
                name = "hub" if cloned.node == HUB else f"clone {int.from_bytes(cloned.node, 'big')}"
                self.network.send("master", name, command)


def follow(store: StoreLimits | None = None, channel: ChannelLimits | None = None, seed: int = 1) -> Followed:
    simulation = HubSimulation(seed, clones=1)
    made = Followed(simulation, channel, store)
    simulation.tick(5)
    assert made.clone.is_attached
    return made


@pytest.fixture
def followed() -> Followed:
    return follow()


def test_what_the_master_is_not_asked(followed: Followed) -> None:
    assert followed.value(asked("put", "n", 1)) == 1
    said = followed.simulation.network.carried
    for command, reason in (
        (asked("put", "n", 2, if_version=1), "knows no versions"),
        (asked("append", "n", "x"), "append: the entry is of type integer, the value of type string"),
        (asked("push", "n", 1), "push: the entry is of type integer"),
        (Command("put", pack("n"), b"\xc7\x01\x7f\x00"), "a Zeek cannot have it"),
        (asked("put", "n", "x" * 600_000), "an entry of"),
        (asked("add", "n", 1), "cannot be asked for 'add'"),
        (Command("put", pack("n")), "put needs a value"),
    ):
        outcome = followed.answers[followed.ask(command)]
        assert isinstance(outcome, StoreError)
        assert reason in outcome.text
    assert followed.simulation.network.carried == said
    assert isinstance(followed.answers[followed.ask(StoreError("unreadable"))], StoreError)  # type: ignore[arg-type]


def test_too_many_at_once() -> None:
    simulation = HubSimulation(1, clones=0)
    followed = Followed(simulation, ChannelLimits(actions=3))
    simulation.tick(5)
    first = followed.ask(*[asked("put", number, 1) for number in range(5)])
    simulation.tick(20)
    outcomes = [followed.answers[number] for number in range(first, first + 5)]
    assert [isinstance(outcome, StoreError) for outcome in outcomes] == [False, False, False, True, True]
    assert isinstance(outcomes[4], StoreError)
    assert outcomes[4].code == CloseCode.TRY_AGAIN_LATER
    assert len(followed.clone) == 0


def any_command(chance: random.Random) -> Command:
    key = chance.choice("abc")
    return chance.choice([
        asked("put", key, chance.randrange(5)),
        asked("put_unique", key, chance.randrange(5)),
        asked("increment", key, chance.randrange(5)),
        asked("decrement", key, chance.randrange(5)),
        asked("erase", key),
        asked("erase", "never there"),
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_true(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- to be repeatable
    simulation = HubSimulation(seed, clones=1)
    followed = Followed(simulation)
    simulation.tick(5)
    simulation.network.faults = Faults(lost=0.2, doubled=0.2)
    done: list[Command] = []
    for _ in range(150):
        if chance.random() < 0.5:
            done.append(any_command(chance))
            followed.ask(done[-1])
        if chance.random() < 0.2:
            simulation.clones[0].add("sum", 1)
        simulation.tick()
    simulation.settle()
    assert sorted(followed.answers) == list(range(len(done)))
    assert followed.content() == simulation.served.store.content
    model: dict[bytes, int] = {}
    for number, command in enumerate(done):
        outcome = followed.answers[number]
        before = model.get(command.key)
        value = None if command.value is None else decode(from_msgpack(command.value))
        if command.kind == "erase":
            assert (outcome is None) == (before is None)
            model.pop(command.key, None)
        elif isinstance(outcome, StoreError):
            assert (command.kind, before) == ("decrement", None)
        elif outcome is None:
            assert (command.kind, before is None) == ("put_unique", False)
        else:
            assert isinstance(value, int)
            signs = {"increment": 1, "decrement": -1}
            model[command.key] = (before or 0) + signs[command.kind] * value if command.kind in signs else value
            assert outcome.value == pack(model[command.key])


# What users of the hub write is charged to them, on its way and once it is there.

USER_BYTES = 3 * (ENTRY_BYTES + 100)


@pytest.fixture
def charged() -> Followed:
    return follow(StoreLimits(user_entries=3, user_bytes=USER_BYTES))


def refusal(followed: Followed, number: int) -> str:
    error = followed.answers[number]
    assert isinstance(error, StoreError)
    return error.text


def test_a_user_who_has_as_much_as_he_may(charged: Followed) -> None:
    charged.answer(asked("put", "a", 1), "ada")
    first = [charged.ask(asked("put", key, 1), user="ada") for key in "bcd"]
    assert "3 entries of user 'ada'" in refusal(charged, first[2])
    large = charged.ask(asked("put", "b", "x" * USER_BYTES), user="bob")
    assert "too much of user 'bob'" in refusal(charged, large)
    assert isinstance(charged.answer(asked("put", "d", 1), "bob"), Change)
    assert charged.content().keys() == {encode(key) for key in "abcd"}
    assert charged.copy.store.charged("ada")[0] == 3
    for kind, key in (("put", "a"), ("increment", "b"), ("put", "c")):  # what he has he may change, several at a time
        charged.ask(asked(kind, key, 5), user="ada")
    charged.simulation.tick(20)
    assert not [each for number, each in charged.answers.items() if number > large and isinstance(each, StoreError)]
    charged.answer(asked("erase", "a"), "ada")
    assert isinstance(charged.answer(asked("put", "e", 1), "ada"), Change)


def test_what_does_not_fit_any_more_is_held_nevertheless() -> None:
    followed = follow(StoreLimits(user_bytes=USER_BYTES))
    followed.answer(asked("put", "t", "x"), "ada")
    followed.simulation.served.put("other", 1)
    first = followed.ask(*(asked("append", "t", "y" * 200) for _ in range(8)), user="ada")
    followed.simulation.tick(20)
    assert {number - first for number, each in followed.answers.items() if isinstance(each, Change)} >= {0, 1}
    assert followed.content() == followed.simulation.served.store.content
    assert followed.copy.store.charged("ada")[1] <= USER_BYTES


def test_what_is_refused_or_lost_is_charged_no_more(charged: Followed) -> None:
    charged.answer(asked("put", "a", "text"), "ada")
    charged.answer(asked("increment", "a", Count(1)), "ada")
    charged.answer(asked("put_unique", "a", 1), "bob")
    assert len(charged.clone._charges) == 0
    charged.simulation.network.cut.add("master")
    first = charged.ask(asked("put", "b", 1), asked("put", "c", 1), user="ada")
    assert len(charged.clone._charges) == 1
    for _ in range(SILENT_TICKS + 1):
        charged.clone.tick()
    assert "it may have been carried out or not" in refusal(charged, first)
    assert len(charged.clone._charges) == 0
    busy = follow(StoreLimits(), ChannelLimits(actions=1))
    busy.simulation.network.cut.add("master")
    numbers = [busy.ask(asked("put", key, 1), user="ada") for key in "abcd"]
    assert "has not confirmed" in refusal(busy, numbers[3])
    assert len(busy.clone._charges) == 1


@pytest.mark.parametrize("seed", range(2))
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
