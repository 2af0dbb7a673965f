"""What the tests of the browser side share: engines to run JavaScript, and hubs to talk to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.console.browser import Browser, Chromium, Page, chromium_path
from tests.console.engine import Engine
from tests.console.node import Node, node_command, start_node
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import ScriptedHub

PRELUDE = Path(__file__).with_name("prelude.js").read_text()

HUB_JS = Path(__file__).parents[2] / "peers" / "console" / "static" / "hub.js"


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


@pytest.fixture(params=["node", "chromium"])
async def engine(request: pytest.FixtureRequest, hub: ScriptedHub) -> AsyncIterator[Engine]:
    """Node, and then a page of Chromium, with hub.js, the hub's `url`, and what prelude.js defines."""
    if request.param == "node":
        async with _node(request.getfixturevalue("node_start"), hub) as node:
            yield node
    else:
        async with _blank_page(request.getfixturevalue("chromium"), hub) as page:
            yield page


@pytest.fixture
async def node(node_start: list[str], hub: ScriptedHub) -> AsyncIterator[Node]:
    async with _node(node_start, hub) as node:
        yield node


@pytest.fixture
async def blank_page(chromium: Chromium, hub: ScriptedHub) -> AsyncIterator[Page]:
    """A page of Chromium that does nothing by itself, of the hub's origin, prepared as `engine` is."""
    async with _blank_page(chromium, hub) as page:
        yield page


@contextlib.asynccontextmanager
async def _node(command: list[str], hub: ScriptedHub) -> AsyncIterator[Node]:
    async with start_node(command) as node:
        await _prepare(node, HUB_JS.as_uri(), hub.url)
        yield node


@contextlib.asynccontextmanager
async def _blank_page(chromium: Chromium, hub: ScriptedHub) -> AsyncIterator[Page]:
    async with Browser.connect(chromium.url) as browser, browser.reuse_tab(f"{hub.page_url}hub.d.ts") as page:
        await _prepare(page, "/hub.js", hub.url)
        yield page


async def _prepare(engine: Engine, module: str, url: str) -> None:
    await engine.evaluate("Object.assign(globalThis, await import(module), {url});" + PRELUDE, module=module, url=url)
