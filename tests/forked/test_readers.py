"""Readers that are forked are asked for by hubs as others are."""

from __future__ import annotations

from pathlib import Path

import pytest

from peers.client import connect
from peers.journal import readers
from tests.client.recording import RecordingHub
from tests.forked.program import Program, origins
from tests.forked.readers import forked_readers
from tests.hubs.hub import LOOPBACK

__all__ = ["forked_readers"]


async def test_a_hub_reads_its_journal_through_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    start = readers._start
    monkeypatch.setattr(readers, "_start", lambda *given: started.append(start(*given)) or started[-1])
    hub = RecordingHub(tmp_path / "journal")
    await hub.start(LOOPBACK)
    async with connect(hub.url) as client:
        await client.publish_confirmed("/a", 1)
        assert [record.value async for record in client.read("/a", start=0)] == [1]
    await hub.stop()
    (reader,) = started
    assert isinstance(reader, Program)
    assert reader.pid in origins
    assert reader.returncode == 0
