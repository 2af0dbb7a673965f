"""The examples of docs/command-line.md that need a journal."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.journal.journals import commit, opened
from tests.cli.programs import PATIENCE_S, PROJECT, environment_of_shell

BLOCKS = re.findall(
    r"^<!-- runs on a journal -->\n```sh\n(.*?)^```$",
    (PROJECT / "docs" / "command-line.md").read_text(),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("block", BLOCKS)
def test_examples_on_a_journal_run(tmp_path: Path, block: str) -> None:
    store = opened(tmp_path / "journal")
    commit(store, *((f"/zeek/{('dns', 'ssl')[number % 2]}", {"n": number}) for number in range(300)))
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=tmp_path,
        env=environment_of_shell(tmp_path),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    store.close()
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert result.stdout
