"""What the tests of the command line share: one real hub, and journals."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.journals import AT_US, commit, fill, opened
from tests.cli.programs import RunningHub, run_hub
from tests.hubs.fixtures import journal_url

__all__ = ["journal_url"]


@pytest.fixture(scope="session")
def running_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with run_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("full") / "journal"
    store = opened(path)
    fill(store, 5)
    commit(store, ("/end", "last"), at_us=AT_US + 60_000_000)
    store.close()
    return path


@pytest.fixture
def full(template: Path, path: Path) -> Path:
    shutil.copytree(template, path)
    return path
