"""Who gets what: every cell of the tables in `hub.delivery`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hub.delivery import Delivery, Role, receivers, without_links
from hub.handler import Handler
from tests.hub.fakes import handler_of

CLIENT, LOCAL, LEAF, LINK = Role.CLIENT, Role.LOCAL, Role.LEAF, Role.LINK


def who_gets(source: Handler, *others: Handler) -> tuple[Handler, ...]:
    wanting = (source, *others)
    if source.is_plain:
        return wanting
    return without_links(wanting) if source.is_link else receivers(source, wanting)


@pytest.mark.parametrize(
    ("role", "received"),
    [
        (CLIENT, {"itself", CLIENT, LOCAL, LEAF, LINK}),
        (LOCAL, {"itself", CLIENT, LOCAL, LEAF, LINK}),
        (LEAF, {CLIENT, LOCAL, LEAF, LINK}),
        (LINK, {CLIENT, LOCAL, LEAF}),
    ],
)
def test_who_gets_what_is_published(role: Role, received: set[Role | str]) -> None:
    source = handler_of(role=role)
    others = [handler_of(role=other) for other in Role]
    got = {"itself" if one is source else one.role for one in who_gets(source, *others)}
    assert got == received


def test_without_links_is_the_same_tuple_where_there_is_none() -> None:
    wanting = (handler_of(), handler_of(role=LEAF))
    assert without_links(wanting) is wanting


@pytest.mark.parametrize("role", Role)
def test_topics_of_the_hub(role: Role) -> None:
    is_near = role in {CLIENT, LOCAL}
    handler = handler_of(role=role)
    assert handler.delivery.hears_of_hub([""]) is is_near
    handler.restrict(hub=False)
    assert not handler.delivery.hears_of_hub(["", "$h"])
    assert handler.delivery.hears_of_hub(["", "$hub/client/"]) is is_near


@pytest.mark.parametrize(
    ("asks", "never"), [(Delivery.asks_links, LINK), (Delivery.asks_leaves, LEAF)], ids=["links", "leaves"]
)
def test_who_is_asked(asks: Callable[[Delivery, str], bool], never: Role) -> None:
    for role in Role:
        assert asks(Delivery.of(role), "/a") is asks(Delivery.of(role), "") is (role is not never)
        assert not asks(Delivery.of(role), "$hub/x")


def test_shared_memory_is_taken_where_that_was_said() -> None:
    handler = handler_of()
    handler.restrict(itself=False)
    assert not handler.delivery.takes_shared
    handler.take_shared()
    assert handler.delivery == Delivery(CLIENT, hears_itself=False, takes_shared=True, takes_blocks=True)
