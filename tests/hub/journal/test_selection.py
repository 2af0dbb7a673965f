"""Which topics a reader wants, against what `str.startswith` says; and the manifest of a tier."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.manifest import Entry, Hole, Manifest, encode_manifest, parse_manifest, range_name, range_of
from hub.journal.selection import LISTED_LIMIT, Selection, counted_in_short, listed_texts, listing
from tests.hub.fakes import nasty_texts

prefixes = st.lists(nasty_texts, min_size=1, max_size=12)
topics = nasty_texts.filter(bool)


@given(prefixes, st.lists(topics, min_size=1, max_size=100))
def test_marks_what_begins_with_a_prefix(prefixes: list[str], topics: list[str]) -> None:
    """And no topic that is wanted is passed over with its block, or with the range of its file."""
    wanted, begin = Selection(prefixes), [topic.startswith(tuple(prefixes)) for topic in topics]
    assert [mark != 0 for mark in wanted.marks(topics)] == begin
    assert [wanted.holds(topic) for topic in topics] == begin
    if any(begin):
        assert wanted.may_hold(listing(topics))
        assert wanted.may_hold_between(min(topics), max(topics))


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
    assert Selection(prefixes).may_hold("\n".join(texts).encode()) is may


def test_what_is_not_granted_is_not_wanted() -> None:
    """Whatever it begins with; of blocks nothing is known, so that none is passed over for it."""
    wanted = Selection([""], lambda topic: topic == "/a/b")
    assert not wanted.is_all
    assert wanted.holds("/a/b")
    assert wanted.marks(["/a", "/a/b", "/a/bc"]) == b"\0\1\0"
    assert wanted.may_hold(b"/a")
    assert not Selection(["/x"], lambda _: True).may_hold(b"/a")
    assert not Selection(["/x"], lambda _: True).holds("/a/b")


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
    assert Selection(prefixes).may_hold_between(least, most) == may_hold


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


TWO_DEEP = [f"/zeek/{number:02}" for number in range(LISTED_LIMIT + 1)]


def test_what_is_no_text_is_none() -> None:
    with pytest.raises(JournalCorruptError, match="not text"):
        listed_texts(b"/a\n\xff")


@pytest.mark.parametrize(
    ("topics", "texts"),
    [
        (TWO_DEEP[:-1], TWO_DEEP[:-1]),
        (TWO_DEEP, ["/zeek"]),
        (
            [f"/a/{number}/x" for number in range(10)] + [f"/b/c/{number}" for number in range(60)],
            [*(f"/a/{number}" for number in range(10)), "/b/c"],
        ),
        ([f"/a/{number // 30}/{number}" for number in range(300)], [f"/a/{number}" for number in range(10)]),
        ([f"{number}" for number in range(65)], [""]),
        ([f"{number}/x" for number in range(65)], [""]),
    ],
)
def test_as_many_components_are_left_as_fit(topics: list[str], texts: list[str]) -> None:
    """The longest that leave few enough texts; where even the first are too many, one empty text."""
    assert listed_texts(listing(topics)) == texts


@pytest.mark.parametrize("topics", [TWO_DEEP[:-1], TWO_DEEP])
def test_messages_are_counted_by_the_texts_of_the_listing(topics: list[str]) -> None:
    counts, is_whole = counted_in_short(Counter(topics) + Counter(topics[:3]))
    assert is_whole is (len(topics) <= LISTED_LIMIT)
    assert [text for text, _ in counts] == listed_texts(listing(topics))
    assert sum(count for _, count in counts) == len(topics) + 3


def test_more_listings_than_are_remembered_are_answered_all_the_same() -> None:
    wanted = Selection(["/a/1"])
    for _ in range(2):
        assert all(wanted.may_hold(b"/a/%d" % number) is str(number).startswith("1") for number in range(1_100))


JOURNAL = bytes(range(16))


def entry(first: int, following: int, **changed: object) -> Entry:
    plain = Entry(
        first=first,
        next=following,
        records=following - first,
        earliest_us=1,
        latest_us=2,
        size_bytes=1000,
        raw_bytes=5000,
        sha256="00" * 32,
        tail_bytes=100,
        tail_crc=7,
        topics=(("/a", following - first),),
        are_topics_whole=True,
    )
    return msgspec.structs.replace(plain, **changed)


ENTRIES = st.lists(st.integers(1, 100), min_size=1, max_size=10).map(
    lambda sizes: [entry(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes))]
)


@given(ENTRIES, st.integers(0, 1000))
def test_what_is_written_is_read(entries: list[Entry], offset: int) -> None:
    manifest = Manifest(parse_manifest(encode_manifest(JOURNAL, entries), JOURNAL))
    assert manifest.entries == entries
    assert (manifest.first, manifest.next) == (entries[0].first, entries[-1].next)
    expected = next((place for place, one in enumerate(entries) if one.next > offset), len(entries))
    assert manifest.place_of(offset) == expected


@pytest.mark.parametrize("other", [entry(0, 6), entry(0, 5, tail_crc=8), entry(4, 6)])
def test_files_that_contradict_one_another(other: Entry) -> None:
    with pytest.raises(JournalCorruptError, match="overlap"):
        Manifest([entry(0, 5), other])


def test_damage_of_a_manifest_is_noticed() -> None:
    text = encode_manifest(JOURNAL, [entry(0, 5), entry(5, 9, records=3, holes=(Hole(6, 7, "lost"),))])
    sound = parse_manifest(text, JOURNAL)
    for place in range(len(text) - 1):  # the last is a newline
        with pytest.raises(JournalCorruptError):
            parse_manifest(text[:place], JOURNAL)
        for bit in range(8):
            hurt = bytearray(text)
            hurt[place] ^= 1 << bit
            try:
                found = parse_manifest(bytes(hurt), JOURNAL)
            except (JournalCorruptError, JournalUnavailableError):
                continue
            assert found == sound  # a space became another one


@pytest.mark.parametrize(
    ("head", "journal", "error", "text"),
    [
        (b"hub tier 1", bytes(16), JournalCorruptError, "not of 0000"),
        (b"hub tier 2", JOURNAL, JournalUnavailableError, "this version reads"),
        (b"hub uier 1", JOURNAL, JournalCorruptError, "no version"),
        (b"hub tier x", JOURNAL, JournalCorruptError, "no version"),
        (b"hub tier ", JOURNAL, JournalCorruptError, "no version"),
    ],
)
def test_a_manifest_that_is_not_ours(head: bytes, journal: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        parse_manifest(encode_manifest(JOURNAL, [entry(0, 5)]).replace(b"hub tier 1", head), journal)


@pytest.mark.parametrize(
    "wrong",
    [
        entry(5, 5),
        entry(-1, 5),
        entry(0, 5, records=4),
        entry(0, 5, records=4, holes=(Hole(6, 7, "behind it"),)),
        entry(0, 5, records=6, holes=(Hole(3, 2, "backwards"),)),
        entry(0, 5, size_bytes=-1),
    ],
)
def test_entries_that_cannot_be(wrong: Entry) -> None:
    with pytest.raises(JournalCorruptError, match="cannot be"):
        parse_manifest(encode_manifest(JOURNAL, [wrong]), JOURNAL)


def test_names() -> None:
    assert range_of(range_name(5, 70)) == (5, 70)
    assert entry(5, 70).name == "00000000000000000005-00000000000000000070"
    for other in ("", "5-70", "a" * 41, "00000000000000000005", "٣" * 20 + "-" + "٣" * 20):
        assert range_of(other) is None
