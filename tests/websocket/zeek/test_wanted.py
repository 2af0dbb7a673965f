"""What a Zeek is asked for, and whether that is enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.filter import Filter
from peers.websocket.zeek.codec import Wanted

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
