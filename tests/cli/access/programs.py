"""Runs commands in a folder of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.programs import PATIENCE_S, environment
from tests.forked.program import run as run_program


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = run_program(*arguments, stdin=b"", timeout_s=PATIENCE_S, cwd=folder, env=environment(**variables))
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
