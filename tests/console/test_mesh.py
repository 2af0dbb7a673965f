"""The view of the mesh in a real Chromium."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from peers.client import ServiceRequest, connect
from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import RIGHTS, ScriptedHub
from tests.console.seeing import cells, publish, text, wait_shown

GRAPH = "$hub/mesh/graph"

ASKS = [GRAPH, "$hub/mesh/trace", "$hub/names", "$hub/nodes", "$hub/rights", "$hub/services", "$hub/stores", "$hub/who"]

LINK = {"at": f"{0:032x}", "lag_s": 0.002, "dropped_messages": 3, "rates": None}


LOOK_FOR_THE_WAY = """
    const topic = document.getElementById("way-topic");
    const told = document.getElementById("way-told");
    while (document.querySelectorAll("#way tr").length < 2) {
      topic.value = "/way/x";
      topic.form.requestSubmit();
      do await new Promise(requestAnimationFrame);
      while (told.textContent.startsWith("Asking"));
    }
"""
"""Asks until somebody takes it: a hub is told a little later of who subscribes at another one."""


def echo(request: ServiceRequest) -> Any:
    return request.value


def hub_row(number: int, *linked: int, **fields: Any) -> dict[str, Any]:
    links = {f"{other:032x}": 1 for other in linked}
    usual = {"name": f"h{number}", "own": number == 0, "prefixes": 1, "lost": None, "zeeks": {}, "link": None}
    return {"hub": f"{number:032x}", "links": links} | usual | fields


@pytest.fixture
def telling_hub(hub: ScriptedHub) -> ScriptedHub:
    hub.answers["$hub/rights"] = RIGHTS | {"asks": ASKS}
    hub.answers |= {"$hub/names": [], "$hub/nodes": [], "$hub/services": [], "$hub/stores": []}
    hub.answers[GRAPH] = [hub_row(0, 1), hub_row(1, 0, link=LINK)]
    return hub


@pytest.fixture(scope="module")
def mesh() -> Iterator[tuple[RealHub, RealHub]]:
    with tempfile.TemporaryDirectory() as folder:  # its name is short enough for a socket in it
        between = f"unix://{folder}/hub.sock"
        flags = ("--listen", between, "--store", "last=:memory:", "--store-from", "last=/store/", "--name", "east")
        with run_hub(*flags) as east, run_hub("--peer", between, "--name", "west") as west:
            yield east, west


async def places(page: Page) -> list[list[str]]:
    found: list[list[str]] = await page.evaluate("""
        const nodes = [...document.querySelectorAll(".mesh-picture g")];
        return nodes.map((node) => [node.querySelector("text").textContent, node.getAttribute("class"),
          ...["cx", "cy"].map((name) => node.querySelector("circle").getAttribute(name))]);
    """)
    return found


async def test_two_hubs(browser: Browser, mesh: tuple[RealHub, RealHub]) -> None:
    east, west = mesh
    async with browser.reuse_tab(f"{east.page_url}#/mesh") as page:
        await wait_shown(page, "document.querySelector('.mesh')?.dataset.hubs === '2'")
        await wait_shown(page, "document.querySelectorAll('.mesh-picture g').length === 2")
        assert await page.evaluate("return document.querySelectorAll('.mesh-picture line').length") == 1
        assert sorted(row[0] for row in await cells(page, "mesh-hubs", 0)) == ["east", "west"]
        await wait_shown(page, "document.querySelector('.mesh-picture .rate') !== null")

        async with connect(west.url) as far, far.subscribe("/way/"):
            await far.claim("org.example.Far", ["one"])
            await wait_shown(page, "document.querySelector('#mesh-names td')?.textContent === 'org.example.Far'")
            assert await cells(page, "mesh-names", 1, 2) == [["one", "west"]]
            await page.evaluate(LOOK_FOR_THE_WAY)
            assert await page.evaluate("return location.hash") == "#/mesh?topic=%2Fway%2Fx"
            assert [row[0] for row in await cells(page, "way", 0)] == ["east", "west"]
            assert await page.evaluate("return document.querySelectorAll('.mesh-picture line.way').length") == 1

        rows = "[...document.querySelectorAll('#mesh-services tr')]"
        served = f"{rows}.find((row) => row.cells[0].textContent === '/convert/')"
        async with connect(east.url, name="converter") as near, connect(west.url) as far:
            async with near.serve("/convert/", echo), far.serve("/convert/", echo):
                await wait_shown(page, f"{served}?.cells[1].textContent === 'converter, a client of west'")
                await page.evaluate(f"{served}.querySelector('a').click()")
                await wait_shown(page, "document.getElementById('connection-title')?.textContent === 'converter'")
                await page.evaluate("history.back()")
            await wait_shown(page, f"document.getElementById('mesh-services') && {served} === undefined")

        await publish(page, ("/store/a", {"n": 1}), ("/store/b", "<b>"))
        await wait_shown(page, "document.querySelector('#stores tr')?.cells[2].textContent === '2'")
        await page.evaluate("document.querySelector('#stores button').click()")
        await wait_shown(page, "document.querySelectorAll('#entries tr').length === 2")
        assert await cells(page, "entries", 0, 1) == [['"/store/a"', '{"n":1}'], ['"/store/b"', '"<b>"']]
        assert page.complaints == []


async def test_a_hub_without_links(browser: Browser, real_hub: RealHub) -> None:
    async with browser.reuse_tab(f"{real_hub.page_url}#/mesh") as page:
        expected = "This hub has no links to other hubs."
        await wait_shown(page, f"document.getElementById('mesh-state')?.textContent === {expected!r}")
        assert await page.evaluate("return document.getElementById('mesh-picture').hidden") is True
        assert page.complaints == []


async def test_rates_and_who_is_lost(browser: Browser, telling_hub: ScriptedHub) -> None:
    async with browser.reuse_tab(f"{telling_hub.page_url}#/mesh") as page:
        await wait_shown(page, "document.querySelectorAll('#mesh-hubs tr').length === 2")
        assert (await cells(page, "mesh-hubs", 5, 7, 8))[1] == ["", "2 ms", "3"]
        carried = LINK | {"rates": {"in_messages": 50_000, "out_messages": 2}}
        telling_hub.answers[GRAPH] = [hub_row(0, 1), hub_row(1, 0, link=carried)]
        await wait_shown(page, "document.querySelector('.mesh-picture .rate')?.textContent === '50k/s in, 2/s out'")
        assert (await cells(page, "mesh-hubs", 5, 6))[1] == ["50k/s", "2/s"]
        telling_hub.answers[GRAPH] = [hub_row(0), hub_row(1, lost=1_000.0)]
        await wait_shown(page, "document.querySelector('.mesh-picture .node-lost') !== null")
        expected = "2 hubs known to h0; 1 cannot be reached."
        assert await text(page, "mesh-state") == expected


async def test_a_picture_stays_until_there_are_very_many(browser: Browser, telling_hub: ScriptedHub) -> None:
    zeek = "11111111-0000-0000-0000-000000000000"
    rows = [
        hub_row(n, *{(n - 1) % 9, (n + 1) % 9, 0} - {n}, zeeks={zeek: n == 3} if n in {3, 4} else {}) for n in range(9)
    ]
    telling_hub.answers[GRAPH] = rows
    async with browser.reuse_tab(f"{telling_hub.page_url}#/mesh") as page:
        await wait_shown(page, "document.querySelectorAll('.mesh-picture g').length === 10")
        first = await places(page)
        assert first[0] == ["h0", "node-own", "0.0", "0.0"]
        assert len({tuple(row[2:]) for row in first}) == 10
        assert await page.evaluate("return document.querySelectorAll('.mesh-picture line.zeek').length") == 1
        turned = [row | {"links": dict(reversed(row["links"].items()))} for row in reversed(rows)]
        telling_hub.answers[GRAPH] = [*turned[:-1], turned[-1] | {"name": "own"}]
        await wait_shown(page, "document.querySelector('.mesh-picture .node-own text').textContent === 'own'")
        again = await places(page)
        assert sorted(row[1:] for row in again) == sorted(row[1:] for row in first)
        telling_hub.answers[GRAPH] = [hub_row(0, *range(1, 900)), *(hub_row(n, 0) for n in range(1, 900))]
        await wait_shown(page, "document.querySelector('.mesh')?.dataset.hubs === '900'")
        await wait_shown(page, "document.querySelectorAll('#mesh-hubs tr').length === 300")
        assert await text(page, "mesh-hubs-told") == "and 600 more"
        assert await page.evaluate("return document.getElementById('mesh-picture').hidden") is True


async def test_rights(browser: Browser, telling_hub: ScriptedHub) -> None:
    telling_hub.answers["$hub/rights"] = RIGHTS | {"asks": [GRAPH]}
    async with browser.reuse_tab(f"{telling_hub.page_url}#/mesh?topic=/a") as page:
        await wait_shown(page, "document.querySelectorAll('#mesh-hubs tr').length === 2")
        assert await page.evaluate("return document.getElementById('way-topic').checkVisibility()") is False
        assert {one["topic"] for one in telling_hub.of_type("request")} == {"$hub/rights", GRAPH}
