"""Listings of topics: short, and never without a text that a topic begins with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.listing import LISTED_LIMIT, listed_texts, listing

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
    """However many there are, there are few texts, each of them once and in order."""
    texts = listed_texts(listing(topics))
    assert len(texts) <= LISTED_LIMIT
    assert texts == sorted(set(texts))
    assert all(topic.startswith(tuple(texts)) for topic in topics)


def test_what_is_no_text_is_none() -> None:
    """It is told as damage."""
    with pytest.raises(JournalCorruptError, match="no text"):
        listed_texts(b"/a\n\xff")


def test_few_topics_are_listed_as_they_are() -> None:
    """Up to the limit nothing is cut."""
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
