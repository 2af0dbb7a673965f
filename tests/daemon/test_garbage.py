"""The collector has little to walk over, however much is alive; and what is garbage goes in the end."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator

import pytest

from peers.daemon.memory import CLOSED_LEAST, GarbageWatch, undisturbed
from tests.garbage import set_aside


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    yield
    gc.unfreeze()
    set_aside()


def test_what_survives_a_second_is_not_walked_over_again() -> None:
    watch = GarbageWatch()
    alive = [[number] for number in range(100_000)]
    assert len(gc.get_objects()) > 100_000
    watch.tick(10, 0)
    assert len(gc.get_objects()) < 1_000
    assert len(alive) == 100_000


def test_cycles_of_closed_connections_go_when_many_were_closed() -> None:
    for open_connections, closed, short, is_collected in (
        (10, CLOSED_LEAST, False, False),
        (10, CLOSED_LEAST + 1, False, True),
        (4 * CLOSED_LEAST, 2 * CLOSED_LEAST, False, False),
        (4 * CLOSED_LEAST, 2 * CLOSED_LEAST + 1, False, True),
        (9_000, 1, True, True),
        (9_000, 0, True, False),
    ):
        watch = GarbageWatch()
        cycle = Cycle()
        seen = weakref.ref(cycle)
        watch.tick(open_connections, 0)
        del cycle
        watch.tick(open_connections, closed, is_memory_short=short)
        assert (seen() is None) is is_collected


def test_young_garbage_is_not_frozen() -> None:
    watch = GarbageWatch()
    cycle = Cycle()
    seen = weakref.ref(cycle)
    del cycle
    watch.tick(0, 0)
    assert seen() is None


def test_nothing_is_collected_while_something_large_is_made() -> None:
    watch = GarbageWatch()
    collections = [each["collections"] for each in gc.get_stats()]
    with undisturbed():
        alive = [[number] for number in range(100_000)]
        watch.tick(10, 0)
        assert [each["collections"] for each in gc.get_stats()] == collections
    assert len(gc.get_objects()) < 1_000
    assert gc.isenabled()
    assert len(alive) == 100_000


def test_what_is_made_at_the_same_time_is_not_disturbed_by_who_is_ready_first() -> None:
    first, second = undisturbed(), undisturbed()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    with contextlib.suppress(ValueError):
        second.__exit__(ValueError, ValueError(), None)
    assert gc.isenabled()
