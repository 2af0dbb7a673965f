"""Hubs that listen for HTTP, with and without a journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.settings.settings import JournalSettings, Settings
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["StartRecording", "pytest_asyncio_loop_factories"]

StartRecording = Callable[..., Awaitable[Hub]]


@pytest.fixture
def default_url() -> str:
    return "ws://127.0.0.1:0"


@pytest.fixture
def start_recording(start_hub: StartHub, tmp_path: Path) -> StartRecording:
    async def start(*topics: str, settings: Settings | None = None, **journal: Any) -> Hub:
        path = str(tmp_path / "journal.db")
        recording = JournalSettings(path=path, topics=topics or ("/",), commit_s=0.001, **journal)
        return await start_hub(settings=msgspec.structs.replace(settings or Settings(), journal=recording))

    return start
