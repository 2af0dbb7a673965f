"""What a Zeek is asked for, and whether that is enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.filter import Change, Filter
from peers.websocket.zeek.codec import Wanted


def test_covered_or_not() -> None:
    """What is below something that was asked for needs no new connection."""
    wanted = Wanted()
    wanted.change(Change(("/a", "/b")))
    assert not wanted.is_covered
    assert wanted.ask() == ["/a", "/b"]
    assert wanted.is_covered
    wanted.change(Change(("/a/x",), ("/a",)))
    assert wanted.is_covered
    wanted.change(Change(("/c",)))
    assert not wanted.is_covered
    wanted.change(Change((), ("/c",)))
    assert wanted.is_covered
    assert wanted.ask() == ["/a/x", "/b"]


def test_the_empty_prefix_covers_all() -> None:
    """Whatever is wanted behind it needs no further question."""
    wanted = Wanted()
    wanted.change(Change(("",)))
    assert wanted.ask() == [""]
    wanted.change(Change(("/a", "x"), ("",)))
    assert wanted.is_covered


_PREFIXES = st.text("ab/", max_size=4)


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "ask"]), _PREFIXES)))
def test_against_looking_at_all(steps: list[tuple[str, str]]) -> None:
    """Whatever the order of changes: covered means that each wanted prefix begins with one that was asked for."""
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
