"""Requests, services and names with rights: one answer that says what is not granted, and nothing else happens."""

from __future__ import annotations

import pytest

from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.mesh.announcement import Announcement
from hub.names.claim import Announced, Wish
from hub.policy.policy import DECIDED_LIMIT
from hub.request_frame import FLAG_NAMED, Status
from tests.hub.fakes import at_once
from tests.hub.requests.party import answers, request
from tests.hub.rights.hall import Guest, Hall

POLICY = """
[roles.user]
request = { allow = ["/search", "$hub/names", "org.example.Printer"], deny = ["/search/admin"] }

[roles.server]
serve = { allow = ["/search"], deny = ["/search/admin"] }
claim = { allow = ["org.example"], deny = ["org.example.Root"] }

[roles.site]
claim = ["org.site"]
link = { bring = ["/search", "org.example.Printer"], take = { allow = ["/far"], deny = ["/far/secret"] } }

[users]
alice = ["user"]
bob = ["server"]
east = ["site"]
"""


def serving(hall: Hall, user: str | None, *prefixes: str, role: Role = Role.CLIENT) -> Guest:
    guest = hall.join(user, role=role)
    at_once(hall.core.requests.serving(guest.handler, list(prefixes)))
    return guest


def ask(guest: Guest, target: str, *values: object, flags: int = 0, first: int = 1) -> list[tuple[int, int, object]]:
    poster = guest.outlet
    guest.hall.core.requests.ask(guest.handler, request(target, first, *(values or (1,)), flags=flags), 0)
    guest.hall.core.flush()
    return answers(poster.take())


@pytest.mark.parametrize(
    ("target", "flags"),
    [
        ("/searching", 0),
        ("/search/admin", 0),
        ("/search/admin/x", 0),
        ("/other", 0),
        ("$hub/users", 0),
        ("$hub/namesx", 0),
        ("", 0),
        ("org.example.Root", FLAG_NAMED),
        ("org.example", FLAG_NAMED),
    ],
)
def test_what_is_not_granted_is_answered(target: str, flags: int) -> None:
    hall = Hall(POLICY)
    alice, service = hall.join("alice"), serving(hall, None, "/search", "/other")
    hall.core.names.claim(service.handler, Wish("org.example.Root"), 1)
    text = f"request {target!r}: not granted to user 'alice'"
    audit: list[tuple[object, ...]] = []
    hall.core.requests.on_not_allowed = lambda *what: audit.append(what)
    for values in ((1,), (1, 2, 3)):
        told = ask(alice, target, *values, flags=flags)
        assert told == [(1 + place, Status.NOT_ALLOWED, text) for place in range(len(values))]
    assert audit == [(alice.handler, text, 1), (alice.handler, text, 3)]
    assert service.outlet.take() == []
    assert hall.core.requests.statistics().pending == 0


def test_the_hub_itself_is_asked_by_grant() -> None:
    hall = Hall(POLICY)
    assert ask(hall.join("alice"), "$hub/names", {})[0][1] == Status.OK
    assert ask(hall.join("bob"), "$hub/names", {})[0][1] == Status.NOT_ALLOWED
    assert ask(hall.join(None), "$hub/names", {})[0][1] == Status.OK


def test_targets_that_are_no_text() -> None:
    hall = Hall('[roles.a]\nrequest = ["*"]\n[users]\nalice = ["a"]')
    alice = hall.join("alice")
    hall.core.requests.ask(alice.handler, request("/x", 1, 1)._replace(target=b"\xff/x"), 0)
    hall.core.flush()
    assert [status for _, status, _ in answers(alice.outlet.take())] == [Status.NOT_ALLOWED]


