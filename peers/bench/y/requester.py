"""The requester: a process of its own that makes pairs, has them worked out, and checks the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peers.bench.board import Board
from peers.bench.errors import BenchError
from peers.bench.orders import Ask, Asked, Ready, RequesterSetup
from peers.bench.station import Station, serve
from peers.bench.y.bodies import options
from peers.bench.y.loop import orders_of, run
from peers.bench.y.score import Score
from peers.bench.y.singly import ask_many, ask_one
from peers.client import Client, connect

if TYPE_CHECKING:
    from peers.bench.y.batched import Batches

__all__: list[str] = []


class _Requester:
    """One connection that asks."""

    def __init__(self, client: Client, setup: RequesterSetup, board: Board) -> None:
        self._client = client
        self._setup = setup
        self._board = board
        self._batches: Batches | None = None

    async def ask(self, order: Ask) -> Asked:
        """Carry out an order."""
        topic = self._setup.topic
        batches = self._arrays() if order.mode == "batched" else None
        score = Score(order, self._board)
        if batches is not None:
            await batches.ask(order, score)
        elif order.mode == "many":
            await ask_many(self._client, topic, order, score)
        else:
            await ask_one(self._client, topic, score)
        return score.asked()

    def _arrays(self) -> Batches:
        """Load NumPy only for those who need it."""
        if self._batches is None:
            from peers.bench.y.batched import Batches  # noqa: PLC0415 -- optional

            setup = self._setup
            self._batches = Batches(self._client, setup.topic, setup.requester, shared=setup.shared)
        return self._batches


async def _work(station: Station, setup: RequesterSetup, board: Board) -> None:
    chosen = options("y requester", shared=setup.shared, ring_bytes=setup.ring_bytes)
    async with await connect(setup.url, **chosen) as client:
        requester = _Requester(client, setup, board)
        station.answer(Ready())
        async for order in orders_of(station):
            if not isinstance(order, Ask):
                raise BenchError(f"{order} is nothing for a requester")
            station.answer(await requester.ask(order))


def _run(station: Station, setup: RequesterSetup, board: Board) -> None:
    run(_work(station, setup, board))


if __name__ == "__main__":
    serve(RequesterSetup, _run)
