"""Tests with a loop run on asyncio's and on uvloop, and fail if the loop met an error that nobody caught."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hubs.fixtures import pytest_asyncio_loop_factories, uncaught
from tests.journal.regroup.made import journal

__all__ = ["path", "pytest_asyncio_loop_factories", "uncaught"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with three sealed segments of 40 KiB, and one that is not."""
    return journal(tmp_path / "journal")
