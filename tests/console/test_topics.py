"""The view of topics in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.seeing import enter, publish, text, wait_shown, wait_view

PRESS = "document.getElementById('topic-tree').dispatchEvent(new KeyboardEvent('keydown', {key}))"
NAMES = "[...document.querySelectorAll('#topic-tree .node')].map((node) => node.querySelector('.name').textContent)"


async def wait_names(page: Page, *expected: str) -> None:
    await wait_shown(page, f"JSON.stringify({NAMES}) === {json.dumps(json.dumps(expected, separators=(',', ':')))}")


@pytest.fixture
def counting_hub() -> Iterator[RealHub]:
    with run_hub() as hub:
        yield hub


@pytest.fixture
async def page(browser: Browser, counting_hub: RealHub) -> AsyncIterator[Page]:
    async with browser.reuse_tab(f"{counting_hub.page_url}#/topics") as page:
        await wait_view(page, "topics")
        yield page
        assert page.complaints == []


async def go(page: Page, fragment: str) -> None:
    await page.evaluate("location.hash = fragment", fragment=fragment)


async def test_a_tree_by_components(page: Page) -> None:
    sent = [("/tree/b/x", 1)] * 9 + [("/tree/a", 1)] * 5 + [("/tree/b/y", 1)] * 2
    await publish(page, *sent)
    await wait_shown(page, f"{NAMES}.includes('/tree/')")
    await page.evaluate("document.querySelector('#topic-tree [data-prefix=\"/tree/\"] .mark').click()")
    await wait_names(page, "/tree/", "b/", "a")
    await page.evaluate("document.querySelector('#topic-tree [data-prefix=\"/tree/\"]').click()")
    for key in ("Home", "ArrowRight", "ArrowRight"):
        await page.evaluate(PRESS, key=key)
    await wait_names(page, "/tree/", "b/", "x", "y", "a")
    levels = "return [...document.querySelectorAll('#topic-tree .node')].map((it) => it.getAttribute('aria-level'))"
    assert await page.evaluate(levels) == ["1", "2", "3", "3", "2"]
    await enter(page, {"topics-order": "name"})
    await wait_names(page, "/tree/", "a", "b/", "x", "y")
    for key in ("Home", "ArrowLeft"):
        await page.evaluate(PRESS, key=key)
    await wait_names(page, "/tree/")
    assert await text(page, "topics-told") == "3 topics"


async def test_a_search(page: Page) -> None:
    await publish(page, ("/search/needle/1", 1), ("/search/hay", 1))
    await wait_shown(page, f"{NAMES}.includes('/search/')")
    await enter(page, {"topics-search": "NEEDLE"}, "#topics-filter button")
    await wait_names(page, "/search/needle/1")
    assert "search=NEEDLE" in str(await page.evaluate("return location.hash"))
    await go(page, "#/topics?search=nothing-like-it")
    await wait_shown(page, "document.getElementById('topics-told').textContent === 'No topic contains that.'")
    await go(page, "#/topics")
    await wait_shown(page, f"{NAMES}.includes('/search/')")


async def test_what_a_topic_brings(page: Page) -> None:
    await publish(page, ("/detail/a", {"load": 1}))
    await go(page, "#/topics?topic=/detail/a")
    await wait_shown(page, "document.querySelector('#topic-tree [aria-selected=true]')?.dataset.prefix === '/detail/a'")
    await wait_shown(page, "document.getElementById('topic-name').textContent === '/detail/a'")
    await page.evaluate("document.getElementById('topic-watch').click()")
    publishing = """
        const {connect} = await import("/hub.js");
        globalThis.publisher = connect();
        let load = 0;
        globalThis.timer = setInterval(() => {
          load += 1;
          publisher.publish("/detail/a/longer", {other: 1});
          publisher.publish("/detail/a", {load, host: {name: "h", up: true}});
        }, 20);
    """
    await page.evaluate(publishing)
    await wait_shown(page, "document.querySelectorAll('#topic-fields tr').length === 3")
    rows = await page.evaluate("""
        const lines = [...document.querySelectorAll("#topic-fields tr")];
        return lines.map(({cells}) => [cells[0], cells[1], cells[2]].map((it) => it.textContent));
    """)
    assert rows == [["host.name", "text", "100 %"], ["host.up", "boolean", "100 %"], ["load", "integer", "100 %"]]
    await wait_shown(page, "document.getElementById('topic-last').textContent.includes('load: ')")
    assert await page.evaluate("return document.querySelectorAll('#topic-fields input:not([hidden])').length") == 1
    await page.evaluate("document.querySelector('#topic-fields input:not([hidden])').click()")
    await wait_shown(page, "document.querySelector('#topic-chart canvas') !== null")
    await wait_shown(page, "Number(document.querySelector('#topic-chart output').textContent) > 1")
    await page.evaluate("document.getElementById('topic-watch').click()")
    await wait_shown(page, "document.getElementById('topic-told').textContent === 'Stopped.'")
    await page.evaluate("clearInterval(timer); await publisher.close();")


async def test_what_a_topic_brought_before(page: Page) -> None:
    await publish(page, ("/before/a", 1))
    await go(page, "#/topics?topic=/before/")
    await wait_shown(page, "document.getElementById('topic-name').textContent === '/before/'")
    shown = "document.getElementById('topic-history').checkVisibility()"
    assert not await page.evaluate(f"return {shown}")
    await go(page, "#/topics?topic=/before/a")
    await wait_shown(page, shown)
    await wait_shown(page, "/^[0-9.]+\\/s$/.test(document.querySelector('#topic-history output').textContent)")
    assert not await page.evaluate("return document.getElementById('topic-no-history').checkVisibility()")
    await go(page, "#/topics?topic=/before/none")
    await wait_shown(page, "document.getElementById('topic-no-history').checkVisibility()")
