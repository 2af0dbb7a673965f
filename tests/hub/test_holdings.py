"""What a handler holds several times over: counted, limited and charged in one place."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.holdings import Allowance
from hub.memory import Memory
from tests.hub.fakes import handler_of

ITEMS = ("", "/a", "/a/long/one")


def allowance(memory: Memory | None = None) -> Allowance[str]:
    """Two items a client, three a peer."""
    return Allowance("prefixes", 2, 3, memory or Memory(), len)


def charged(*items: str) -> int:
    """What an account is charged while these are held."""
    memory = Memory()
    one = allowance(memory)
    for item in items:
        one.take({}, item)
    return memory.charged_bytes


@given(st.lists(st.tuples(st.sampled_from(["take", "give back", "let go"]), st.sampled_from(ITEMS))))
def test_counts_and_charges(steps: list[tuple[str, str]]) -> None:
    """Each item counts as often as it was taken, and is charged once, from the first time to the last."""
    memory = Memory()
    one, held = allowance(memory), dict[str, int]()
    model: Counter[str] = Counter()
    for step, item in steps:
        if step == "take":
            assert one.take(held, item) is (not model[item])
            model[item] += 1
        elif step == "give back":
            assert one.give_back(held, item) is (model[item] == 1)
            model[item] -= model[item] > 0
        elif held:
            del model[one.give_back_any(held)]
        assert held == +model
        assert memory.charged_bytes == charged(*held)


def test_longer_items_cost_more() -> None:
    """An item is charged for its text."""
    assert 0 < charged("") < charged("/a") < charged("/a/long/one") < charged("/a", "/a/long/one")


@pytest.mark.parametrize(("role", "most"), [(Role.CLIENT, 2), (Role.LINK, 3), (Role.LEAF, 3), (Role.LOCAL, None)])
def test_limits(role: Role, most: int | None) -> None:
    """Different items count, those that are held and those that are wanted; in this process there is no limit."""
    one, handler = allowance(), handler_of(role=role)
    held = {"0": 7}
    one.check(handler, held, ["0", "0", "1"])
    assert one.refused_total == 0
    wanted = [str(number) for number in range(1, 5)]
    if most is None:
        one.check(handler, held, wanted)
        return
    one.check(handler, held, wanted[: most - 1])
    with pytest.raises(RejectedError, match=f"{most + 1} prefixes, the limit for a .* is {most}") as caught:
        one.check(handler, held, wanted[:most])
    assert caught.value.code == CloseCode.NOT_ALLOWED
    assert one.refused_total == most


def test_no_memory() -> None:
    """Nothing new is taken while there is too little memory, but for subscribers in this process."""
    memory = Memory()
    memory.is_over = True
    one = allowance(memory)
    with pytest.raises(RejectedError) as caught:
        one.check(handler_of(), {}, ["/a"])
    assert caught.value.code == CloseCode.TRY_AGAIN_LATER
    assert memory.statistics().refused_total == 1
    one.check(handler_of(role=Role.LOCAL), {}, ["/a"])
