"""What was lost is told once, also of those who have left, and nothing is kept of them then."""

from __future__ import annotations

from hub.losses import Drops
from tests.hub.fakes import Bench


def test_losses_are_told_once_and_kept_apart() -> None:
    """What a full queue lost is not what the far side could not read; a report that finds nothing new is empty."""
    bench = Bench(messages=1)
    drops = Drops()
    bench.handler.attach(7, lambda _: None, drops.note)
    assert drops.report() == []
    bench.handler.pause()
    bench.offer(4)
    bench.handler.lose(2)
    first = drops.report()
    assert [(event.topic, event.value["lost"], event.value["total"]) for event in first] == [
        ("$hub/overflow", 3, 3),
        ("$hub/unreadable", 2, 2),
    ]
    drops.note(bench.handler)
    assert drops.report() == []
    bench.offer(1)
    assert [(event.value["lost"], event.value["total"]) for event in drops.report()] == [(1, 4)]


def test_a_handler_that_has_left() -> None:
    """It is told what it had lost until then, and it is forgotten; another one that lost nothing since is, too."""
    drops = Drops()
    quiet, lossy = Bench(messages=1), Bench(messages=1)
    for bench in (quiet, lossy):
        bench.handler.attach(7, lambda _: None, drops.note)
        bench.handler.pause()
        bench.offer(3)
    assert len(drops.report()) == 2
    lossy.offer(1)
    for bench in (quiet, lossy):
        bench.handler.shut()
        drops.forget(bench.handler)
    assert [event.value["lost"] for event in drops.report()] == [1]
    assert not drops._told
    assert not drops._dropping
