"""The routing key of TAGGED messages: out and back, one form for each, and nothing but that is taken."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.frame import FLAG_BATCH, FLAG_TAGGED, KEY_LIMIT_BYTES, KIND_MESSAGES, Frame, topic_of
from hub.tags.envelope import ENVELOPE_LIMIT_BYTES, Envelope, tagged

labels = st.sets(st.text("aé漢😀 -\u2028\u200b", min_size=1, max_size=6), max_size=32)
names = st.sampled_from(("", "", "org.example.Player", "a.b"))
topics = st.sampled_from(("/a", "/a/b", "é", "x" * 1024))
envelopes = st.builds(tagged, topics, labels, names, names)


@given(envelopes)
def test_out_and_back(envelope: Envelope) -> None:
    key = envelope.encode()
    assert Envelope.decode(key) == envelope
    assert topic_of(FLAG_TAGGED, key) == envelope.topic.encode()
    assert Frame(KIND_MESSAGES, FLAG_TAGGED | FLAG_BATCH, key, b"").topic == envelope.topic.encode()
    assert envelope.routing_key[4:] == key


def test_layout() -> None:
    envelope = tagged("/a", ["low", "b"], sender="a.b", destination="c.d")
    assert envelope.encode() == b"\0\x02/a\x03a.b\x03c.d\x01b\x03low"
    assert tagged("/a").encode() == b"\0\x02/a\0\0"


@given(envelopes, st.data())
def test_what_was_damaged_is_refused_or_is_another_envelope(envelope: Envelope, data: st.DataObject) -> None:
    key = bytearray(envelope.encode())
    place = data.draw(st.integers(0, len(key) - 1))
    key[place] = data.draw(st.integers(0, 255))
    cut = bytes(key[: data.draw(st.integers(0, len(key)))])
    with suppress(RejectedError):
        assert Envelope.decode(cut).encode() == cut


@given(st.binary(max_size=60))
def test_any_bytes(key: bytes) -> None:
    with suppress(RejectedError):
        assert Envelope.decode(key).encode() == key


START = b"\0\x02/a\0\0"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"", "the key ends at byte 0, too soon"),
        (b"\0\x05/a", "the key ends at byte 4, too soon"),
        (b"\0\x02/a", "the key ends at byte 4, too soon"),
        (b"\0\x02/a\0", "the key ends at byte 5, too soon"),
        (b"\0\x02/a\x09\0", "too soon"),
        (b"\0\x02/a\0\x09", "within a field that goes on to 15"),
        (START + b"\x05abc", "the key ends at byte 10, within a field that goes on to 12"),
        (b"\0\0\0\0", "topic is empty"),
        (START + b"\0", "a label is empty"),
        (START + b"\x01b\x01a", "labels ascend"),
        (START + b"\x01a\x01a", "none is there twice"),
        (START + b"\x01\n", "control character U\\+000A"),
        (START + b"\x01\xff", "labels are not UTF-8"),
        (START + b"\x01\xc3\x01\xa9", "ascend|not UTF-8"),
        (START + b"\x81" + b"x" * 129, "129 bytes long, the limit is 128"),
        (START + b"".join(b"\x02%02d" % number for number in range(33)), "33 labels, the limit is 32"),
        (b"\0\x02/a\x03a/b\0", "name 'a/b' is none"),
        (b"\0\x02/a\0\x03a.1", "name 'a.1' is none"),
    ],
)
def test_bad_keys(key: bytes, text: str) -> None:
    with pytest.raises(RejectedError, match=text) as refused:
        Envelope.decode(key)
    assert refused.value.code == CloseCode.BAD_DATA


def test_what_a_publisher_may_not_say() -> None:
    with pytest.raises(InvalidTopicError, match="is the hub's own"):
        tagged("$hub/x", ["a"])
    with pytest.raises(InvalidNameError, match="label is empty"):
        tagged("/a", [""])
    with pytest.raises(InvalidNameError, match="name 'me'"):
        tagged("/a", sender="me")
    with pytest.raises(InvalidNameError, match="name 'you'"):
        tagged("/a", destination="you")


def test_the_longest_fits_into_a_key() -> None:
    name = "a." + "b" * 253
    longest = tagged("t" * 1024, [f"{number:02}" + "x" * 126 for number in range(32)], name, name)
    assert len(longest.encode()) == ENVELOPE_LIMIT_BYTES <= KEY_LIMIT_BYTES
    assert Envelope.decode(longest.encode()) == longest
