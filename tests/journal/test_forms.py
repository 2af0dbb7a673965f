"""The forms of an answer: what a reader process makes of the records that it has found."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, JournalCorruptError, RejectedError
from hub.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from hub.journal.block import Block, pack
from hub.journal.excerpt import whole_of
from peers.journal.forms import Form, Order, body_parts, decode_order
from peers.journal.view import Extent, Fetched
from peers.values import Count, encode
from peers.wire.records import Fetch, decode_records, encode_fetch

AT_US = 1_700_000_000_123_456

Message = tuple[int, str, bytes]
"""Flags, topic, body."""


def fetched(*blocks: list[Message], start: int = 10) -> Fetched:
    packed: list[bytes] = []
    following = start
    for messages in blocks:
        frames = b"".join(
            encode_frame(KIND_MESSAGES, body, key=topic.encode(), flags=flags) for flags, topic, body in messages
        )
        packed += pack([(AT_US + following, frames)], following)
        following += len(messages)
    return Fetched(start, following, Extent(3, 1000), packed)


def value(value: Any, topic: str = "/a") -> Message:
    return 0, topic, msgspec.msgpack.encode(value)


def json_answer(found: Fetched, **wanted: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(b"".join(body_parts(Order(7, form="json", **wanted), found)))
    return answer


def test_a_fetch_is_an_order() -> None:
    fetch = Fetch(7, 5, None, 9, ("/a",), 100, 3)
    assert decode_order(encode_fetch(fetch)[8:]) == Order(7, 5, None, 9, ("/a",), 100, 3, form="frame")
    order = Order(7, 0, 8, None, ("/a", "/b"), form="json")
    assert decode_order(encode_fetch(order)[8:]) == order


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", msgspec.msgpack.encode({"request": 1, "form": "xml"})])
def test_no_order(body: bytes) -> None:
    with pytest.raises(RejectedError) as caught:
        decode_order(body)
    assert caught.value.code == CloseCode.BAD_DATA


def test_frame() -> None:
    found = fetched([value(1), value(2)], [value(3)])
    read = decode_records(b"".join(body_parts(Order(7), found)))
    assert read == (7, 10, 13, 3, 1000, found.blocks, b"", 0)
    told = decode_records(b"".join(body_parts(Order(7, journal=b"0123456789abcdef", epoch=9), found)))
    assert told == read._replace(journal=b"0123456789abcdef", epoch=9)


def test_msgpack() -> None:
    found = fetched([value(1), value(2)], [value(3)])
    (payload,) = body_parts(Order(7, form="msgpack"), found)
    places = {"type": "records", "request": 7, "start": 10, "next": 13, "first": 3, "head": 1000, "epoch": 0}
    assert msgspec.msgpack.decode(payload) == places | {"blocks": found.blocks}


def test_json() -> None:
    assert json_answer(fetched([value({"x": [1, None]}), value("ü", "/ü")], [value(b"\0")])) == {
        "type": "records",
        "request": 7,
        "start": 10,
        "next": 13,
        "first": 3,
        "head": 1000,
        "epoch": 0,
        "records": [
            {"offset": 10, "time_ms": 1_700_000_000_123.466, "topic": "/a", "value": {"x": [1, None]}},
            {"offset": 11, "time_ms": 1_700_000_000_123.466, "topic": "/ü", "value": "ü"},
            {"offset": 12, "time_ms": 1_700_000_000_123.468, "topic": "/a", "value": "AA=="},
        ],
    }


@pytest.mark.parametrize("form", ["frame", "msgpack"])
def test_some_columns_of_blocks(form: Form) -> None:
    found = fetched([value("secret"), value("secret")], [value("secret")])
    payload = b"".join(body_parts(Order(7, columns=("topic",), form=form), found))
    assert b"secret" not in payload
    assert b"/a" in payload
    blocks = decode_records(payload).blocks if form == "frame" else msgspec.msgpack.decode(payload)["blocks"]
    assert [Block.parse(whole_of(block)).topics for block in blocks] == [["/a"], ["/a"]]
    assert [Block.parse(whole_of(block)).count for block in blocks] == [2, 1]


@pytest.mark.parametrize("form", ["frame", "msgpack"])
def test_all_columns_are_blocks_as_they_are(form: Form) -> None:
    found = fetched([value(1)])
    everything = Order(7, columns=("value", "time", "topic", "offset"), form=form)
    assert body_parts(everything, found) == body_parts(Order(7, form=form), found)
    if form == "frame":
        assert any(part is found.blocks[0] for part in body_parts(everything, found))


def test_some_columns_of_json() -> None:
    """A record has those that were asked for; what has no JSON form matters only where it is wanted."""
    found = fetched([value(1), (0b100, "/b", b"x")])
    answer = json_answer(found, columns=("topic", "offset"))
    assert answer["records"] == [{"offset": 10, "topic": "/a"}, {"offset": 11, "topic": "/b"}]
    assert "dropped" not in answer
    answer = json_answer(found, columns=("time", "value"))
    assert answer["records"] == [{"time_ms": 1_700_000_000_123.466, "value": 1}]
    assert answer["dropped"] == 1
    assert json_answer(found, columns=())["records"] == [{}, {}]


def test_nothing_found() -> None:
    answer = json_answer(Fetched(10, 12, Extent(3, 12), []))
    assert (answer["records"], answer["next"], answer["head"]) == ([], 12, 12)


def test_values_of_a_zeek() -> None:
    found = fetched(
        [(BROKER_FLAGS, "/z", encode(Count(5))), (BROKER_FLAGS, "/z", b"\xff"), (0b100, "/z", b"x"), value(1)]
    )
    answer = json_answer(found)
    assert [(one["offset"], one["value"]) for one in answer["records"]] == [(10, 5), (13, 1)]
    assert answer["dropped"] == 2


def test_no_block() -> None:
    with pytest.raises(JournalCorruptError):
        body_parts(Order(7, form="json"), Fetched(0, 1, Extent(0, 1), [b"nonsense"]))


@given(
    sizes=st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=5), min_size=1, max_size=4),
    limit=st.integers(1, 120),
)
def test_cut_anywhere(sizes: list[list[int]], limit: int) -> None:
    """An answer ends behind the value that reaches the limit, also within a block; the next begins where it ends."""
    found = fetched(*([value("x" * size) for size in block] for block in sizes))
    read: list[int] = []
    position = found.start
    while position < found.next:
        rest = [block for block in found.blocks if Block.parse(block).next > position]
        answer = json_answer(
            found._replace(start=position, blocks=[_behind(block, position) for block in rest]), bytes=limit
        )
        taken = answer["records"]
        assert sum(len(one["value"]) for one in taken[:-1]) < limit
        read += [one["offset"] for one in taken]
        assert answer["next"] > position
        position = answer["next"]
    assert read == list(range(found.start, found.next))


def _behind(block: bytes, position: int) -> bytes:
    from hub.journal.block import select

    return select(block, position, 2**62)
