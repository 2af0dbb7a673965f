"""Bodies of RULE and UNRULE."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, RejectedError
from hub.frame import iterate_frames
from hub.tags.rules import Rule, check_rule
from peers.wire.control import RULES_PER_FRAME, RuleChange, decode_rules, encode_rules
from peers.wire.kinds import Kind

rules = st.lists(
    st.builds(
        Rule,
        st.sets(st.text("abé", min_size=1, max_size=3), min_size=1, max_size=4).map(lambda some: tuple(sorted(some))),
        st.sampled_from(("", "/a")),
        st.sampled_from(("", "a.b")),
    ),
    max_size=5,
)


@given(st.sampled_from((Kind.RULE, Kind.UNRULE)), rules, st.integers(0, 2**32))
def test_out_and_back(kind: Kind, some: list[Rule], request: int) -> None:
    (frame,) = iterate_frames(encode_rules(kind, some, request))
    change = decode_rules(frame.kind, frame.body)
    assert change == RuleChange(kind is Kind.RULE, [tuple(rule) for rule in some], request)
    assert [check_rule(*fields) for fields in change.rules] == some


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x90",
        msgpack.packb([-1, []]),
        msgpack.packb([1, [["a", "", ""]]]),
        msgpack.packb([1, [[["a"]]]]),
        msgpack.packb([1, [[["a"] * 33, "", ""]]]),
        msgpack.packb([1, [[["a"], "", ""]] * (RULES_PER_FRAME + 1)]),
    ],
)
def test_what_is_no_such_array(body: bytes) -> None:
    with pytest.raises(RejectedError, match="UNRULE: ") as refused:
        decode_rules(Kind.UNRULE, body)
    assert refused.value.code == CloseCode.BAD_DATA
