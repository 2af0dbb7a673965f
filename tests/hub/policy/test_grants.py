"""The compiled grants against naive ones, and what a path of a grant may look like."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import InvalidTopicError
from hub.policy.grants import EVERYTHING, NAMES, USER, Grants, User, allows_by, parse_path
from tests.hub.policy.tricks import NaiveGrant, naive_allows, naive_covers

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


ALICE = User("alice", frozenset(["zeek"]))


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
        assert tree.granted_beneath(prefix, ALICE, 8) == found
    many = compiled([NaiveGrant("zeek", f"/{number}", True) for number in range(100)])
    assert len(many.granted_beneath("", ALICE, 8)) == 8


def test_names_are_cut_at_dots() -> None:
    tree = compiled([NaiveGrant("zeek", "org.example", True), NaiveGrant("zeek", "{user}.own", True)], NAMES)
    names = ("org.example", "org.example.Player", "alice.own.x", "org.examples", "org/example", "bob.own")
    assert [name for name in names if allows(tree, name, ALICE)] == list(names[:3])
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
