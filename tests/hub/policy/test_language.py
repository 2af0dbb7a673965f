"""Reading a policy: what it means, and that each mistake is one error that names the place."""

from __future__ import annotations

import tomllib

import pytest

from hub.policy.grants import Grant
from hub.policy.language import read_policy
from hub.policy.policy import Action, Policy
from hub.settings.config import ConfigError

POLICY = """
[roles.sensor]
publish = ["/zeek", "/status/{user}"]
subscribe = ["/control/{user}"]

[roles.analyst]
subscribe = { allow = ["/zeek"], deny = ["/zeek/secret"] }
request = ["/search"]
claim = ["org.example"]
journal = ["/zeek"]

[roles.search]
serve = ["/search"]

[roles.site]
link = { bring = { allow = ["*"], deny = ["/local"] }, take = ["/control"] }

[roles.operator]
admin = true

[users]
alice = ["analyst", "operator"]
bob = []
sensor-7 = ["sensor"]
"""


def read(text: str) -> Policy:
    return read_policy(tomllib.loads(text), "policy.toml")


def test_rights() -> None:
    policy = read(POLICY)
    alice, bob, sensor = (policy.rights(name) for name in ("alice", "bob", "sensor-7"))
    assert alice.may_all(Action.SUBSCRIBE, "/zeek/dns")
    assert not alice.may_all(Action.SUBSCRIBE, "/zeek/")
    assert alice.may(Action.CLAIM, "org.example.Player")
    assert alice.may(Action.REQUEST, "/search/x")
    assert not alice.may(Action.SERVE, "/search/x")
    assert not alice.may(Action.PUBLISH, "/zeek")
    assert alice.is_admin
    assert not bob.is_admin
    assert not any(bob.may(action, topic) for action in Action for topic in ("/zeek", "/search", "org.example"))
    assert sensor.may(Action.PUBLISH, "/status/sensor-7/up")
    assert not sensor.may(Action.PUBLISH, "/status/sensor-8/up")
    assert sensor.grant(Action.PUBLISH, "/zeek/dns") == Grant("sensor", "/zeek", allowed=True)
    assert sensor.grant(Action.PUBLISH, "/x") is None
    assert sensor.granted(Action.PUBLISH, "/") == ["/status/sensor-7", "/zeek"]


def test_roles_that_somebody_vouches_for() -> None:
    policy = read(POLICY)
    guest = policy.rights("guest", ["site", "unknown"])
    assert guest.user.roles == {"site"}
    assert guest.may(Action.BRING, "/zeek")
    assert not guest.may(Action.BRING, "/local/x")
    assert guest.may(Action.TAKE, "/control/x")
    assert policy.rights("sensor-7", ["site"]).user.roles == {"site", "sensor"}
    assert "guest" not in policy
    assert "bob" in policy


def test_built_in_roles() -> None:
    policy = read("")
    admin, member, reader, peer = (policy.rights("u", [role]) for role in ("admin", "member", "reader", "peer"))
    assert all(admin.may_all(action, prefix) for action in Action for prefix in ("", "$hub/", "/a"))
    assert (admin.is_admin, member.is_admin, reader.is_admin) == (True, False, False)
    assert {action for action in Action if member.may_all(action, "")} == set(Action) - {Action.BRING, Action.TAKE}
    assert {action for action in Action if reader.may_all(action, "")} == {Action.SUBSCRIBE, Action.JOURNAL}
    assert {action for action in Action if peer.may_all(action, "")} == {Action.BRING, Action.TAKE}
    assert (peer.may_link, member.may_link) == (True, False)
    assert not any(
        who.may(action, "$hub/x") for who in (member, reader, peer) for action in set(Action) - {Action.CLAIM}
    )


def test_built_in_roles_give_way() -> None:
    rights = read("[roles.reader]\nsubscribe = ['/a']").rights("u", ["reader"])
    assert rights.may_all(Action.SUBSCRIBE, "/a/")
    assert not rights.may_all(Action.SUBSCRIBE, "/b/")


