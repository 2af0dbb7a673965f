"""What somebody may do by one policy and not by another."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.policy import difference as difference_module
from hub.policy.difference import PASSED_PLACES, Difference, Differences
from hub.policy.language import read_policy
from hub.policy.policy import Action, Rights


def rights(roles: str, user: str = "alice") -> Rights:
    """What a user with the role `r` may do."""
    policy = read_policy(tomllib.loads(f"[roles.r]\n{roles}\n[users]\n{user} = ['r']"), "a test")
    return policy.rights(user)


def difference(before: Rights, after: Rights, differences: Differences | None = None) -> Difference:
    """Compare two, in as many steps as it takes."""
    steps = (differences or Differences()).of(before, after)
    while True:
        try:
            assert next(steps) <= PASSED_PLACES
        except StopIteration as end:
            found: Difference = end.value
            return found


def test_less_and_more() -> None:
    """Each path at which the two differ is named, with what is done to it."""
    before = rights('publish = ["/a", "/b"]\nsubscribe = ["*"]')
    after = rights('publish = { allow = ["/a"], deny = ["/a/x"] }\nsubscribe = ["*", "$hub/statistics"]\nclaim = ["n"]')
    found = difference(before, after)
    assert found.loses == ((Action.PUBLISH, "/a/x"), (Action.PUBLISH, "/b"))
    assert found.gains == ((Action.SUBSCRIBE, "$hub/statistics"), (Action.CLAIM, "n"))
    assert found.is_complete


def test_the_same_in_other_words() -> None:
    """What is decided counts, not how it is written."""
    before = rights('publish = ["/status/{user}", "/a"]')
    after = rights('publish = { allow = ["/status/alice", "/a", "/a/b"], deny = [] }')
    assert difference(before, after) == ((), (), True)


def test_too_many_paths() -> None:
    """They are not compared, and that is said; other actions are."""
    many = ", ".join(f'"/p/{number}"' for number in range(PASSED_PLACES))
    found = difference(rights(f'publish = [{many}]\njournal = ["/a"]'), rights("publish = []"))
    assert found.loses == ((Action.JOURNAL, "/a"),)
    assert not found.is_complete


def test_one_user_after_the_other() -> None:
    """Those with the same roles are asked at the same paths, each by his own name."""
    differences = Differences()
    for user in ("alice", "bob"):
        before, after = rights('publish = ["/status/{user}", "/alice"]', user), rights('publish = ["/bob"]', user)
        found = difference(before, after, differences)
        assert found.loses == ((Action.PUBLISH, "/alice"), (Action.PUBLISH, f"/status/{user}"))
        assert found.gains == ((Action.PUBLISH, "/bob"),)


def test_too_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes after that is not compared, and that is said."""
    monkeypatch.setattr(difference_module, "MOST_DECISIONS", 3)
    differences = Differences()
    before, after = rights('publish = ["/a", "/b"]'), rights("publish = []")
    assert difference(before, after, differences) == (
        ((Action.PUBLISH, "/a"), (Action.PUBLISH, "/b")),
        (),
        True,
    )
    assert difference(before, after, differences) == ((), (), False)


def test_many_sets_of_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are forgotten are found again."""
    monkeypatch.setattr(difference_module, "_KEPT", 1)
    before, after, differences = rights('publish = ["/a"]'), rights('claim = ["a"]'), Differences()
    for _ in range(2):
        assert difference(before, after, differences) == (((Action.PUBLISH, "/a"),), ((Action.CLAIM, "a"),), True)


_PARTS = st.sampled_from(["a", "b", "{user}", "alice"])
_PATHS = st.lists(
    st.lists(_PARTS, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts)), max_size=5, unique=True
)
_ROLES = st.builds("publish = {{ allow = {!r}, deny = {!r} }}".format, _PATHS, _PATHS)
_TOPICS = st.lists(st.sampled_from(["a", "b", "alice", "c"]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@given(_ROLES, _ROLES, st.lists(_TOPICS, min_size=20, max_size=20))
def test_nothing_is_missed(one: str, other: str, topics: list[str]) -> None:
    """Two policies differ at a topic only if a path that covers it is named as different."""
    before, after = rights(one), rights(other)
    found = difference(before, after)
    named = {path for _, path in (*found.loses, *found.gains)}
    for topic in topics:
        if before.may(Action.PUBLISH, topic) is not after.may(Action.PUBLISH, topic):
            assert any(topic == path or topic.startswith(path + "/") for path in named), (topic, named)
