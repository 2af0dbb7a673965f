"""The examples of the documents and those in examples/ do what they say."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hub.settings.settings import JournalSettings, Settings, StoresSettings
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from tests.client.test_blocking import HubThread
from tests.forked.servers import python_path
from tests.hubs.hub import Hub
from tests.hubs.ports import free_ports

ROOT = Path(__file__).parents[2]
URL = "tcp://127.0.0.1:7400"
PAGES = {
    "docs/clients.md": 4,
    "docs/requests.md": 4,
    "README.md": 2,
    "docs/names-and-labels.md": 4,
    "docs/zeek.md": 1,
    "docs/protocol.md": 1,
}
"""Pages whose programs run each by itself, with the least number of them."""


def programs(page: str) -> list[str]:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [block for block in blocks if "def main" in block or "def blocking" in block]  # others show a few lines


BLOCKS = [(page, block) for page in PAGES for block in programs(page)]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    thread = HubThread()
    journal = JournalSettings(path=str(tmp_path / "journal"))
    yield thread.start(settings=Settings(journal=journal, stores=StoresSettings(open=("status=:memory:",))))
    thread.stop()


def test_there_are_examples() -> None:
    assert all(len(programs(page)) >= least for page, least in PAGES.items())


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=range(len(BLOCKS)))
def test_document(page: str, block: str, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block.replace(URL, hub.url), page, "exec"), names)  # noqa: S102
    result = names["main"]()
    if result is not None:
        asyncio.run(result)
    printed = capsys.readouterr().out
    for said in re.findall(r"print\(.*\)  # (.*)$", block, re.MULTILINE) if "names-and-labels" in page else ():
        assert without_numbers(said.partition(":")[0]) in without_numbers(printed)


def without_numbers(text: str) -> str:
    return re.sub(r"\d+", "0", text)


async def run_in_turn(page: str, settings: dict[str, Any]) -> None:
    """Run the programs of a page one after the other, as a reader would, against one hub."""
    daemon = Daemon(load({"listen": ["tcp://127.0.0.1:0"]} | settings, {}), "hub")
    await daemon.start()
    for block in programs(page):
        names: dict[str, Any] = {}
        exec(compile(block.replace(URL, daemon.endpoints[0].location), page, "exec"), names)  # noqa: S102 -- our own page
        main = names.get("main") or names["blocking"]
        await (main() if inspect.iscoroutinefunction(main) else asyncio.to_thread(main))
    await daemon.stop(asyncio.get_running_loop().time())


async def test_consumers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await run_in_turn("docs/consumers.md", {"journal": {"path": str(tmp_path / "journal")}})
    lines = [line for line in capsys.readouterr().out.splitlines() if "{" in line and "[" not in line]
    assert lines == ["0 /app/orders {'id': 17}", "{'id': 18} 1"]


async def test_stores(capsys: pytest.CaptureFixture[str]) -> None:
    stores = {"open": ["status=:memory:", "last=:memory:"], "feeds": ["last=/status/"]}
    await run_in_turn("docs/stores.md", {"stores": stores})
    assert [line for line in capsys.readouterr().out.splitlines() if "[info" not in line] == [
        "{'state': 'up'}",
        "1 ['sensor-7']",
        "up up",
        "put sensor-8 None up True",
        "put sensor-8 up down False",
        "erase sensor-8 down None False",
        "last /status/door open",
        "live /status/door closed",
        "night True True",
    ]


def test_limits_are_those_of_the_settings() -> None:
    consumers, stores = (ROOT / "docs/consumers.md").read_text(), (ROOT / "docs/stores.md").read_text()
    journal, store = JournalSettings(), StoresSettings()
    for name, shown in (("consumers", "1,000"), ("consumer_messages", "10,000"), ("consumer_bytes", "8 MiB")):
        assert f"| `journal.{name}` | {shown} |" in consumers
    assert (journal.consumers, journal.consumer_messages, journal.consumer_bytes) == (1_000, 10_000, 8 << 20)
    assert "| `stores.entries`, `stores.bytes` | 1,000,000, 512 MiB |" in stores
    assert "| `stores.entry_bytes` | 512 KiB |" in stores
    assert "| `stores.changes`, `stores.changes_bytes` | 65,536, 16 MiB |" in stores
    assert (store.entries, store.bytes, store.entry_bytes) == (1_000_000, 512 << 20, 512 << 10)
    assert (store.user_entries, store.user_bytes) == (store.entries, store.bytes)
    assert (store.changes, store.changes_bytes) == (65_536, 16 << 20)


def run(name: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *arguments]
    environment = os.environ | python_path()
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def test_publisher_and_subscriber(hub: Hub) -> None:
    with run("subscriber.py", hub.url, "/example/", "1") as subscriber:
        assert subscriber.stdout is not None
        assert subscriber.stdout.readline() == "subscribed to '/example/'\n"
        with run("publisher.py", hub.url, "1") as publisher:
            assert publisher.stdout is not None
            assert publisher.stdout.read().startswith("1 readings published under /example/load/")
        assert "'load'" in subscriber.stdout.read()
    assert (publisher.returncode, subscriber.returncode) == (0, 0)


def test_blocking_example(hub: Hub) -> None:
    with run("blocking.py", hub.url) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
    assert (lines[-1], len(lines), process.returncode) == ("9 squared is 81", 10, 0)


def test_three_sites() -> None:
    urls = [f"tcp://127.0.0.1:{port}" for port in free_ports(3)]
    where = dict(zip(("EAST", "MIDDLE", "WEST"), urls, strict=True))
    program = Path(sys.executable).with_name("hub")
    done = subprocess.run(
        ["bash", str(ROOT / "examples/three-sites/run.sh")],
        env=os.environ | where | {"HUB": str(program)} | python_path(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('{"topic":"/weather/now","value":{"sky":"clear"}}\n') == 3
    assert "east > middle > west\n" in done.stdout
    assert done.stdout.endswith("three messages have crossed two hops\n")


@pytest.mark.parametrize("name", ["publisher.py", "subscriber.py", "blocking.py"])
def test_examples_without_a_hub(name: str) -> None:
    with run(name, "unix:///nonexistent/hub.sock") as process:
        assert process.stdout is not None
        text = process.stdout.read()
    assert (process.returncode, len(text.splitlines())) == (1, 1)
    assert "start it with `hub run" in text
