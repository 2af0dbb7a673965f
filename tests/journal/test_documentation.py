"""The examples of docs/journal.md and docs/tier.md: what is Python runs, what is shell is understood."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError

from hub.messages.batch import Batch
from peers.cli.commands import app
from peers.client import Client, connect
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.journal.tier.place import place_at
from tests.journal.files import AT_US, opened
from tests.journal.tier.made import copy, id_of

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


# docs/tier.md.

TIER = (ROOT / "docs" / "tier.md").read_text()


def copied(folder: Path, *topics: str) -> tuple[Path, str]:
    path, tier = folder / "journal", folder / "tier"
    tier.mkdir()
    store = opened(path, segment_bytes=1)
    for topic in topics:
        store.add([(AT_US, Batch.of(topic, [{"n": 1}, {"n": 2}]).frames)])
        store.commit(now_us=AT_US)
    store.close()
    copy(path, place_at(str(tier)))
    return tier, id_of(path).hex()


def test_pandas_reads_it(tmp_path: Path) -> None:
    tier, journal = copied(tmp_path, "/zeek/dns", "/zeek/ssl")
    (example,) = re.findall(r"```python\n(.*?)```", TIER, re.DOTALL)
    names: dict[str, Any] = {"tier": str(tier), "journal": journal}
    exec(example, names)  # noqa: S102
    records = names["records"]
    assert records["topic"].tolist() == ["/zeek/dns", "/zeek/dns"]
    assert records["value"].tolist() == [b"\x81\xa1n\x01", b"\x81\xa1n\x02"]
    assert list(records.columns) == re.findall(r"^\| `(\w+)` \| [A-Z]", TIER, re.MULTILINE)


def test_what_stands_there(tmp_path: Path) -> None:
    tier, journal = copied(tmp_path, "/a")
    found = sorted(str(file.relative_to(tier / journal)) for file in (tier / journal).rglob("*.*"))
    data, *_, manifest = re.findall(r"^    (data/\d+-\d+\.parquet|manifest\.json)", TIER, re.MULTILINE)
    assert found == [re.sub(r"\d+-\d+", f"{0:020}-{2:020}", data), manifest]
