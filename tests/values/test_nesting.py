"""How deep a JSON text or a msgpack value is nested, on every Python alike."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.values.nesting import NESTING_LIMIT, is_nested_too_deep, is_packed_too_deep

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
    """Brackets within strings and keys do not count, nor do those that are closed before others open."""
    text = json.dumps([tree, [[]] * 300] if many else tree).encode()
    depth = _depth([tree, [[]]] if many else tree)
    assert is_nested_too_deep(b"[" * around + text + b"]" * around) == (around + depth > NESTING_LIMIT)


@pytest.mark.parametrize("text", [b"[" * 501, b'{"a":' * 501, b"[" * 100_000, b'"]"' + b"[" * 501])
def test_what_never_ends(text: bytes) -> None:
    """Is too deep, whatever else is wrong with it."""
    assert is_nested_too_deep(text)


@pytest.mark.parametrize("text", [b"", b"[" * 500, b"[]" * 5000, b'"' + b"[" * 501, b"]" * 600 + b"[" * 501])
def test_what_is_not_deep(text: bytes) -> None:
    """Though it may be no JSON."""
    assert not is_nested_too_deep(text)


whole = st.integers(-(2**63), 2**64 - 1)
packed_leaves = st.none() | whole | st.floats() | st.binary(max_size=3) | st.just(b"\x91" * 600)
packed_trees = st.recursive(
    packed_leaves,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(whole, inner, min_size=1),
)


@given(packed_trees, st.integers(NESTING_LIMIT - 8, NESTING_LIMIT))
def test_depth_of_msgpack(tree: Any, around: int) -> None:
    """Strings and binaries full of what could begin arrays do not count, nor does what stands beside."""
    beside = [[1]] * 600
    packed = b"\x91" * (around - 1) + msgspec.msgpack.encode([beside, tree])
    depth = max(_depth([beside]), _depth([tree]))
    assert is_packed_too_deep(packed) == (around - 1 + depth > NESTING_LIMIT)


@pytest.mark.parametrize("head", [b"\x91", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01", b"\x81\x01", b"\xde\x00\x01\xa1x"])
def test_every_kind_of_array_and_map_counts(head: bytes) -> None:
    """Whatever its header, and whatever the recursion limit of the interpreter is."""
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
    """Is left to its reader, unless it is too deep before that."""
    assert is_packed_too_deep(packed) == packed.startswith(b"\x91" * 501)
