"""The examples of docs/journal.md: what is Python runs against a hub with a journal, what is shell is understood."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError

from peers.cli.commands import app
from peers.client import Client, connect
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "journal.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SHELL = sorted(set(re.findall(r"^hub .*|(?<=`)hub \w+ [^`]*(?=`)", TEXT, re.MULTILINE)))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    loaded = load({"listen": [f"unix://{tmp_path}/hub.sock"], "journal": {"path": str(tmp_path / "journal")}}, {})
    daemon = Daemon(loaded, "site-b")
    await daemon.start()
    try:
        async with connect(daemon.endpoints[0].location) as client:
            for number in range(10):
                await client.publish_confirmed("/zeek/dns", number)
            yield client
    finally:  # a hub that is left behind keeps the interpreter from ending
        await daemon.stop()


def test_there_are_examples() -> None:
    assert len(PYTHON) >= 3
    assert len(SHELL) >= 6


@pytest.mark.parametrize("block", PYTHON, ids=range(len(PYTHON)))
async def test_python(block: str, client: Client) -> None:
    ending = re.sub(r"^( +)\.\.\.$", r"\1break", block, flags=re.MULTILINE)
    code = compile(ending, "docs/journal.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {"client": client}
    made = eval(code, names)  # noqa: S307 -- our own page
    if inspect.isawaitable(made):
        await made
    assert names.get("offset", 10) == 10


@pytest.mark.parametrize("line", SHELL)
def test_shell(line: str) -> None:
    words = line.partition("#")[0].split()[1:]
    try:
        app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        pytest.fail(f"{line}: {error}")
