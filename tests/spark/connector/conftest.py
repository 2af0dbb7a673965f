"""A hub with a journal, for what talks to one without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.spark.connector.connection import close_all
from tests.spark.hubs import HubWithJournal


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubWithJournal]:
    """A hub of one test; what the process has kept of connections is closed behind it."""
    with HubWithJournal(tmp_path / "journal") as hub:
        yield hub
    close_all()
