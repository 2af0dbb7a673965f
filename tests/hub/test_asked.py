"""What far sides are asked for: nothing before the first one needs it, then every change, for what counts."""

from __future__ import annotations

from hub.prefixes import Asked
from tests.hub.fakes import FarSide, handler_of


def test_what_is_wanted_of_stores_is_asked_for_beside_everything() -> None:
    asked = Asked(lambda _, __: True)
    handler = handler_of()
    handler.prefixes = {"": 1, "/a/": 1, "$store/s/changes": 1}
    asked.begin([handler])
    assert asked.minimal == ("", "$store/s/changes")
    asked.add(handler, "$store/s/")
    assert asked.minimal == ("", "$store/s/")
    asked.discard(handler, "")
    assert asked.minimal == ("/a/", "$store/s/")


def test_what_counts_is_asked_for() -> None:
    """Beside what is always asked for; and each far side hears only what changes the fewest prefixes."""
    asked = Asked(lambda _, prefix: not prefix.startswith("!"), ["/always"])
    handler, later = handler_of(), handler_of()
    handler.prefixes = {"/a/": 1, "!b": 1}
    assert asked.minimal == ()
    asked.add(later, "/not-yet-kept")
    asked.begin([handler])
    assert asked.minimal == ("/a/", "/always")
    assert len(asked) == 2
    far = FarSide()
    asked.tell(handler, far)
    for prefix in ("/a/b", "!c", "/c"):
        asked.add(later, prefix)
    assert far.known == {"/a/", "/always", "/c"}
    assert len(far.changes) == 2
    asked.discard(handler, "/a/")
    assert far.known == {"/a/b", "/always", "/c"}
    asked.begin([])
    asked.forget(handler)
    asked.forget(later)
    asked.discard(later, "/c")
    assert "/c" in far.known
    assert asked.minimal == ("/a/b", "/always")
