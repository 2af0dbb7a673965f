"""Bodies of frames as a stranger may send them."""

from __future__ import annotations

import msgpack
from hypothesis import strategies as st

__all__ = ["bodies"]

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=8,
)
packed = plain.map(msgpack.packb)
heads = st.sampled_from(
    [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc7\x0c\xff", b"\x91" * 3000, b"\xa1\xff", b"\xc1"]
)
bodies = st.binary(max_size=40) | packed | st.builds(lambda one, two: one[: len(one) // 2] + two, packed, heads)
"""Noise, values of any shape, and values that are cut, nested or lie about their size."""
