"""Small runs of pytest, with the plugins of this folder, in a project of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]

PATIENCE_S = 100
"""How long a run may take; only one that hangs takes so long."""


PYTEST = [
    *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
    *("-p", "xdist.plugin", "-p", "pytest_timeout", "-p", "tests.suite.plugin"),
]
"""Only the plugins that are needed: each one is loaded anew by each worker."""


def environment() -> dict[str, str]:
    """This environment, without what a worker of the run around the small one has in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    ours = {"PYTHONPATH": str(PROJECT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return kept | ours | {"LEFTOVERS_GRACE_S": "0.5"}  # what is left behind there is left behind for good


@dataclass(frozen=True)
class SmallRun:
    code: int
    said: str

    def count(self, outcome: str) -> int:
        found = re.search(rf"(\d+) {outcome}", self.said.splitlines()[-1])
        return int(found[1]) if found else 0


def run(folder: Path, files: dict[str, str], *arguments: str) -> SmallRun:
    tests = folder / "project"
    tests.mkdir()
    (tests / "pytest.ini").write_text("[pytest]\n")
    for name, source in files.items():
        (tests / name).write_text(source)
    done = subprocess.run(
        [*PYTEST, "--numprocesses=2", *arguments, str(tests)],
        cwd=tests,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    return SmallRun(done.returncode, done.stdout)
