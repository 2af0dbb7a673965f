"""Readers of journals that are forked, as `program` forks commands, for tests that are not about their processes.

A hub in the test's own process starts a reader for the first request for history: 0.11 to 0.25 s of work as a new
interpreter, nearly all of it imports. In `tests/journal`, and where hubs are new interpreters, readers are what users
have.
"""

from __future__ import annotations

import pytest

from peers.journal import readers
from tests.forked.offspring import fork_reader

__all__ = ["forked_readers"]


@pytest.fixture(autouse=True)
def forked_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "start_process", fork_reader)
