"""Each worker rewrites its share, and all of them together all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite.rewriting import files_of, rewrite_share


def kept(folder: Path) -> set[str]:
    return {file.name.partition(".")[0] for file in folder.rglob("*.pyc")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files of tests, one of which cannot be parsed, and one that has none."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    for name, text in {"test_a": "assert 1", "test_b": "assert", "test_c": "assert 2", "other": "assert 3"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def test_shares(folder: Path, pytestconfig: pytest.Config) -> None:
    files = files_of(["."], folder)
    rewrite_share(pytestconfig, files, 1, 2)
    assert kept(folder) == set()
    rewrite_share(pytestconfig, files[:1], 0, 2)
    assert kept(folder) == {"test_a"}
    rewrite_share(pytestconfig, files, 2, 2)
    assert kept(folder) == {"test_a", "test_c"}


def test_what_was_asked_for(folder: Path) -> None:
    assert [
        file.name for file in files_of(["test_c.py::test_one", "test_a.py", str(folder / "test_c.py")], folder)
    ] == [
        "test_a.py",
        "test_c.py",
    ]
    assert [file.stem for file in files_of([str(folder)], folder)] == ["test_a", "test_b", "test_c"]


def test_what_was_rewritten_is_left_alone(folder: Path, pytestconfig: pytest.Config) -> None:
    files = files_of(["."], folder)[:1]
    rewrite_share(pytestconfig, files, 0, 1)
    (done,) = folder.rglob("*.pyc")
    before = done.stat().st_mtime_ns, done.stat().st_ino
    rewrite_share(pytestconfig, files, 0, 1)
    assert (done.stat().st_mtime_ns, done.stat().st_ino) == before
