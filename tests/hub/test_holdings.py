"""What a handler holds several times over: counted, limited and charged in one place."""

from __future__ import annotations

import pytest

from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.holdings import Allowance
from hub.memory import Memory
from hub.quotas.quotas import QuotaLimits, Quotas, SetLimits
from hub.quotas.resource import Resource
from hub.quotas.usage import Usage
from tests.hub.fakes import handler_of


def allowance(memory: Memory | None = None) -> Allowance[str]:
    return Allowance("prefixes", Resource.PREFIXES, 2, 3, memory or Memory(), len)


def take(one: Allowance[str], handler: Handler, held: dict[str, int], *wanted: str) -> list[str]:
    return list(one.taking(handler, held, wanted))


def charged(*items: str) -> int:
    memory = Memory()
    one = allowance(memory)
    for item in items:
        take(one, handler_of(), {}, item)
    return memory.charged_bytes


def shared(most: int) -> tuple[Allowance[str], list[Handler], Usage]:
    handlers = [handler_of(), handler_of()]
    share = Quotas(limits=QuotaLimits(users={"alice": SetLimits({Resource.PREFIXES: most})})).join("alice", frozenset())
    for handler in handlers:
        handler.share = share
    return Allowance("prefixes", Resource.PREFIXES, 10, 10, Memory(), len), handlers, share[Resource.PREFIXES]


def test_what_is_wanted_is_charged_before_the_first_step() -> None:
    one, (first, second), usage = shared(3)
    held: dict[str, int] = {}
    steps = one.taking(first, held, ["a", "b", "c"])
    assert next(steps) == "a"
    assert usage.held == 3
    with pytest.raises(RejectedError):
        take(one, second, {}, "x")
    del steps
    assert (held, usage.held) == ({"a": 1}, 1)
    assert take(one, second, {}, "x") == ["x"]


def test_what_is_given_back_between_the_steps() -> None:
    one, (first, _), usage = shared(3)
    held = dict.fromkeys(take(one, first, {}, "b"), 1)
    steps = one.taking(first, held, ["a", "b"])
    assert next(steps) == "a"
    assert one.give_back(first, held, "b")
    assert usage.held == 1
    assert list(steps) == ["b"]
    assert (held, usage.held) == ({"a": 1, "b": 1}, 2)


def test_long_items_count_more_than_once() -> None:
    one, (first, _), usage = shared(9)
    held: dict[str, int] = {}
    assert len(take(one, first, held, "x" * 255, "y" * 256, "z" * 1024)) == 3
    assert usage.held == 1 + 2 + 5
    with pytest.raises(RejectedError, match=r"user alice has 8 prefixes, 2 more are too many"):
        take(one, first, held, "x" * 256)
    assert one.give_back(first, held, "y" * 256)
    assert usage.held == 6
    assert one.give_back_any(first, held) == "z" * 1024
    assert usage.held == 1


@pytest.mark.parametrize(("role", "most"), [(Role.CLIENT, 2), (Role.LEAF, 3), (Role.LOCAL, None)])
def test_limits(role: Role, most: int | None) -> None:
    one, handler = allowance(), handler_of(role=role)
    assert take(one, handler, {"0": 7}, "0", "0", "1") == ["1"]
    assert one.refused_total == 0
    wanted = [str(number) for number in range(1, 5)]
    if most is None:
        assert take(one, handler, {"0": 7}, *wanted) == wanted
        return
    assert take(one, handler, {"0": 7}, *wanted[: most - 1]) == wanted[: most - 1]
    with pytest.raises(RejectedError, match=f"{most + 1} prefixes, the limit for a .* is {most}") as caught:
        take(one, handler, {"0": 7}, *wanted[:most])
    assert caught.value.code == CloseCode.NOT_ALLOWED
    assert one.refused_total == most
