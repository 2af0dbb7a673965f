"""What the tests of the browser side share: engines to run JavaScript, and hubs to talk to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hub.settings.settings import JournalSettings, Settings
from tests.console.browser import Browser, Chromium, Page, chromium_path
from tests.console.node import HUB_JS, Node, Nodes, node_command, prepare
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import ScriptedHub
from tests.forked.readers import forked_readers
from tests.hubs.fixtures import StartHub, start_hub, uncaught
from tests.hubs.hub import Hub

__all__ = ["HUB_JS", "forked_readers", "start_hub", "uncaught"]


@pytest.fixture
def default_url() -> str:
    return "ws://127.0.0.1:0"


@pytest.fixture
async def recording(start_hub: StartHub, tmp_path: Path) -> Hub:
    """A hub with a journal, in the test's own process."""
    return await start_hub(settings=Settings(journal=JournalSettings(path=str(tmp_path / "journal"), commit_s=0.001)))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    path = chromium_path()
    if path is None:
        pytest.skip(
            "CHROMIUM IS MISSING: the page and hub.js were NOT tested in a browser; "
            "run tests/console/install-chromium as root, or install Debian's package chromium"
        )
    process = Chromium(path, tmp_path_factory.mktemp("chromium"))
    yield process
    process.stop()


@pytest.fixture
async def browser(chromium: Chromium) -> AsyncIterator[Browser]:
    async with Browser.connect(chromium.url) as browser:
        yield browser


@pytest.fixture
async def hub() -> AsyncIterator[ScriptedHub]:
    async with ScriptedHub() as hub:
        yield hub


@pytest.fixture(scope="session")
def real_hub() -> Iterator[RealHub]:
    with run_hub() as hub:
        yield hub


@pytest.fixture(scope="session")
def node_start() -> list[str]:
    command = node_command()
    if isinstance(command, str):
        pytest.skip(f"NODE IS MISSING: {command}")
    return command


@pytest.fixture(scope="session")
def nodes(node_start: list[str]) -> Iterator[Nodes]:
    nodes = Nodes(node_start)
    yield nodes
    nodes.stop()


@pytest.fixture
async def node(nodes: Nodes, hub: ScriptedHub) -> AsyncIterator[Node]:
    """Node, with hub.js, the hub's `url`, and what prelude.js defines; the clients of a test are closed behind it."""
    node = await nodes.ready(hub.url)
    yield node
    await nodes.reset()


@pytest.fixture
async def blank_page(chromium: Chromium, hub: ScriptedHub) -> AsyncIterator[Page]:
    """A page of Chromium that does nothing by itself, of the hub's origin, prepared as `engine` is."""
    async with _blank_page(chromium, hub) as page:
        yield page


@contextlib.asynccontextmanager
async def _blank_page(chromium: Chromium, hub: ScriptedHub) -> AsyncIterator[Page]:
    async with Browser.connect(chromium.url) as browser, browser.reuse_tab(f"{hub.page_url}hub.d.ts") as page:
        await prepare(page, "/hub.js", hub.url)
        yield page
