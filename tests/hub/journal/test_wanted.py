"""Which topics a reader wants, against what `str.startswith` says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.wanted import LISTED_LIMIT, Wanted, listed_texts, listing
from tests.hub.fakes import nasty_texts

prefixes = st.lists(nasty_texts, min_size=1, max_size=12)
topics = nasty_texts.filter(bool)


@given(prefixes, topics)
def test_holds_what_begins_with_a_prefix(prefixes: list[str], topic: str) -> None:
    assert Wanted(prefixes).holds(topic) is topic.startswith(tuple(prefixes))


@given(prefixes, st.lists(topics, min_size=1, max_size=20))
def test_marks_topics(prefixes: list[str], topics: list[str]) -> None:
    marks = Wanted(prefixes).marks(topics)
    assert [mark != 0 for mark in marks] == [topic.startswith(tuple(prefixes)) for topic in topics]


@given(prefixes, st.lists(topics, min_size=1, max_size=100))
def test_never_passes_over_a_wanted_topic(prefixes: list[str], topics: list[str]) -> None:
    wanted = Wanted(prefixes)
    if any(wanted.marks(topics)):
        assert wanted.may_hold(listing(topics))


@pytest.mark.parametrize(
    ("prefixes", "texts", "may"),
    [
        (["/zeek/"], ["/app/a"], False),
        (["/zeek/"], ["/zeek"], True),
        (["/zeek/"], ["/zeek/dns"], True),
        (["/zeek/dns/x"], ["/zeek/dns"], True),
        (["/zeek/dns"], ["/zeek/conn", "/zeek/ssl"], False),
        (["/a", "/z"], ["/b", "/y"], False),
        (["/a"], [""], True),
        ([""], ["/b"], True),
    ],
)
def test_passes_over_what_cannot_be_wanted(prefixes: list[str], texts: list[str], *, may: bool) -> None:
    assert Wanted(prefixes).may_hold("\n".join(texts).encode()) is may


def test_all() -> None:
    assert Wanted(["/b", "", "/a"]).is_all
    assert not Wanted(["/"]).is_all
    assert Wanted([""]).marks(["/a", "b"]) == b"\1\1"


def test_what_is_not_granted_is_not_wanted() -> None:
    """Whatever it begins with; of blocks nothing is known, so that none is passed over for it."""
    wanted = Wanted([""], lambda topic: topic == "/a/b")
    assert not wanted.is_all
    assert wanted.holds("/a/b")
    assert wanted.marks(["/a", "/a/b", "/a/bc"]) == b"\0\1\0"
    assert wanted.may_hold(b"/a")
    assert not Wanted(["/x"], lambda _: True).may_hold(b"/a")
    assert not Wanted(["/x"], lambda _: True).holds("/a/b")


@given(st.lists(st.text("/ab", max_size=4), min_size=1), st.lists(st.text("/ab", max_size=5), min_size=1))
def test_a_range_of_topics_is_passed_over_only_if_none_in_it_is_wanted(prefixes: list[str], topics: list[str]) -> None:
    wanted = Wanted(prefixes)
    if any(wanted.holds(topic) for topic in topics):
        assert wanted.may_hold_between(min(topics), max(topics))


@pytest.mark.parametrize(
    ("prefixes", "least", "most", "may_hold"),
    [
        (["/b"], "/a", "/c", True),
        (["/b"], "/b/x", "/b/y", True),
        (["/b"], "/c", "/d", False),
        (["/b/z"], "/b/x", "/b/y", False),
        (["/a", "/e"], "/b", "/d", False),
        ([""], "/b", "/d", True),
    ],
)
def test_ranges_of_topics(prefixes: list[str], least: str, most: str, *, may_hold: bool) -> None:
    assert Wanted(prefixes).may_hold_between(least, most) == may_hold


# Listings of topics: short, and never without a text that a topic begins with.


components = st.sampled_from(("", "a", "b", "ab", "é", "zeek", "x" * 40))
topics = st.lists(components, min_size=1, max_size=7).map("/".join).filter(bool)
many_topics = st.one_of(
    st.lists(topics, min_size=1, max_size=20),
    st.builds(
        lambda few, count, depth: [*few, *(f"{'/r' * depth}/{number % 3}/{number}" for number in range(count))],
        st.lists(topics, max_size=5),
        st.integers(1, 300),
        st.integers(0, 5),
    ),
)


@given(many_topics)
def test_each_topic_begins_with_a_text(topics: list[str]) -> None:
    texts = listed_texts(listing(topics))
    assert len(texts) <= LISTED_LIMIT
    assert texts == sorted(set(texts))
    assert all(topic.startswith(tuple(texts)) for topic in topics)


def test_what_is_no_text_is_none() -> None:
    with pytest.raises(JournalCorruptError, match="no text"):
        listed_texts(b"/a\n\xff")


def test_few_topics_are_listed_as_they_are() -> None:
    topics = [f"/zeek/{number:02}" for number in range(LISTED_LIMIT)]
    assert listed_texts(listing(topics)) == topics
    assert listed_texts(listing([*topics, "/zeek/more"])) == ["/zeek"]


@pytest.mark.parametrize(
    ("topics", "texts"),
    [
        ([f"/a/{number}/x" for number in range(10)] + [f"/b/c/{number}" for number in range(60)], 11),
        ([f"/a/{number // 30}/{number}" for number in range(300)], 10),
        ([f"{number}" for number in range(65)], 1),
        ([f"{number}/x" for number in range(65)], 1),
    ],
)
def test_as_many_components_are_left_as_fit(topics: list[str], texts: int) -> None:
    """The longest that leave few enough texts; where even the first are too many, one empty text."""
    found = listed_texts(listing(topics))
    assert len(found) == texts
    assert texts > 1 or found == [""]


def test_deep_topics_are_cut_by_halving() -> None:
    """The most that a block may hold, of the greatest length and as deep as can be, is no more than a few looks."""
    tail = "/".join("abcdefgh"[number % 8] for number in range(500))
    topics = [f"{number:04}/{tail}" for number in range(8192)]
    assert listing(topics) == b""
    deep = [f"{tail}/{number:04}" for number in range(8192)]
    assert listing(deep) == tail.encode()
