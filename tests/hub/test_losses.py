"""Who has lost messages in the last minute, and what was lost last."""

from __future__ import annotations

from hub.losses import KEPT, NAMED, Loss, Losses


def loss(second: int, number: int = 1, messages: int = 1, label: str = "") -> Loss:
    return Loss(second, number, label or f"n{number}", messages, "drop-oldest")


def test_losses_of_a_minute_are_added_up() -> None:
    losses = Losses()
    for second, number, messages in [(100, 1, 5), (101, 1, 6), (130, 2, 7), (159, 1, 1)]:
        losses.add(loss(second, number, messages))
    found = losses.minute(159)
    assert (found.messages, found.named, found.labels, found.others) == (19, {1: 12, 2: 7}, {1: "n1", 2: "n2"}, 0)


def test_what_is_older_counts_no_more() -> None:
    losses = Losses()
    losses.add(loss(100, 1, 5))
    losses.add(loss(130, 2, 7))
    assert losses.minute(155).named == {1: 5, 2: 7}
    assert losses.minute(160) == (7, {2: 7}, {2: "n2"}, 0)
    assert losses.minute(1000) == (0, {}, {}, 0)


def test_a_handler_has_the_name_that_it_had() -> None:
    losses = Losses()
    for second in range(100, 200, 5):
        losses.add(loss(second, 1))
        assert losses.minute(second).labels == {1: "n1"}
    assert losses.minute(199).messages == 12


def test_very_many_are_counted_together() -> None:
    losses = Losses()
    for number in range(NAMED + 10):
        losses.add(loss(100, number, 2))
        losses.add(loss(101, number, 1))
    found = losses.minute(101)
    assert (found.messages, len(found.named), found.others) == (3 * (NAMED + 10), NAMED, 30)


def test_the_last_ones_are_told_newest_first() -> None:
    losses = Losses()
    for second in range(KEPT + 5):
        losses.add(loss(second, second % 2))
    assert [one.second for one in losses.last(limit=3)] == [KEPT + 4, KEPT + 3, KEPT + 2]
    assert [one.second for one in losses.last(1, 2)] == [KEPT + 3, KEPT + 1]
    assert len(losses.last()) == KEPT
    assert losses.last(limit=0) == []
    assert losses.last(4711) == []
