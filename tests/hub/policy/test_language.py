"""Policies: what a text means, the place of each mistake, names of certificates; compiled grants against naive ones."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import InvalidNameError, InvalidTopicError
from hub.policy.certificate_name import names_of, parse_certificate_name
from hub.policy.grants import EVERYTHING, NAMES, USER, Grant, Grants, User, allows_by, parse_path
from hub.policy.language import read_policy
from hub.policy.policy import Action, Policy
from hub.quotas import QuotaLimits, RateLimits, Resource, SetLimits
from hub.settings.keys import ConfigError
from tests.hub.policy.tricks import NaiveGrant, naive_allows, naive_covers

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
        ("[roles.r]\npublish = { deny = ['/a/*'] }", "roles.r.publish.deny[0]", "must be the whole path"),
        ("[roles.r]\nclaim = ['org..x']", "roles.r.claim[0]", "empty component"),
        ("[roles.r]\nadmin = 'yes'", "roles.r.admin", "'yes' given, expected true or false"),
        ("[roles.r]\nadmin = 1", "roles.r.admin", "expected true or false"),
        ("[roles.r]\nlink = ['/a']", "roles.r.link", "expected a table"),
        ("[roles.r]\nlink = { bringt = [] }", "roles.r.link.bringt", "did you mean bring?"),
        ("[roles.r]\nlink = { take = 7 }", "roles.r.link.take", "expected a list of paths"),
        ("[roles.'a b']", "roles.a b", "not a valid name of a user or role"),
        ("[roles.'']", "roles.", "not a valid name of a user or role"),
        ("[roles.r]\n[users]\nu = 'r'", "users.u", "expected a list of roles"),
        ("[roles.reader]\n[users]\nu = ['raeder']", "users.u[0]", "did you mean reader?"),
        ("[users]\nu = ['r']", "users.u[0]", "there is no role 'r'; there are admin, member, reader, peer"),
        ("[users]\n'a/b' = []", "users.a/b", "not a valid name of a user or role"),
        ("[users]\nlocal = []", "users.local", "a reserved name"),
        ("[users]\nanonymous = []", "users.anonymous", "a reserved name"),
        ("[users]\n'..' = []", "users...", "not a valid name of a user or role"),
        ("[users]\n'{user}' = []", "users.{user}", "not a valid name of a user or role"),
        ("[users]\n'*' = []", "users.*", "not a valid name of a user or role"),
        (f"[users]\n{'u' * 65} = []", "users.'" + "u" * 64, "not a valid name of a user or role"),
        ("limits = 3", "limits", "expected a table [limits]"),
        ("[limits.sensor]", "limits.sensor", "there are roles, users"),
        ("[limits]\nroles = 3", "limits.roles", "expected a table"),
        ("[limits.roles.senso]", "limits.roles.senso", "did you mean sensor?"),
        ("[limits.roles]\nsensor = 3", "limits.roles.sensor", "expected a table"),
        ('[limits.users."a b"]', "limits.users.a b", "is not a valid name of a user"),
        ("[limits.users.a]\nprefix = 3", "limits.users.a.prefix", "did you mean prefixes?"),
        ("[limits.users.a]\nprefixes = -1", "limits.users.a.prefixes", "-1 given, expected a whole number from 0"),
        ("[limits.users.a]\nprefixes = 1.5", "limits.users.a.prefixes", "1.5 given"),
        ("[limits.users.a]\nprefixes = true", "limits.users.a.prefixes", "a bool given"),
        ('[limits.users.a]\nprefixes = "3"', "limits.users.a.prefixes", "expected a whole number"),
        ("[limits.users.a]\nprefixes = 1000000000000001", "limits.users.a.prefixes", "expected a whole number"),
        (f"[limits.users.a]\nprefixes = {10**4000}", "limits.users.a.prefixes", "a int given"),
        ('[limits.users.a]\nqueued_bytes = "much"', "limits.users.a.queued_bytes", "such as '64KiB'"),
        ("[limits.users.a]\nqueued_bytes = []", "limits.users.a.queued_bytes", "a list given"),
        ("[limits.users.a]\nmessages_per_s = 0", "limits.users.a.messages_per_s", "from 1"),
        ("[limits.users.a]\nmessages_per_s = inf", "limits.users.a.messages_per_s", "inf given"),
    ],
)
def test_mistakes(text: str, place: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_policy({"roles": {"sensor": {}}} | tomllib.loads(text), "policy.toml")
    assert refused.value.source == "policy.toml"
    assert refused.value.key.startswith(place)
    assert told in refused.value.reason
    assert "\n" not in str(refused.value)


def read_limits(text: str) -> QuotaLimits:
    return read_policy(tomllib.loads("[roles.sensor]\n" + text), "policy.toml").limits


def test_limits() -> None:
    assert read_limits("") == QuotaLimits()
    keys = "\n".join(f"{resource.value} = 3" for resource in Resource)
    assert read_limits(f"""
        [limits.roles.sensor]
        connections = 2
        prefixes = 0
        bytes_per_s = "1MB"
        [limits.users.sensor-7]
        queued_bytes = "16 MiB"
        staged_bytes = 4096
        messages_per_s = 500
        [limits.users.alice]
        {keys}
    """) == QuotaLimits(
        users={
            "sensor-7": SetLimits(
                {Resource.QUEUED_BYTES: 16 * 1024 * 1024, Resource.STAGED_BYTES: 4096}, RateLimits(messages_per_s=500)
            ),
            "alice": SetLimits(dict.fromkeys(Resource, 3)),
        },
        roles={"sensor": SetLimits({Resource.CONNECTIONS: 2, Resource.PREFIXES: 0}, RateLimits(bytes_per_s=1_000_000))},
    )


def certificate(*subject: tuple[str, str], names: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    return {"subject": tuple((one,) for one in subject), "subjectAltName": names}


ALICE = certificate(
    ("countryName", "US"),
    ("organizationName", "Example, Inc."),
    ("commonName", "alice"),
    names=(("DNS", "Alice.Example.org"), ("URI", "spiffe://example.org/Alice"), ("email", "Alice@Example.org")),
)


def matches(text: str, shown: dict[str, Any]) -> bool:
    return parse_certificate_name(text) in [name for names in names_of(shown) for name in names]


MEANT = [
    *("CN=alice", "cn=alice", "commonName=alice", r"CN=alice,O=Example\, Inc.,C=US"),
    *(r"CN = alice, O = Example\, Inc., C = US", r"CN=\61lice,O=Example\2c\20Inc.,C=US"),
    *(r"CN=alice,organizationName=Example\, Inc.,countryName=US", "DNS:alice.example.org"),
    *("DNS:ALICE.example.ORG", "URI:spiffe://example.org/Alice", "email:Alice@example.ORG"),
]

NOT_MEANT = [
    *("CN=Alice", "CN=alic", "CN=alice2", r"CN=alice\20", r"CN=alice,O=Example\, Inc."),
    *(r"C=US,O=Example\, Inc.,CN=alice", r"CN=alice+O=Example\, Inc.,C=US", r"CN=alice,O=example\, inc.,C=US"),
    *("O=Example", "DNS:example.org", "DNS:*.example.org", "DNS:alice", "DNS:spiffe://example.org/Alice"),
    *("URI:alice.example.org", "URI:spiffe://example.org/alice", "email:alice@example.org"),
    *("CN=alice.example.org", "DNS:alice.example.org."),
]

SEVERAL = {"subject": ((("commonName", "a"), ("userId", "7")), (("organizationName", "É"),))}

ODD = [
    certificate(("commonName", "alice\x00.evil.example")),
    certificate(("organizationName", "CN=alice")),
    certificate(("commonName", "x,CN=alice")),
    certificate(names=(("DirName", "CN=alice"), ("IP Address", "CN=alice"))),
]


@pytest.mark.parametrize(
    ("text", "shown", "is_meant"),
    [
        *((text, ALICE, True) for text in MEANT),
        *((text, ALICE, False) for text in NOT_MEANT),
        *((text, SEVERAL, True) for text in ("O=É,CN=a+UID=7", r"O=\C3\89,UID=7+CN=a", "CN=a")),
        ("O=É,CN=a,UID=7", SEVERAL, False),
        *(("CN=alice", odd, False) for odd in ODD),
    ],
)
def test_who_is_meant(text: str, shown: dict[str, Any], *, is_meant: bool) -> None:
    assert matches(text, shown) is is_meant


values = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
types = st.sampled_from(["commonName", "organizationName", "userId", "1.2.3", "emailAddress"])
subjects = st.lists(st.lists(st.tuples(types, values), min_size=1, max_size=2).map(tuple), min_size=1, max_size=3)


@given(subjects)
def test_a_subject_as_it_is_written(subject: list[tuple[tuple[str, str], ...]]) -> None:
    shown = {"subject": tuple(subject)}
    text = names_of(shown)[0][0].text
    assert matches(text, shown)
    assert parse_certificate_name(text).text == text
    assert names_of({})[1:] == ([], [])


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        (
            "not a name of a certificate",
            ["", "alice", "CN", "=alice", "CN=a,", "CN=a,,O=b", "CN=a+", "DNS:", "/CN=alice"],
        ),
        ("the value at character 3 is empty", ["CN="]),
        ("is empty", ["CN=  "]),
        (r"needs a \ before it", ["CN=a;O=b", 'CN="a"', "CN=a\x00", "CN=a\\"]),
        ("not UTF-8", [r"CN=\ff"]),
    ],
)
def test_mistakes_in_names_of_certificates(told: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(InvalidNameError) as refused:
            parse_certificate_name(text)
        assert told in str(refused.value), text
        assert "\n" not in str(refused.value)


WORDS = ["a", "ab", "alice", "$hub"]
ROLES = ["one", "two"]
components = st.lists(st.sampled_from([*WORDS, USER]), min_size=1, max_size=3)
paths = st.one_of(st.just(EVERYTHING), components.map("/".join), components.map(lambda some: "/" + "/".join(some)))
grants_of = st.lists(st.builds(NaiveGrant, st.sampled_from(ROLES), paths, st.booleans()), max_size=8)
users = st.builds(User, st.sampled_from(["alice", "bob", "a"]), st.frozensets(st.sampled_from(ROLES)))

topics = st.one_of(
    st.lists(st.sampled_from([*WORDS, "bob", "", "?"]), min_size=1, max_size=5).map("/".join).filter(bool),
    st.text(alphabet="/ab$huc", min_size=1, max_size=10),
)


def compiled(grants: list[NaiveGrant], separator: str = "/") -> Grants:
    tree = Grants(separator)
    for grant in grants:
        tree.add(grant.role, parse_path(grant.path, separator), allowed=grant.allowed)
    return tree


def allows(tree: Grants, topic: str, user: User) -> bool:
    return tree.allows(tree.domain(topic), user)


@given(grants_of, topics, users)
def test_as_the_naive_one(grants: list[NaiveGrant], topic: str, user: User) -> None:
    tree = compiled(grants)
    assert allows(tree, topic, user) is naive_allows(grants, topic, user)
    paths = tree.paths(user, 100)  # what another process is told
    assert paths is not None
    assert allows_by(paths)(topic) is allows(tree, topic, user)
    assert tree.concerns(user) is any(allowed for _, allowed in paths)
    decisive = tree.decisive(tree.domain(topic), user)
    if decisive is None:
        assert not allows(tree, topic, user)
    else:
        assert NaiveGrant(*decisive) in grants
        assert decisive.allowed is allows(tree, topic, user)


@given(grants_of, st.one_of(st.just(""), topics), users)
@settings(deadline=None)
def test_prefixes_as_the_naive_one(grants: list[NaiveGrant], prefix: str, user: User) -> None:
    words = [*WORDS, "bob", "?", ""]
    tree = compiled(grants)
    assert tree.covers(prefix, user) is naive_covers(grants, prefix, user, words)
    denial = tree.denial_beneath(prefix, user)
    if denial is not None:
        assert NaiveGrant(*denial) in grants
        assert not tree.covers(prefix, user)


@given(grants_of, topics, topics)
def test_topics_of_one_domain_are_alike(grants: list[NaiveGrant], first: str, second: str) -> None:
    tree = compiled(grants)
    if tree.domain(first) == tree.domain(second):
        for name in ("alice", "bob", "a"):
            for roles in ([], ["one"], ["two"], ROLES):
                user = User(name, frozenset(roles))
                assert allows(tree, first, user) is allows(tree, second, user)


def test_paths_of_a_user_are_looked_for_within_bounds() -> None:
    tree = compiled(
        [NaiveGrant("two", f"/x/{number}", True) for number in range(500)] + [NaiveGrant("one", "/a/{user}/b", False)]
    )
    assert tree.paths(User("alice", frozenset(["one"])), 20) == [("/a/alice/b", False)]
    assert tree.paths(User("alice", frozenset(["two"])), 20) is None
    assert tree.paths(User("alice", frozenset()), 20) == []
    assert not tree.concerns(User("alice", frozenset(["one"])))


USER_ALICE = User("alice", frozenset(["zeek"]))


def test_everything_is_not_what_the_hub_says_of_itself() -> None:
    tree = compiled([NaiveGrant("all", EVERYTHING, True), NaiveGrant("watcher", "$hub/clients", True)])
    anyone, watcher = User("a", frozenset(["all"])), User("b", frozenset(["all", "watcher"]))
    assert tree.covers("", anyone)
    assert allows(tree, "$hubris", anyone)
    assert not allows(tree, "$hub/clients", anyone)
    assert not tree.covers("$hub/", watcher)
    assert allows(tree, "$hub/clients/joined", watcher)
    assert tree.covers("$hub/clients/", watcher)


def test_granted_beneath() -> None:
    allowed = ("/zeek", "/zeek/secret/shared", "/status/{user}", "zeek/event")
    grants = [NaiveGrant("other", "/other", True), NaiveGrant("zeek", "/zeek/secret", False)]
    tree = compiled([*grants, *(NaiveGrant("zeek", path, True) for path in allowed)])
    for prefix, found in (
        ("", ["/status/alice", "/zeek", "zeek/event"]),
        ("/st", ["/status/alice"]),
        ("/zeek/secret/", ["/zeek/secret/shared"]),
        ("/x", []),
    ):
        assert tree.granted_beneath(prefix, USER_ALICE, 8) == found
    many = compiled([NaiveGrant("zeek", f"/{number}", True) for number in range(100)])
    assert len(many.granted_beneath("", USER_ALICE, 8)) == 8


def test_names_are_cut_at_dots() -> None:
    tree = compiled([NaiveGrant("zeek", "org.example", True), NaiveGrant("zeek", "{user}.own", True)], NAMES)
    names = ("org.example", "org.example.Player", "alice.own.x", "org.examples", "org/example", "bob.own")
    assert [name for name in names if allows(tree, name, USER_ALICE)] == list(names[:3])
    for text in ("org.example.", ".org", "org..example", "org.*"):
        with pytest.raises(InvalidTopicError):
            parse_path(text, NAMES)


def test_components() -> None:
    assert parse_path(EVERYTHING).components == ()
    for text in ("/zeek", "zeek/event", "/status/{user}/x", "{user}", "$hub/clients", "/a b/ä", "/..."):
        assert parse_path(text).components == tuple(text.split("/"))


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        ("write '*'", ["", "/", "//"]),
        ("write '/zeek'", ["/zeek/", "/zeek//"]),
        ("empty component", ["/zeek//dns", "//zeek"]),
        ("nothing special", ["/a/../b", "/a/./b", ".."]),
        ("must be the whole path", ["/*", "/zeek/*", "/zeek/d*", "**"]),
        ("as a whole one", ["/a/{user}s", "/a/{User}", "/a/{name}", "/a/{", "/a/user}", "/a/{{user}}"]),
        ("U+000A", ["/a\nb"]),
        ("U+0000", ["/a\0b"]),
        ("U+007F", ["/a\x7f"]),
        ("1024", ["/" + "a" * 1024]),
        ("U+D800", ["/\ud800"]),
    ],
)
def test_what_would_not_mean_what_it_seems_to(told: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(InvalidTopicError) as refused:
            parse_path(text)
        assert told in str(refused.value), text
