"""Between msgpack and JSON: the table in docs/websocket.md, and the limits."""

from __future__ import annotations

import base64
import gc
import json
import math
import sys
from datetime import UTC, datetime
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.values.conversion import (
    CONTAINERS_LIMIT,
    CONVERTED_LIMIT_BYTES,
    NESTING_LIMIT,
    is_nested_too_deep,
    is_packed_too_deep,
    is_value,
    json_of,
    possible_containers,
    possible_parts,
    without_collecting,
)
from peers.values.msgpack import array_header


def converted(value: Any) -> Any:
    text = json_of(msgpack.packb(value, datetime=True))
    assert text is not None
    return json.loads(text)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(values)
def test_what_json_has_stays_the_same(value: Any) -> None:
    assert converted(value) == value


def test_times_keep_their_nanoseconds() -> None:
    for time, text in (
        (msgpack.Timestamp(1, 5), "1970-01-01T00:00:01.000000005Z"),
        (msgpack.Timestamp(-1, 5), "1969-12-31T23:59:59.000000005Z"),
        (msgpack.Timestamp(2**34, 999_999_999), "2514-05-30T01:53:04.999999999Z"),
        (msgpack.Timestamp(1, 5_000), "1970-01-01T00:00:01.000005Z"),
        (msgpack.Timestamp(1, 0), "1970-01-01T00:00:01Z"),
    ):
        assert converted({"at": [time], "n": msgpack.ExtType(1, bytes(8))}) == {"at": [text], "n": 0}
    assert json_of(msgpack.packb(msgpack.Timestamp(2**60, 5))) is None
    assert converted(datetime(2026, 11, 21, 2, 3, 4, 567000, tzinfo=UTC)) == "2026-11-21T02:03:04.567000Z"
    assert converted(base64.b64decode("1/8AAAAUAAAAAQ==")) == "1/8AAAAUAAAAAQ=="


@given(st.binary())
def test_bin_is_base64(data: bytes) -> None:
    assert base64.b64decode(converted(data), validate=True) == data
    assert converted([math.nan, math.inf, -math.inf, 1.5]) == [None, None, None, 1.5]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"\x01", "1"),
        (b"\xd0\x80", "-128"),
        (b"\xcb?\xf8\0\0\0\0\0\0", "1.5"),
        (b"\xc0", "null"),
        (b"\xc3", "true"),
        (b"\xc2", "false"),
        (b"\xc4\x01x", "eA=="),
        (b"\x92\x01\xa1a", '[1,"a"]'),
        (b"\xd6\xff\0\0\0\0", "1970-01-01T00:00:00Z"),
    ],
)
def test_keys_that_are_no_text_become_their_text(key: bytes, text: str) -> None:
    body = b"\x91\x81" + key + b"\x81" + key + b"\x07"
    found = json_of(body)
    assert found is not None
    assert json.loads(found) == [{text: {text: 7}}]


