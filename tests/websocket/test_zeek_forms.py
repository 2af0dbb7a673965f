"""A batch as frames of the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Opcode

from hub.errors import CloseCode
from hub.labels.envelope import tagged
from hub.messages.batch import Batch
from hub.messages.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, encode_frame
from hub.prefixes import Filter
from peers.values import CONVERTED_LIMIT_BYTES
from peers.websocket.batches import ITEMS_LIMIT, encode_message
from peers.websocket.session import AnsweredError
from peers.websocket.zeek_codec import SPLIT_LIMIT_MESSAGES, Wanted, texts, zeek_codec, zeek_form
from tests.websocket.zeek.messages import body_of, count


def broker(topic: str, *numbers: int) -> bytes:
    return b"".join(
        encode_frame(KIND_MESSAGES, body_of(count("/x", number)), key=topic.encode(), flags=BROKER_FLAGS)
        for number in numbers
    )


def data(topic: str, kind: str, value: Any) -> dict[str, Any]:
    return {"type": "data-message", "topic": topic, "@data-type": kind, "data": value}


def read(batch: Batch) -> tuple[list[Any], int]:
    found, lost = texts(batch)
    return [json.loads(text) for text in found], lost


def test_one_frame_a_message() -> None:
    batch = Batch(broker("/a", 1, 2) + broker("/b", 3), 3)
    form = batch.form(zeek_form)
    expected = [count("/a", 1), count("/a", 2), count("/b", 3)]
    assert form.frames(batch) == b"".join(encode_message(Opcode.TEXT, text) for text in expected)
    assert form.lost_messages == 0
    assert batch.form(zeek_form).frames(batch) is form.frames(batch)


def test_what_the_hubs_own_clients_publish() -> None:
    assert read(Batch.of("/a", [-1, "x", None])) == (
        [data("/a", "integer", -1), data("/a", "string", "x"), data("/a", "none", {})],
        0,
    )
    assert read(Batch.of("/a", [[True]])) == ([data("/a", "vector", [{"@data-type": "boolean", "data": True}])], 0)


def test_labels_are_left_out() -> None:
    key = tagged("/a", ["x"], "s.s").encode()
    batch = Batch(
        encode_frame(KIND_MESSAGES, body_of(count("/x", 1)), key=key, flags=BROKER_FLAGS | FLAG_TAGGED)
        + encode_frame(KIND_MESSAGES, b"\x02", key=key, flags=FLAG_TAGGED),
        2,
    )
    assert read(batch) == ([json.loads(count("/a", 1)), data("/a", "integer", 2)], 0)


def test_what_has_no_form_is_lost() -> None:
    bad = [
        encode_frame(KIND_MESSAGES, b"\x02\x00", key=b"/a", flags=BROKER_FLAGS),
        encode_frame(KIND_MESSAGES, b"", key=b"/a", flags=BROKER_FLAGS),
        encode_frame(KIND_MESSAGES, b"\xd4\x70x", key=b"/a"),
        encode_frame(KIND_MESSAGES, b"\xc1", key=b"/a"),
        encode_frame(KIND_MESSAGES, b"\x01", key=b"/a", flags=0b100),
        encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(3) + b"\x01", key=b"/a", flags=FLAG_BATCH),
        encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(2) + b"\x00\x00", key=b"/a", flags=FLAG_BATCH | BROKER_FLAGS),
        encode_frame(KIND_MESSAGES, bytes(CONVERTED_LIMIT_BYTES + 1), key=b"/a", flags=BROKER_FLAGS),
    ]
    messages = [1, 1, 1, 1, 1, 3, 2, 1]
    for one, lost in zip(bad, messages, strict=True):
        assert read(Batch(one, lost)) == ([], lost)
    found, lost = read(Batch(broker("/a", 1) + b"".join(bad) + broker("/a", 2), sum(messages) + 2))
    assert [message["data"] for message in found] == [1, 2]
    assert lost == sum(messages)


def test_a_batch_of_too_many_is_lost() -> None:
    most = Batch.of("/a", [None] * SPLIT_LIMIT_MESSAGES)
    found, lost = texts(most)
    assert (len(found), lost) == (SPLIT_LIMIT_MESSAGES, 0)
    assert texts(Batch.of("/a", [None] * (SPLIT_LIMIT_MESSAGES + 1))) == ([], SPLIT_LIMIT_MESSAGES + 1)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (b'["/a"', "subscriptions not an array"),
        (b"[" * 10_000, "subscriptions not an array"),
        (b'["' + b'","' * ITEMS_LIMIT + b'"]', f"more than {ITEMS_LIMIT} subscriptions"),
    ],
)
def test_no_array(array: bytes, text: str) -> None:
    with pytest.raises(AnsweredError) as caught:
        zeek_codec().decode(array)
    assert (caught.value.code, caught.value.text) == (CloseCode.NOT_ALLOWED, text)


_PREFIXES = st.text("ab/", max_size=4)


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "ask"]), _PREFIXES)))
def test_against_looking_at_all(steps: list[tuple[str, str]]) -> None:
    filter_, wanted, held = Filter(), Wanted(), list[str]()
    asked: list[str] = []
    for step, prefix in steps:
        if step == "add":
            held.append(prefix)
            wanted.change(filter_.add(prefix))
        elif step == "discard" and prefix in held:
            held.remove(prefix)
            wanted.change(filter_.discard(prefix))
        elif step == "ask":
            asked = wanted.ask()
            assert asked == list(filter_.minimal)
        assert wanted.is_covered == all(any(one.startswith(a) for a in asked) for one in filter_.minimal)
