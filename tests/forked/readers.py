"""Readers of journals that are forked, which saves 0.11 to 0.25 s of imports each, for tests that are not about them.

In `tests/journal/test_readers.py`, and where hubs are new interpreters, readers are as users have them.
"""

from __future__ import annotations

import pytest

from peers.journal import readers
from tests.forked.offspring import fork_reader

__all__ = ["forked_readers"]


@pytest.fixture(autouse=True)
def forked_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "start_process", fork_reader)
