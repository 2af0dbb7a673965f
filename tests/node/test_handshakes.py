"""TLS handshakes: how many, for how long, in which order; nobody keeps others out, nobody has a turn for himself."""

from __future__ import annotations

import asyncio
from typing import cast

from hub.settings.sections import Limits
from peers.node.admission import STEPS_PER_TURN, Handshakes
from peers.transport.tls_transport import TlsTransport

FAR = "198.51.100.7:5000"


class Shaking:
    def __init__(self, address: str = FAR) -> None:
        self.address = address
        self.aborted = 0
        self.late = 0
        self.steps = 0

    def abort(self) -> None:
        self.aborted += 1

    def time_out(self) -> None:
        self.late += 1

    def shake(self) -> None:
        self.steps += 1


def handshakes(limit: int = 8, limit_s: float = 60.0) -> Handshakes:
    return Handshakes(Limits(tls_handshakes=limit, tls_handshake_s=limit_s), asyncio.get_running_loop())


def arrive(places: Handshakes, count: int, address: str = FAR) -> list[Shaking]:
    each = [Shaking(address) for _ in range(count)]
    for one in each:
        places.begin(cast("TlsTransport", one))
    return each


def end(places: Handshakes, each: list[Shaking]) -> None:
    for one in each:
        places.end(cast("TlsTransport", one))
        places.end(cast("TlsTransport", one))


async def test_a_turn_has_a_share_of_steps() -> None:
    places = handshakes(limit=100)
    each = arrive(places, 2 * STEPS_PER_TURN + 3)
    for one in each:
        places.is_due(cast("TlsTransport", one))
    counts = []
    while not each[-1].steps:
        await asyncio.sleep(0)
        counts.append(sum(one.steps for one in each))
        assert [one.steps for one in each] == sorted((one.steps for one in each), reverse=True)
    taken = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(taken) == STEPS_PER_TURN
    assert counts[-1] == len(each)
    end(places, each)


async def test_a_flood_leaves_nothing_in_the_line() -> None:
    places = handshakes(limit=16)
    every: list[Shaking] = []
    for _ in range(50):
        some = arrive(places, 2 * STEPS_PER_TURN)
        every += some
        for one in some:
            places.is_due(cast("TlsTransport", one))
        assert len(places._line) <= 16
        await asyncio.sleep(0)
    assert all(one.steps + one.aborted >= 1 for one in every[:-16])
    end(places, every)
    assert not places._line


async def test_the_hub_stops() -> None:
    places = handshakes()
    each = arrive(places, 3)
    places.close()
    (late,) = arrive(places, 1)
    assert [one.aborted for one in (*each, late)] == [1] * 4
    assert not len(places)
    assert not places._timers
