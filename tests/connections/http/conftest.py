"""Hubs with a journal that listen for HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.settings.settings import JournalSettings, Settings
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub

StartRecording = Callable[..., Awaitable[Hub]]


@pytest.fixture
def start_recording(start_hub: StartHub, tmp_path: Path) -> StartRecording:
    async def start(*topics: str, settings: Settings | None = None, **journal: Any) -> Hub:
        path = str(tmp_path / "journal.db")
        recording = JournalSettings(path=path, topics=topics or ("/",), commit_s=0.001, **journal)
        return await start_hub(settings=msgspec.structs.replace(settings or Settings(), journal=recording))

    return start
