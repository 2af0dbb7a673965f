"""What a handler may do follows from its rights and from what stands behind it, whichever of them changes last."""

from __future__ import annotations

import itertools

import pytest

from hub.delivery import Delivery, Role
from hub.policy.policy import Action
from hub.standing import Standing
from tests.hub.fakes import handler_of
from tests.hub.rights.hall import policy_of

POLICY = policy_of("""
[roles.some]
publish = ["/a"]
subscribe = ["/a"]

[roles.all]
subscribe = ["*"]

[roles.site]
link = { bring = ["/a"], take = ["*"] }

[users]
alice = ["some"]
bob = ["all"]
east = ["site"]
""")


@pytest.mark.parametrize("role", Role)
def test_what_it_does(role: Role) -> None:
    """Peers act for others who stand behind them, all others in their own name."""
    acts = Standing.of(Delivery.of(role), None).acts
    if role in {Role.LINK, Role.LEAF}:
        assert acts == (Action.BRING, Action.BRING, Action.TAKE, Action.TAKE)
    else:
        assert acts == (Action.PUBLISH, Action.REQUEST, Action.SERVE, Action.SUBSCRIBE)


def test_without_rights_all_is_granted() -> None:
    """Nothing is looked at, unless not everybody gets what it publishes."""
    client = Standing.of(Delivery.of(Role.CLIENT), None)
    assert (client.publishes_in, client.has_rights, client.is_plain, client.is_unbound) == (None, False, True, True)
    leaf = Standing.of(Delivery.of(Role.LEAF), None)
    assert (leaf.has_rights, leaf.is_plain, leaf.is_unbound) == (False, False, False)


def test_with_rights_the_domains_are_those_of_what_it_does() -> None:
    """A peer brings what others publish, and has a set of its own for that."""
    rights = POLICY.rights("east")
    client, link = (Standing.of(Delivery.of(role), rights) for role in (Role.CLIENT, Role.LINK))
    assert client.publishes_in is rights.publishes_in
    assert link.publishes_in is rights.brings_in
    assert (client.has_rights, client.is_unbound, link.is_unbound) == (True, False, False)


@pytest.mark.parametrize(("user", "sees_all"), [(None, True), ("alice", False), ("bob", True)])
def test_blocks_are_for_those_who_see_everything(user: str | None, *, sees_all: bool) -> None:
    """In whatever order rights, shared memory and restrictions come."""
    rights = None if user is None else POLICY.rights(user)
    for order in itertools.permutations(range(3)):
        handler = handler_of(role=Role.CLIENT)
        for step in order:
            if step == 0:
                handler.rights = rights
            elif step == 1:
                handler.take_shared()
            else:
                handler.restrict(hub=False)
        assert handler.delivery.takes_shared
        assert handler.delivery.takes_blocks is sees_all
        assert not handler.delivery.hears_hub
        assert handler.is_unbound is (rights is None)
