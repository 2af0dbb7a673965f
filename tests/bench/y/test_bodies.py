"""How arrays become values, and how what came is looked at."""

from __future__ import annotations

from peers.bench.y.bodies import opened, options, ring_bytes_for
from peers.bench.y.plan import Plan


def test_bytes_are_looked_at_as_they_are() -> None:
    """Nothing is to be left."""
    with opened(b"results") as body:
        assert body == b"results"


def test_options_of_a_client() -> None:
    """Without shared memory none is used, whatever the size; with it, what comes is not copied."""
    assert options("n", shared=False, ring_bytes=5) == {"name": "n", "reconnect": False, "shared_memory": False}
    chosen = options("n", shared=True, ring_bytes=5)
    assert (chosen["views"], chosen["ring_bytes"]) == (True, 5)


def test_a_ring_has_room_for_all_that_is_outstanding() -> None:
    """Twice, and never too little for a block."""
    assert ring_bytes_for(1) == 1 << 20
    plan = Plan(batch=131_072, batches=4)
    assert plan.ring_bytes == 2 * 4 * 131_072 * 32
