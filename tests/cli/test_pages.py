"""Every `hub` command in the shell blocks of the documents has flags and arguments that the command line knows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from peers.cli.commands import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")} - {ROOT / "docs/command-line.md"}
)
"""All but the page whose commands `test_docs` runs."""
BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENDS = {"|", ">", "<", "&", "&&", ";", "2>"}
"""Words that end a command in a shell."""


def commands(page: Path) -> list[str]:
    lines = "\n".join(BLOCK.findall(page.read_text())).replace("\\\n", " ").splitlines()
    return [line for line in lines if re.match(r"(\$ )?(\w+=\S+ )*hub [a-z]", line)]


def words(line: str) -> list[str]:
    found = shlex.split(line, comments=True)
    found = found[found.index("hub") + 1 :]
    return found[: next((index for index, word in enumerate(found) if word in ENDS), None)]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_commands(page: Path) -> None:
    failures = []
    for line in commands(page):
        try:
            app.parse_args(words(line), print_error=False, exit_on_error=False)
        except CycloptsError as error:
            failures.append(f"{line}: {error}")
    assert not failures