def test_an_empty_policy() -> None:
    policy = read("")
    assert not policy.rights("anonymous").may(Action.PUBLISH, "/x")
    assert policy.roles == {"admin", "member", "peer", "reader"}


def test_what_was_decided_for_a_domain() -> None:
    policy = read(POLICY)
    domain = policy.domain(Action.PUBLISH, "/status/sensor-7/x")
    assert policy.rights("sensor-7").may_by(Action.PUBLISH, domain)
    assert not policy.rights("alice").may_by(Action.PUBLISH, domain)
    assert policy.domain(Action.PUBLISH, "/status/sensor-7/y") == domain


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("role = 1", "role", "did you mean roles?"),
        ("xyz = 1", "xyz", "there are roles, users, certificates, unix, limits"),
        ("roles = 1", "roles", "a int given, expected a table"),
        ("users = []", "users", "a list given, expected a table"),
        ("[roles]\nr = 1", "roles.r", "expected a table"),
        ("[roles.r]\npublsh = []", "roles.r.publsh", "did you mean publish?"),
        ("[roles.r]\nbring = []", "roles.r.bring", "unknown key in [roles.r]"),
        ("[roles.r]\npublish = '/a'", "roles.r.publish", "'/a' given, expected a list of paths"),
        ("[roles.r]\npublish = [1]", "roles.r.publish", "expected a list of paths"),
        ("[roles.r]\npublish = ['/a', '/b/']", "roles.r.publish[1]", "write '/b'"),
        ("[roles.r]\npublish = { alow = [] }", "roles.r.publish.alow", "did you mean allow?"),
        ("[roles.r]\npublish = { allow = '/a' }", "roles.r.publish.allow", "expected a list of paths"),
        ("[roles.r]\npublish = { deny = ['/a/*'] }", "roles.r.publish.deny[0]", "stands alone"),
        ("[roles.r]\nclaim = ['org..x']", "roles.r.claim[0]", "empty component"),
        ("[roles.r]\nadmin = 'yes'", "roles.r.admin", "'yes' given, expected true or false"),
        ("[roles.r]\nadmin = 1", "roles.r.admin", "expected true or false"),
        ("[roles.r]\nlink = ['/a']", "roles.r.link", "expected a table"),
        ("[roles.r]\nlink = { bringt = [] }", "roles.r.link.bringt", "did you mean bring?"),
        ("[roles.r]\nlink = { take = 7 }", "roles.r.link.take", "expected a list of paths"),
        ("[roles.'a b']", "roles.a b", "no name of a user or role"),
        ("[roles.'']", "roles.", "no name of a user or role"),
        ("[roles.r]\n[users]\nu = 'r'", "users.u", "expected a list of roles"),
        ("[roles.reader]\n[users]\nu = ['raeder']", "users.u[0]", "did you mean reader?"),
        ("[users]\nu = ['r']", "users.u[0]", "there is no role 'r'; there are admin, member, reader, peer"),
        ("[users]\n'a/b' = []", "users.a/b", "no name of a user or role"),
        ("[users]\nlocal = []", "users.local", "a name that the hub gives itself"),
        ("[users]\nanonymous = []", "users.anonymous", "a name that the hub gives itself"),
        ("[users]\n'..' = []", "users...", "no name of a user or role"),
        ("[users]\n'{user}' = []", "users.{user}", "no name of a user or role"),
        ("[users]\n'*' = []", "users.*", "no name of a user or role"),
        (f"[users]\n{'u' * 65} = []", "users.'" + "u" * 64, "no name of a user or role"),
    ],
)
def test_mistakes(text: str, place: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(text)
    assert refused.value.source == "policy.toml"
    assert refused.value.key.startswith(place)
    assert told in refused.value.reason
    assert "\n" not in str(refused.value)


def test_every_line_broken() -> None:
    lines = POLICY.splitlines()
    for number, line in enumerate(lines):
        if line:
            broken = "\n".join(
                [*lines[:number], line.replace("=", "= 0 #").replace("[roles", "[rules"), *lines[number + 1 :]]
            )
            if broken != "\n".join(lines) and line != "[users]":
                with pytest.raises(ConfigError):
                    read(broken)
