"""Tests with a loop run on the hub's, and those of reader processes on asyncio's as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hubs.fixtures import uncaught
from tests.journal.files import close_stores
from tests.loops import Loops, on_the_hubs_loop
from tests.loops import pytest_asyncio_loop_factories as on_each_loop

__all__ = ["uncaught"]


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    return on_each_loop() if item.path.name == "test_readers.py" else on_the_hubs_loop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture(autouse=True)
def stores() -> Iterator[None]:
    yield
    close_stores()
