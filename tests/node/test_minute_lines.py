"""Of many events of one kind, one a minute is logged."""

from __future__ import annotations

from peers.node.node import KEYS_LIMIT, MinuteLines


def test_one_line_a_minute_stands_for_all() -> None:
    lines = MinuteLines()
    assert [lines.add("a", now_s) for now_s in (5.0, 5.1, 64.9)] == [1, 0, 0]
    assert lines.add("b", 64.9) == 1
    assert lines.add("a", 65.0) == 3
    assert lines.add("a", 65.1) == 0


def test_keys_are_bounded() -> None:
    lines = MinuteLines()
    for key in range(KEYS_LIMIT + 1):
        assert lines.add(key, 0.0) == 1
    assert lines.add(1, 1.0) == 0
    assert lines.add(0, 1.0) == 1
