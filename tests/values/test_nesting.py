"""How deep a JSON text is nested, on every Python alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.values.nesting import NESTING_LIMIT, is_nested_too_deep

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
