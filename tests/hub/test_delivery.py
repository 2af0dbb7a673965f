"""Who gets what: every cell of the tables in `hub.handlers.delivery`, and what the hub tells of itself."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from hub.handlers.delivery import Delivery, Role, receivers, without_links
from hub.mesh.graph import GraphChange
from hub.messages.batch import Batch
from hub.policy.policy import Action
from hub.statistics.events import MESH_SHOWN, Event, mesh_changed
from tests.hub.fakes import Turn, handler_of, values_of
from tests.hub.rights.hall import policy_of

CLIENT, LOCAL, LEAF, LINK = Role.CLIENT, Role.LOCAL, Role.LEAF, Role.LINK


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
    wanting = (source, *(handler_of(role=other) for other in Role))
    assert source.is_plain is (role in {CLIENT, LOCAL}), "plain ones get all that they want"
    who_gets = without_links(wanting) if source.is_link else receivers(source, wanting)
    got = wanting if source.is_plain else who_gets
    assert {"itself" if one is source else one.role for one in got} == received


@pytest.mark.parametrize("role", Role)
def test_topics_of_the_hub(role: Role) -> None:
    is_near = role in {CLIENT, LOCAL}
    handler, asks = handler_of(role=role), Delivery.of(role)
    assert handler.delivery.hears_of_hub([""]) is is_near
    handler.restrict(hub=False)
    assert not handler.delivery.hears_of_hub(["", "$h"])
    assert handler.delivery.hears_of_hub(["", "$hub/client/"]) is is_near
    assert not asks.asks_leaves("$store/s/changes/")
    for ask, never in ((asks.asks_links, LINK), (asks.asks_leaves, LEAF)):
        assert [ask(prefix) for prefix in ("/a", "", "$hub/x")] == [role is not never] * 2 + [False]


def test_shared_memory_is_taken_where_that_was_said() -> None:
    handler = handler_of()
    handler.restrict(itself=False)
    assert not handler.delivery.takes_shared
    handler.take_shared()
    assert handler.delivery == Delivery(CLIENT, hears_itself=False, takes_shared=True, takes_blocks=True)


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


def test_whoever_is_not_meant_to_hear_the_hub() -> None:
    turn = Turn()
    deaf, outlet = turn.join("")
    deaf.restrict(hub=False)
    assert not turn.core.system_events.is_wanted("$hub/overflow")
    turn.join("/a", name="new")
    assert (turn.wakes, turn.core.routes.table) == (0, {}), "nobody pays for events that nobody wants"
    turn.core.flush()
    assert outlet.values == []
    turn.core.subscribe(deaf, ["$hub/client/"])
    assert turn.core.system_events.is_wanted("$hub/client/joined")
    turn.join(name="newer")
    turn.core.flush()
    assert [value["name"] for value in outlet.values] == ["newer"]


def test_the_mesh_has_changed() -> None:
    a, b = b"a" * 16, b"b" * 16
    event = mesh_changed(GraphChange((b,), (), ((a, b, 3),), ()), {a: "here", b: "there"})
    here, there = {"hub": a.hex(), "name": "here"}, {"hub": b.hex(), "name": "there"}
    linked = [{"between": [here, there], "cost": 3}]
    fields: dict[str, Any] = {"appeared": [there], "forgotten": [], "linked": linked, "cut": [], "left_out": 0}
    assert event == Event("$hub/mesh", fields)
    many = [number.to_bytes(16, "big") for number in range(MESH_SHOWN + 5)]
    gone = mesh_changed(GraphChange((), tuple(many), (), tuple((hub, b) for hub in many)), {b: "there"})
    assert gone.value["forgotten"] == [{"hub": hub.hex(), "name": ""} for hub in many[:MESH_SHOWN]]
    assert [cut["between"][1] for cut in gone.value["cut"]] == [there] * MESH_SHOWN
    assert gone.value["left_out"] == 10
    assert values_of([Batch.of(gone.topic, [gone.value])]) == [gone.value]