NO_FORM = [
    *(b"", b"\xc1", b"\x01\x02", b"\x92\x01", b"\xa1\xff", b"\xd4\x05x", b"\x81\xd4\x05x\x01", b"\x91\xd4\x05x"),
    *(b"\x81\x80\x01", b"\xc7\x0c\xff" + b"\xff" * 12, b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"),
    b"\x91" * 100_000 + b"\xc0",
]


@pytest.mark.parametrize("body", NO_FORM, ids=lambda body: body[:8].hex())
def test_what_has_no_form_is_none(body: bytes) -> None:
    assert json_of(body) is None


def test_what_is_too_much_has_no_form() -> None:
    for size in (CONVERTED_LIMIT_BYTES - 5, CONVERTED_LIMIT_BYTES - 4):
        text = json_of(b"\xc6" + size.to_bytes(4, "big") + bytes(size))
        assert (text is None) is (size + 5 > CONVERTED_LIMIT_BYTES)
    for count in (CONTAINERS_LIMIT - 1, CONTAINERS_LIMIT):
        assert (json_of(array_header(count) + b"\x90" * count) is None) is (count == CONTAINERS_LIMIT)


@pytest.mark.parametrize("items", [0, 1, 15, 16, 65_535, 65_536, 100_000])
def test_an_array_header_makes_an_array(items: int) -> None:
    assert msgpack.unpackb(array_header(items) + b"\xc0" * items) == [None] * items


@given(values)
def test_containers_are_never_counted_too_low(value: Any) -> None:
    def containers(inner: Any) -> int:
        if isinstance(inner, dict):
            return 1 + sum(map(containers, inner.values()))
        return 1 + sum(map(containers, inner)) if isinstance(inner, list) else 0

    assert possible_containers(msgpack.packb(value)) >= containers(value)
    assert possible_parts(msgspec.json.encode(value)) >= containers(value)


def test_soundness() -> None:
    assert is_value(b"\x93\x01\x02\x03")
    assert not any(map(is_value, (b"", b"\x93\x01\x02", b"\x01\x01", b"\xa1\xff", b"\xc1", b"\x81\x80\x01")))


def test_the_collector_is_put_off_and_comes_back() -> None:
    assert without_collecting(lambda _: gc.isenabled(), None) is False
    assert gc.isenabled()

    def fail(_: None) -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 -- raised two lines above
        without_collecting(fail, None)
    assert gc.isenabled()
    gc.disable()
    try:
        assert without_collecting(lambda _: gc.isenabled(), None) is False
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("head", [b"\x91", b"\x81\x01", b"\x81\xc0"])
def test_how_deep_a_body_may_be(head: bytes) -> None:
    text = json_of(head * NESTING_LIMIT + b"\x01")
    assert text is not None
    assert text.count(b"[") + text.count(b"{") == NESTING_LIMIT
    assert json_of(head * (NESTING_LIMIT + 1) + b"\x01") is None


leaves = st.none() | st.integers() | st.text(st.sampled_from('[]{}"\\a\n'), max_size=5)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.sampled_from('[{"\\'), max_size=2), inner, max_size=3)
    ),
)


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


@given(trees, st.integers(NESTING_LIMIT - 8, NESTING_LIMIT), st.booleans())
def test_depth(tree: Any, around: int, many: bool) -> None:  # noqa: FBT001
    text = json.dumps([tree, [[]] * 300] if many else tree).encode()
    depth = _depth([tree, [[]]] if many else tree)
    assert is_nested_too_deep(b"[" * around + text + b"]" * around) == (around + depth > NESTING_LIMIT)


@pytest.mark.parametrize(
    ("text", "is_deep"),
    [
        *((text, True) for text in (b"[" * 501, b'{"a":' * 501, b"[" * 100_000, b'"]"' + b"[" * 501)),
        *((text, False) for text in (b"", b"[" * 500, b"[]" * 5000, b'"' + b"[" * 501, b"]" * 600 + b"[" * 501)),
    ],
)
def test_what_never_ends(text: bytes, *, is_deep: bool) -> None:
    assert is_nested_too_deep(text) is is_deep


whole = st.integers(-(2**63), 2**64 - 1)
packed_leaves = st.none() | whole | st.floats() | st.binary(max_size=3) | st.just(b"\x91" * 600)
packed_trees = st.recursive(
    packed_leaves, lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(whole, inner, min_size=1)
)


@given(packed_trees, st.integers(NESTING_LIMIT - 8, NESTING_LIMIT))
def test_depth_of_msgpack(tree: Any, around: int) -> None:
    beside = [[1]] * 600
    packed = b"\x91" * (around - 1) + msgspec.msgpack.encode([beside, tree])
    depth = max(_depth([beside]), _depth([tree]))
    assert is_packed_too_deep(packed) == (around - 1 + depth > NESTING_LIMIT)


@pytest.mark.parametrize("head", [b"\x91", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01", b"\x81\x01", b"\xde\x00\x01\xa1x"])
def test_every_kind_of_array_and_map_counts(head: bytes) -> None:
    assert not is_packed_too_deep(head * NESTING_LIMIT + b"\xc0")
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        assert is_packed_too_deep(head * (NESTING_LIMIT + 1) + b"\xc0")
        assert is_packed_too_deep(head * 100_000)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "packed", [b"", b"\xc1" * 600, b"\xdd\xff\xff\xff\xff" + b"\x90" * 600, b"\x91" * 501 + b"\xc1"]
)
def test_msgpack_that_cannot_be_read(packed: bytes) -> None:
    assert is_packed_too_deep(packed) == packed.startswith(b"\x91" * 501)