def test_what_may_be_asked_is_remembered_within_bounds() -> None:
    hall = Hall(POLICY)
    alice = hall.join("alice")
    for number in range(DECIDED_LIMIT + 10):
        ask(alice, f"/search/{number}", first=number)
        ask(alice, f"/other/{number}", first=number)
    rights = alice.handler.rights
    assert rights is not None
    assert len(rights.asks) == 10
    authority = hall.core.authority
    policy = authority.policy
    for other in (None, policy, None):  # it counts for the hub, and goes on with another policy, or the same again
        assert authority.forgotten_total == 1
        authority.adopt(other)
    assert authority.forgotten_total == 1


@pytest.mark.parametrize(
    ("target", "flags", "passes"),
    [
        ("/search/x", 0, True),
        ("/far/x", 0, False),
        ("org.example.Printer", FLAG_NAMED, True),
        ("org.example.Other", FLAG_NAMED, False),
    ],
)
def test_what_a_peer_hub_brings(target: str, flags: int, passes: bool) -> None:  # noqa: FBT001 -- a case
    hall = Hall(POLICY)
    link, service = hall.join("east", role=Role.LINK), serving(hall, None, "/")
    for name in ("org.example.Printer", "org.example.Other"):
        hall.core.names.claim(service.handler, Wish(name), 1)
    told = ask(link, target, flags=flags)
    assert [status for _, status, _ in told] == ([] if passes else [Status.NOT_ALLOWED])
    assert len(service.outlet.take()) == passes


# Services.


def test_who_leaves_while_what_it_serves_is_checked() -> None:
    hall = Hall(POLICY)
    bob = hall.join("bob")
    steps = hall.core.requests.serving(bob.handler, [f"/search/x/{number}" for number in range(20)])
    next(steps)
    hall.core.detach(bob.handler, "gone")
    at_once(steps)
    assert hall.core.requests.statistics().services == 0


def test_who_is_given_other_rights_while_what_it_serves_is_checked() -> None:
    hall = Hall(POLICY)
    bob = hall.join("bob")
    steps = hall.core.requests.serving(bob.handler, [f"/search/x/{number}" for number in range(20)])
    next(steps)
    bob.handler.rights = hall.policy.rights("alice")
    with pytest.raises(RejectedError, match="not granted to user 'alice'"):
        at_once(steps)
    assert hall.core.requests.statistics().services == 0


# Names.


@pytest.mark.parametrize(
    "name", ["org.other", "org.examples.A", "org.example.Root", "org.example.Root.x", "com.example"]
)
def test_names_that_are_not_granted(name: str) -> None:
    hall = Hall(POLICY)
    bob, owner = hall.join("bob"), hall.join(None)
    text = f"claim {name!r}: not granted to user 'bob'"
    for number, wish in enumerate((Wish(name), Wish(name, queue=True))):
        with pytest.raises(RejectedError) as refused:
            hall.core.names.claim(bob.handler, wish, 1)
        assert (refused.value.code, refused.value.text) == (CloseCode.NOT_ALLOWED, text)
        assert hall.core.names.statistics().refused_total == number + 1
        if not number:
            hall.core.names.claim(owner.handler, Wish(name), 1)
    assert hall.core.names.statistics().waiting == 0


def test_names_that_a_hub_of_the_mesh_announces() -> None:
    hall = Hall(POLICY)
    link = hall.join("east", role=Role.LINK)
    core, east, beyond = hall.core, b"east" * 4, b"west" * 4
    core.link(link.handler, east, lambda: None)
    names = ("org.site.a", "org.example.A", "org.site.b")
    for hub, mark in ((east, "x"), (beyond, "y")):
        announced = tuple(Announced(name + mark, (), 1, 1) for name in names)
        core.mesh.hear(link.handler, Announcement(hub, 0, 1, "", ((core.mesh.hub, 1),), announced))
    core.flush()
    register = core.names.register
    assert [register.owner(name + "x") is not None for name in names] == [True, False, True]
    assert [register.owner(name + "y") is not None for name in names] == [True, False, True]
    assert core.names.statistics().unheard_total == 2
