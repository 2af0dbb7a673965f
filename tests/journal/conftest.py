"""Stores that a test has opened are closed; readers are forked, but for the tests of readers themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.journal import readers
from tests.forked.offspring import fork_reader
from tests.hubs.fixtures import uncaught
from tests.journal.files import close_stores
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories", "uncaught"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture(autouse=True)
def stores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.path.name != "test_readers.py":
        monkeypatch.setattr(readers, "start_process", fork_reader)
    yield
    close_stores()
