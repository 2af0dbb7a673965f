"""The journal of a hub with workers is read through any of them."""

from __future__ import annotations

from pathlib import Path

from peers.client.journal import Record
from tests.workers.conftest import SpreadClients, StartWorkers


async def test_some_columns(start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    for client in await spread(hub.endpoints[0].location):
        start = await client.publish_confirmed("/a", "x" * 100_000)
        read = client.read(start=start, columns=("offset", "topic"))
        assert [record async for record in read] == [Record(start, 0, "/a", None)]
        few, all_of_it = [
            [len(block) async for piece in client.read(start=start, columns=columns).pieces() for block in piece.blocks]
            for columns in (("offset", "topic"), None)
        ]
        assert len(few) == len(all_of_it) == 1
        assert few[0] < 100
        assert all_of_it[0] > 100_000
