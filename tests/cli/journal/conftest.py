"""Journals that tests of `hub journal` begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.journal.journals import AT_US, commit, fill, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def full(path: Path) -> Path:
    store = opened(path)
    fill(store, 5)
    commit(store, ("/end", "last"), at_us=AT_US + 60_000_000)
    store.close()
    return path
