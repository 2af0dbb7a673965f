"""Which topics a reader wants, against what `str.startswith` says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.journal.listing import listing
from hub.journal.wanted import Wanted
from tests.hub.fakes import nasty_texts

prefixes = st.lists(nasty_texts, min_size=1, max_size=12)
topics = nasty_texts.filter(bool)


@given(prefixes, topics)
def test_holds_what_begins_with_a_prefix(prefixes: list[str], topic: str) -> None:
    """As `startswith` with all of them."""
    assert Wanted(prefixes).holds(topic) is topic.startswith(tuple(prefixes))


@given(prefixes, st.lists(topics, min_size=1, max_size=20))
def test_marks_topics(prefixes: list[str], topics: list[str]) -> None:
    """One byte each, in their order."""
    marks = Wanted(prefixes).marks(topics)
    assert [mark != 0 for mark in marks] == [topic.startswith(tuple(prefixes)) for topic in topics]


@given(prefixes, st.lists(topics, min_size=1, max_size=100))
def test_never_passes_over_a_wanted_topic(prefixes: list[str], topics: list[str]) -> None:
    """A block that holds a wanted topic may hold one, by its listing."""
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
    """A text of a listing and a prefix agree when one begins with the other."""
    assert Wanted(prefixes).may_hold("\n".join(texts).encode()) is may


def test_all() -> None:
    """The empty prefix wants everything, whatever stands beside it."""
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
    """What lies between the first and the last of some topics may hold each of them."""
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
    """What lies outside of all prefixes is passed over."""
    assert Wanted(prefixes).may_hold_between(least, most) == may_hold
