"""What a handler may do follows from its rights and from what stands behind it, whichever of them changes last."""

from __future__ import annotations

import itertools

import pytest

from hub.delivery import Role
from hub.policy.policy import Action
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
def test_standing_of_a_role(role: Role) -> None:
    handler, is_peer = handler_of(role=role), role in {Role.LINK, Role.LEAF}
    assert handler.acts == (
        (Action.BRING, Action.BRING, Action.TAKE, Action.TAKE)
        if is_peer
        else (Action.PUBLISH, Action.REQUEST, Action.SERVE, Action.SUBSCRIBE)
    )
    assert (handler.publishes_in, handler.has_rights) == (None, False)
    assert handler.is_plain is handler.is_unbound is (not is_peer)
    handler.rights = rights = POLICY.rights("east")
    assert handler.publishes_in is (rights.brings_in if is_peer else rights.publishes_in)
    assert (handler.has_rights, handler.is_plain, handler.is_unbound) == (True, not is_peer, False)


@pytest.mark.parametrize(("user", "sees_all"), [(None, True), ("alice", False), ("bob", True)])
def test_blocks_are_for_those_who_see_everything(user: str | None, *, sees_all: bool) -> None:
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
