"""The examples of the documents and those in examples/ do what they say, and the list of names is pinned."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import peers.client
from hub.settings.sections import JournalSettings, StoresSettings
from hub.settings.settings import Settings
from tests.client.test_blocking import HubThread
from tests.hubs.hub import Hub
from tests.hubs.ports import free_ports
from tests.suite.imports import python_path

ROOT = Path(__file__).parents[2]
PAGES = ("docs/clients.md", "docs/requests.md", "README.md")
BLOCKS = [
    (page, block)
    for page in PAGES
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    if "def main" in block  # others show a few lines of a program
]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    thread = HubThread()
    yield thread.start(
        settings=Settings(
            journal=JournalSettings(path=str(tmp_path / "journal")), stores=StoresSettings(open=("status=:memory:",))
        )
    )
    thread.stop()


def test_there_are_examples() -> None:
    found = Counter(page for page, _ in BLOCKS)
    assert all(found[page] >= (2 if page == "README.md" else 4) for page in PAGES)


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=range(len(BLOCKS)))
def test_document(page: str, block: str, hub: Hub) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block.replace("tcp://127.0.0.1:7400", hub.url), page, "exec"), names)  # noqa: S102
    result = names["main"]()
    if result is not None:
        asyncio.run(result)


def run(name: str, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | python_path()
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *arguments]
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
    assert lines[-1] == "9 squared is 81"
    assert len(lines) == 10
    assert process.returncode == 0


def test_three_sites() -> None:
    """Three hubs in a row: what is published at one end comes three times at the other, and everything ends."""
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


def test_examples_without_a_hub() -> None:
    for name in ("publisher.py", "subscriber.py", "blocking.py"):
        with run(name, "unix:///nonexistent/hub.sock") as process:
            assert process.stdout is not None
            text = process.stdout.read()
        assert process.returncode == 1
        assert len(text.splitlines()) == 1
        assert "start it with `hub run" in text


def test_names() -> None:
    assert sorted(peers.client.__all__) == [
        "BadMessage",
        "Block",
        "BlockGoneError",
        "BusyError",
        "CallbackSubscription",
        "Client",
        "ClientStatistics",
        "ClosedError",
        "ConnectionLostError",
        "ConsumedMessage",
        "ConsumerStream",
        "GoneError",
        "Hello",
        "HubError",
        "InvalidEndpointError",
        "InvalidNameError",
        "InvalidTopicError",
        "InvalidValueError",
        "KnownName",
        "Message",
        "MessageStream",
        "NoResponderError",
        "NotAllowedError",
        "Options",
        "Overflow",
        "PeerError",
        "ProtocolError",
        "QueueWish",
        "RecordedMessage",
        "RejectedError",
        "RequestError",
        "RequestFailedError",
        "RequestOverflowError",
        "RequestTimeoutError",
        "RequestTooBigError",
        "ResponderGoneError",
        "Service",
        "ServiceName",
        "ServiceRequest",
        "Store",
        "StoreChange",
        "StoreChangeKind",
        "StoreEntry",
        "StoreReplica",
        "StoreState",
        "StoreWatch",
        "UsageError",
        "View",
        "Writer",
        "connect",
    ]
    assert all(hasattr(peers.client, name) for name in peers.client.__all__)
