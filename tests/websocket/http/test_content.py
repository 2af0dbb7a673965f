"""What bodies mean: one value, or one a line."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from peers.websocket.http.content import FRAME_BYTES, Content, ContentError, Values, content_of

LIMIT = 1_000_000


def content(kind: str = "application/x-ndjson", limit: int = LIMIT) -> Content:
    found = content_of(kind, limit)
    assert found is not None
    return found


def all_of(reader: Content, *pieces: bytes) -> list[Values]:
    found = [values for piece in pieces for values in reader.take(piece)]
    return found + list(reader.finish())


def unpacked(found: list[Values]) -> list[Any]:
    return [msgspec.msgpack.decode(packed) for values in found for packed in values.packed]


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=UTF-8", "application/msgpack", "application/x-ndjson"]
)
def test_types_that_are_taken(kind: str) -> None:
    assert content_of(kind, LIMIT) is not None


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/json; charset=latin-1", "application/json, application/json", "a/b;c=d"]
)
def test_types_that_are_not(kind: str) -> None:
    assert content_of(kind, LIMIT) is None


def test_one_value() -> None:
    assert unpacked(all_of(content("application/json"), b'{"a":', b" [1.5]}\n")) == [{"a": [1.5]}]
    packed = msgspec.msgpack.encode({"a": b"\x00"})
    (found,) = all_of(content("application/msgpack"), packed[:2], packed[2:])
    assert found == Values([packed], 0)


@given(st.lists(st.recursive(st.none() | st.integers(-9, 9) | st.text(), st.lists, max_leaves=4)), st.integers(1, 50))
def test_lines_cut_anywhere(values: list[Any], step: int) -> None:
    for end in ("\n", "\r\n", "\n\n"):
        text = end.join(json.dumps(value) for value in values).encode()
        pieces = [text[at : at + step] for at in range(0, len(text), step)]
        found = all_of(content(), *pieces)
        assert unpacked(found) == values


def test_lines_go_together() -> None:
    line = json.dumps("x" * 1000).encode() + b"\n"
    found = all_of(content(), line * 200)
    assert sum(len(values.packed) for values in found) == 200
    assert len(found) == 4
    assert all(sum(map(len, values.packed)) <= FRAME_BYTES for values in found)
    assert [values.line for values in found] == [1, 1 + len(found[0].packed), found[2].line, found[3].line]


@pytest.mark.parametrize(
    ("text", "line", "before"),
    [
        (b"1\n2\nx\n4\n", 3, 2),
        (b"1\n\n\n[1,\n", 4, 1),
        (b"1 2\n", 1, 0),
        (b"1\n" + b"[" * 600 + b"]" * 600, 2, 1),
        (b"1\n18446744073709551616\n", 2, 1),
        (b'1\n"\xff"\n', 2, 1),
        (b"1\n2\n3\n{", 4, 3),
    ],
)
def test_a_line_that_is_wrong(text: bytes, line: int, before: int) -> None:
    reader = content()
    found: list[Values] = []
    with pytest.raises(ContentError) as refused:  # noqa: PT012 -- what came before the error counts
        for values in reader.take(text):
            found.append(values)  # noqa: PERF402 -- the same
        found += reader.finish()
    assert (refused.value.line, refused.value.code) == (line, CloseCode.BAD_DATA)
    assert len(unpacked(found)) == before


@pytest.mark.parametrize("kind", ["application/json", "application/msgpack", "application/x-ndjson"])
def test_what_is_too_large(kind: str) -> None:
    reader = content(kind, 1000)
    with pytest.raises(ContentError) as refused:  # noqa: PT012 -- how much is held is looked at meanwhile
        for _ in range(1001):
            list(reader.take(b"1"))
            assert reader.held_bytes <= 1000
    assert refused.value.code == CloseCode.TOO_BIG
    assert refused.value.line == (kind == "application/x-ndjson")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b""),
        ("application/json", b"{"),
        ("application/json", b"1 2"),
        ("application/json", b'"\xff"'),
        ("application/json", b"[" * 100_000),
        ("application/msgpack", b""),
        ("application/msgpack", b"\x01\x01"),
        ("application/msgpack", b"\xc1"),
        ("application/msgpack", b"\x91" * 1000),
        ("application/msgpack", b"\xdf\xff\xff\xff\xff"),
    ],
)
def test_what_is_no_value(kind: str, body: bytes) -> None:
    with pytest.raises(ContentError) as refused:
        all_of(content(kind), body)
    assert refused.value.code == CloseCode.BAD_DATA


def test_too_many_parts() -> None:
    for kind, line in (("application/json", 0), ("application/x-ndjson", 2)):
        with pytest.raises(ContentError) as refused:
            all_of(content(kind), b"\n" if line else b"", b"[" + b"0," * 200_000 + b"0]")
        assert (refused.value.code, refused.value.line) == (CloseCode.TOO_BIG, line)
