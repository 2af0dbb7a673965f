"""The tools of a build, fetched once as pip does for each build."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    required = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["release"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", folder, *required], check=True
    )
    return folder
