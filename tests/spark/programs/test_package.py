"""The zip for executors."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hub.errors import UsageError
from peers.spark.package import write_package


def test_it_runs_from_the_zip_alone(tmp_path: Path) -> None:
    package = tmp_path / "topichub.zip"
    count = write_package(package)
    names = zipfile.ZipFile(package).namelist()
    assert len(names) == count
    assert {"hub/multimap.py", "peers/spark/route.py"} <= set(names)
    assert all(name.endswith(".py") for name in names)
    program = (
        "import hub, peers.client, peers.spark.route as route;"
        f"assert hub.__file__.startswith({str(package)!r}), hub.__file__;"
        f"assert route.__file__.startswith({str(package)!r}), route.__file__;"
        "import hub.stretch"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package)!r}); {program}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_same_sources_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_package(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing/x\.zip: No such file"):
        write_package(tmp_path / "nothing" / "x.zip")
