"""Values that would end a C++ Broker's process: found by how their containers nest, not by their size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from peers.zeek.broker.writing import LEVELS_LIMIT, STEPS_LIMIT, UNREAD_BYTES, _reaches, nests_too_deep
from tests.zeek.broker.test_writing import written

NONE, COUNT = b"\x00", b"\x02" + bytes(8)
EMPTY_VECTOR = b"\x0e\x00"


def nested(levels: int, opener: bytes = b"\x0e\x01", inner: bytes = NONE) -> bytes:
    return opener * levels + inner


def large(value: bytes) -> bytes:
    return b"\x0e\x02" + b"\x05\x80\x80\x04" + b"x" * 65536 + value


DEEP = {
    "vectors": nested(LEVELS_LIMIT + 1),
    "500,000 vectors": nested(500_000),
    "sets": nested(LEVELS_LIMIT + 1, b"\x0c\x01"),
    "tables, in their values": nested(LEVELS_LIMIT + 1, b"\x0d\x01" + COUNT),
    "vectors with something before": nested(LEVELS_LIMIT + 1, b"\x0e\x02" + COUNT),
    "vectors that are not complete": nested(LEVELS_LIMIT + 1, inner=b""),
    "behind a string": large(nested(LEVELS_LIMIT)),
}
HARMLESS = {
    "as deep as may be": nested(LEVELS_LIMIT, b"\x0e\x02" + COUNT) + NONE * LEVELS_LIMIT,
    "a string of openers": b"\x05\x80\x80\x04" + b"\x0e" * 65536,
    "many that are empty": b"\x0e\xa0\x9c\x01" + EMPTY_VECTOR * 20_000,
    "many of one": b"\x0e\xa0\x9c\x01" + b"\x0e\x01\x00" * 20_000,
    "openers behind the value": NONE + b"\x0e\x01" * 20_000,
    "no value": b"\xff" + b"\x0e\x01" * 20_000,
    "a length without an end": b"\x0e" + b"\x8e" * 40_000,
}


@pytest.mark.parametrize("case", DEEP)
def test_too_deep(case: str) -> None:
    assert nests_too_deep(DEEP[case])


@pytest.mark.parametrize("case", HARMLESS)
def test_not_too_deep(case: str) -> None:
    assert len(HARMLESS[case]) > UNREAD_BYTES
    assert not nests_too_deep(HARMLESS[case])


def test_what_is_small_cannot_be_deep() -> None:
    assert not nests_too_deep(nested(UNREAD_BYTES // 2, inner=b""))


def test_a_search_has_an_end() -> None:
    wide = b"\x0e\xc0\x9a\x0c" + EMPTY_VECTOR * (STEPS_LIMIT + 1)
    assert nests_too_deep(wide)


_values = st.recursive(
    st.sampled_from(
        [NONE, COUNT, b"\x01\x01", b"\x05\x02\x0e\x0e", b"\x0b\x01\x0c", b"\x08\x00\x35\x02", b"\x07" + bytes(17)]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda some: bytes((14, len(some))) + b"".join(some)),
        st.lists(inner, max_size=4).map(lambda some: bytes((12, len(some))) + b"".join(some)),
        st.lists(st.tuples(inner, inner), max_size=3).map(
            lambda some: bytes((13, len(some))) + b"".join(key + value for key, value in some)
        ),
    ),
    max_leaves=30,
)


def depth(body: bytes, position: int = 0) -> tuple[int, int]:
    tag = body[position]
    if tag not in (12, 13, 14):
        if tag in (5, 11):
            return 0, position + 2 + body[position + 1]
        return 0, position + 1 + {0: 0, 1: 1, 2: 8, 7: 17, 8: 3}[tag]
    deepest, end = 0, position + 2
    for _ in range(body[position + 1] * (2 if tag == 13 else 1)):
        levels, end = depth(body, end)
        deepest = max(deepest, levels)
    return deepest + 1 if body[position + 1] else 0, end


@given(body=_values, limit=st.integers(0, 6))
def test_against_recursion(body: bytes, limit: int) -> None:
    assert _reaches(body, limit) == (depth(body)[0] > limit)


def test_it_is_lost_alone() -> None:
    bodies = [NONE, nested(500_000), HARMLESS["many of one"], NONE]
    frames = b"".join(encode_frame(KIND_MESSAGES, body, key=b"/a", flags=BROKER_FLAGS) for body in bodies)
    found, lost = written(frames, len(bodies))
    assert found == [(b"/a", bodies[0]), (b"/a", bodies[2]), (b"/a", bodies[3])]
    assert lost == 1
