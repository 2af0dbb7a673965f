"""What an archive remembers, and its lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.errors import BusyError, UsageError
from peers.spark.archiving.state import HUB, ArchiveState, load, locked, store


def test_one_job_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(BusyError, match="another job writes this archive"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_what_cannot_be_read_or_written(tmp_path: Path) -> None:
    (tmp_path / HUB).mkdir()
    (tmp_path / HUB / "archive.json").write_text("{")
    with pytest.raises(UsageError, match=r"archive\.json"):
        load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file"), locked(tmp_path / "file"):
        pass
    with pytest.raises(UsageError, match=r"archive\.json"):
        store(tmp_path / "nothing", ArchiveState("iceberg", ()))
