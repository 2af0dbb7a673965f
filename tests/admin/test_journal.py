"""`$hub/journal`: how the journal of a hub that listens stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.errors import RequestFailedError
from hub.settings.sections import JournalSettings
from hub.settings.settings import Settings
from peers.admin.services import add_services
from peers.client import connect
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub


async def test_of_a_hub_that_records(start_hub: StartHub, tmp_path: Path) -> None:
    settings = Settings(journal=JournalSettings(path=str(tmp_path / "journal"), topics=("/a/",), keep_s=3600.0))
    hub = await start_hub(settings=settings)
    add_services(hub.node)
    async with connect(hub.endpoint.location) as client:
        before = await client.request("$hub/journal", None)
        assert (before["first"], before["committed"], before["tier"]) == (0, 0, None)
        for number in range(5):
            assert await client.publish_confirmed("/a/x", number) == number
        await client.publish("/b", "not recorded")
        told = await client.request("$hub/journal", None)
        assert told["id"] == hub.node.journal.id.hex()
        assert (told["first"], told["committed"], told["recorded_messages_total"]) == (0, 5, 5)
        assert (told["topics"], told["keep_s"], told["error"]) == (["/a/"], 3600.0, "")
        assert told["size_bytes"] > before["size_bytes"]
        assert told["at_s"] >= before["at_s"]


async def test_of_a_hub_that_records_nothing(hub: Hub) -> None:
    async with connect(hub.endpoint.location) as client:
        assert await client.request("$hub/journal", None) is None
        with pytest.raises(RequestFailedError, match="expected null"):
            await client.request("$hub/journal", 7)
