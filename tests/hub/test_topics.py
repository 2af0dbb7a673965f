"""What topics, labels and names may look like, and errors that say so."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import (
    CloseCode,
    InvalidNameError,
    InvalidTopicError,
    NotRecognisedError,
    PeerError,
    ProtocolError,
    RejectedError,
    RequestTimeoutError,
)
from hub.names.claim import (
    LABELS_LIMIT,
    NAME_LIMIT_BYTES,
    check_label,
    check_labels,
    check_name,
    decode_name,
)
from hub.topics import (
    TOPIC_LIMIT_BYTES,
    check_prefix,
    check_topic,
    decode_prefix,
    decode_prefixes,
    decode_topic,
    printable,
    store_that_tells,
)

GOOD = ["a", "/", "//", "/zeek/dns/10.0.0.7", " ", "/é/漢/😀", "$hub/client/joined", "/*/#", "a" * TOPIC_LIMIT_BYTES]
CONTROL = [
    *((0, "\x00"), (2, "/a\nb"), (2, "/a\tb"), (0, "\x1b[2J"), (0, "\x7f"), (1, "/\x80"), (0, "\x9f")),
    *((0, "\ud800"), (2, "/a\udfff")),
]


@pytest.mark.parametrize("topic", GOOD)
def test_good_topics_are_returned_as_they_are(topic: str) -> None:
    assert check_topic(topic) == check_prefix(topic) == topic
    assert decode_topic(topic.encode()) == decode_prefix(topic.encode()) == topic


def test_only_prefixes_may_be_empty() -> None:
    assert (check_prefix(""), decode_prefix(b"")) == ("", "")
    with pytest.raises(InvalidTopicError, match="topic is empty"):
        check_topic("")
    with pytest.raises(InvalidTopicError, match="topic is empty"):
        decode_topic(b"")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        *((text, f"U\\+{ord(text[place]):04X} at character {place}") for place, text in CONTROL),
        ("a" * (TOPIC_LIMIT_BYTES + 1), "is 1025 bytes long, the limit is 1024 bytes"),
        ("é" * 513, "is 1026 bytes long"),
        ("😀" * 257, "is 1028 bytes long"),
    ],
)
def test_control_characters_and_too_many_bytes_are_refused(text: str, cause: str) -> None:
    for check, what in ((check_topic, "topic"), (check_prefix, "prefix")):
        with pytest.raises(InvalidTopicError, match=f"{what} .*{cause}"):
            check(text)
    with pytest.raises(InvalidTopicError):
        decode_topic(text.encode(errors="surrogatepass"))


@pytest.mark.parametrize("raw", [b"\xff", b"/a/\xc3", b"/a/\xed\xa0\x80", b"/a/\xc0\xaf"])
def test_bytes_that_are_not_utf8_are_refused(raw: bytes) -> None:
    place = 0 if raw[0] == 0xFF else 3
    with pytest.raises(InvalidTopicError, match=f"topic .* is not UTF-8 at byte {place}"):
        decode_topic(raw)
    with pytest.raises(InvalidTopicError, match=r"prefix .* is not UTF-8"):
        decode_prefix(raw)


@given(st.text(st.characters(codec=None), max_size=400))
def test_an_error_is_one_short_line_of_ascii(text: str) -> None:
    try:
        check_topic(text * 10)
    except InvalidTopicError as error:
        message = str(error)
        assert message.isascii()
        assert message.isprintable()
        assert len(message) < 1000


@given(st.binary(max_size=50))
def test_any_bytes_are_taken_or_refused(raw: bytes) -> None:
    try:
        topic = decode_topic(raw)
    except InvalidTopicError:
        return
    assert topic.encode() == raw


def test_printable_shortens() -> None:
    assert printable("/a") == "'/a'"
    assert printable("x" * 80) == repr("x" * 80)
    assert printable("x" * 81) == ascii("x" * 80 + "…")


@given(st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=6).map(lambda text: text.encode(errors="replace")))))
def test_prefixes_together_are_those_one_by_one(raw: list[bytes]) -> None:
    def taken() -> Iterator[str]:
        for one in [*raw, b"/" * 1024, b"/" * 1025, b"/a\nb"]:
            with suppress(InvalidTopicError):
                yield decode_prefix(one)

    assert decode_prefixes([*raw, b"/" * 1024, b"/" * 1025, b"/a\nb"]) == list(taken())
    assert decode_prefixes([]) == []


@pytest.mark.parametrize(
    ("topic", "store"),
    [
        ("$store/s/changes/", "s"),
        ("$store/s/changes/x/y", "s"),
        ("$store/s/changes", "s"),
        ("$store//changes/", ""),
        ("$store/s/change/", None),
        ("$store/s/changes2", None),
        ("$store/a/s/changes/", None),
        ("$store/changes", None),
        ("/$store/s/changes/", None),
        ("/a", None),
    ],
)
def test_under_which_topics_stores_tell_changes(topic: str, store: str | None) -> None:
    assert store_that_tells(topic) == store


@pytest.mark.parametrize(
    ("label", "cause"),
    [
        ("", "is empty"),
        ("a" * 129, "is 129 bytes long, the limit is 128 bytes"),
        ("ä" * 65, "is 130 bytes long"),
        ("a\nb", r"U\+000A at character 1"),
        ("\x7f", r"U\+007F"),
        ("\ud800", r"U\+D800"),
    ],
)
def test_no_labels(label: str, cause: str) -> None:
    with pytest.raises(InvalidNameError, match=cause):
        check_label(label)


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", min_codepoint=0xA0) | st.sampled_from("abc"), min_size=1, max_size=8),
        max_size=40,
    )
)
def test_a_set_of_labels_is_in_the_order_of_its_bytes(labels: list[str]) -> None:
    distinct = set(labels)
    if len(distinct) > LABELS_LIMIT:
        with pytest.raises(InvalidNameError, match=f"{len(distinct)} labels, the limit is 32"):
            check_labels(labels)
        return
    checked = check_labels(labels)
    assert checked == check_labels(reversed(labels))
    assert [label.encode() for label in checked] == sorted({label.encode() for label in labels})


elements = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,9}", fullmatch=True)


@given(st.lists(elements, min_size=2, max_size=8).map(".".join))
def test_names(name: str) -> None:
    assert check_name(name) == decode_name(name.encode()) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "a", ".", "a.", ".a", "a..b", "1.a", "a.1b", "-a.b", "a.-b", "a b.c", "a.b\n", "a.ä", "a.\x00"),
        *("$hub.a", ":1.7"),
    ],
)
def test_no_names(name: str) -> None:
    with pytest.raises(InvalidNameError, match="is not a valid name: expected two or more elements"):
        check_name(name)
    with pytest.raises(InvalidNameError, match="is not a valid name"):
        decode_name(name.encode())


def test_a_name_that_is_too_long() -> None:
    with pytest.raises(InvalidNameError, match=r"is 256 characters long, the limit is 255") as caught:
        check_name("a." + "b" * (NAME_LIMIT_BYTES - 1))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("error", "kind", "shown"),
    [
        (RejectedError(CloseCode.NOT_ALLOWED, "no room"), RejectedError, (1008, "no room", "no room (1008)")),
        (RequestTimeoutError(4, "no answer within 30 s"), TimeoutError, (4104, *["no answer within 30 s"] * 2)),
        (NotRecognisedError(0.5), ProtocolError, (4401, NotRecognisedError().text)),
    ],
)
def test_errors_of_the_far_side_survive_pickling(error: PeerError, kind: type, shown: tuple[object, ...]) -> None:
    again: PeerError = pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
    assert (isinstance(again, kind), vars(again)) == (True, vars(error))
    assert (again.code, again.text, str(again))[: len(shown)] == shown
