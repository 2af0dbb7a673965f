"""Runs commands in a folder of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.programs import HUB, PATIENCE_S, PROJECT, environment

__all__ = ["run"]


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `hub` with some arguments to its end."""
    return subprocess.run(
        [*HUB, *arguments],
        cwd=folder,
        env=environment(PYTHONPATH=str(PROJECT), **variables),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
    )
