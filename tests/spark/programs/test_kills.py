"""kill -9 of driver, Java and workers, in a short form; `tests/soak/spark_kills.py` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.spark_kills import kill_archive, kill_stream


@pytest.mark.timeout(600)
def test_an_archive_has_each_record_once(tmp_path: Path) -> None:
    kill_archive(tmp_path / "archive", kills=1, messages=40_000, seed=1)


@pytest.mark.timeout(900)
def test_each_table_has_each_record_once(tmp_path: Path) -> None:
    """Whenever the job is killed: when some of the tables have their part of a batch, and at any other time."""
    kill_archive(tmp_path / "archive", kills=2, messages=40_000, seed=1, tables=40)


@pytest.mark.timeout(600)
def test_a_copy_has_each_record_once(tmp_path: Path) -> None:
    kill_stream(tmp_path / "copy", kills=1, messages=40_000, seed=1)
