"""A tier in a folder and in a bucket: what is promised of one is promised of the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.journal.tier.place import Place, place_at
from tests.hubs.fixtures import uncaught
from tests.journal.tier.made import bucket
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["place", "pytest_asyncio_loop_factories", "uncaught"]


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if request.param == "folder":
        (tmp_path / "tier").mkdir()
        yield place_at(str(tmp_path / "tier"))
        return
    with bucket(monkeypatch) as served:
        yield place_at(served.address)
