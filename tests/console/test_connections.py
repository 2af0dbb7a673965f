"""The view of connections in a real Chromium: the table of all, and the page of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from hub.statistics.history import COUNTED
from hub.statistics.losses import State
from tests.console.browser import Browser, Page
from tests.console.scripted_hub import RIGHTS, ScriptedHub, row
from tests.console.seeing import enter, text, wait_shown

LOOKED = "Number(document.querySelector('.connections-view')?.dataset.looks) >= 1"


def who(rows: list[dict[str, Any]]) -> Callable[[Any], list[dict[str, Any]]]:
    def answer(value: Any) -> list[dict[str, Any]]:
        value = value or {}
        if "id" in value:
            return [one for one in rows if one["id"] == value["id"]]
        return [one for one in rows if one["id"] > value.get("after", 0)][: value.get("limit", 64)]

    return answer


FIRST = "document.querySelector('.table-lines .table-line:not([hidden]) .column-name')?.textContent"


@pytest.fixture
def crowded_hub(hub: ScriptedHub) -> ScriptedHub:
    hub.answers |= {
        "$hub/who": who([row(number, user=f"u{number % 3}") for number in range(1, 10_001)]),
        "$hub/state": State(10_000, 10_000, 1, slow_ids=(7,)).fields(),
        "$hub/losses": [{"at": 1_700_000_000.0, "id": 7, "label": "a", "messages": 5, "why": "drop-oldest"}],
        "$hub/kick": {"kicked": 1},
    }
    return hub


@pytest.fixture
async def crowd(browser: Browser, crowded_hub: ScriptedHub) -> AsyncIterator[Page]:
    async with browser.reuse_tab(f"{crowded_hub.page_url}#/connections") as page:
        await wait_shown(page, LOOKED)
        await wait_shown(page, "document.querySelectorAll('.table-lines .table-line').length > 0")
        yield page
        assert page.complaints == []


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.evaluate(
            "document.querySelector('.table').dispatchEvent(new KeyboardEvent('keydown', {key}))", key=key
        )


async def sort_by_name(page: Page, *, first: str) -> None:
    await page.evaluate("document.querySelector('.table-head .column-name button').click()")
    await wait_shown(page, f"{FIRST} === {first!r}")


async def test_the_table(crowd: Page) -> None:
    """Ten thousand are a screenful of elements, which are sorted, searched, filtered, and gone through by keys."""
    last = "[...document.querySelectorAll('.table-lines .table-line:not([hidden]) .column-name')].at(-1).textContent"
    assert await crowd.evaluate("return document.querySelectorAll('.table-line').length") < 100
    assert await crowd.evaluate("return document.querySelector('.table').getAttribute('aria-rowcount')") == "10001"
    await sort_by_name(crowd, first="sensor-00001")
    await crowd.evaluate("document.querySelector('.table').scrollTop = 1e9")
    await wait_shown(crowd, f"{last} === 'sensor-10000'")
    assert await crowd.evaluate("return document.querySelectorAll('.table-lines .table-line:not([hidden])').length") > 5
    await crowd.evaluate("document.querySelector('.table').scrollTop = 0")
    await sort_by_name(crowd, first="sensor-10000")
    sort = "return document.querySelector('.table-head .column-name').getAttribute('aria-sort')"
    assert await crowd.evaluate(sort) == "descending"
    assert await crowd.evaluate("return location.hash") == "#/connections?sort=-name"

    await crowd.evaluate("location.hash = '#/connections'")
    await wait_shown(crowd, "document.querySelector('.table-head [aria-sort=descending].column-name') === null")
    await enter(crowd, {"search": "SENSOR-0123 site"})
    await wait_shown(crowd, "document.getElementById('count').textContent === '10 of 10,000 connections'")
    await enter(crowd, {"of-user": "u1"})
    await wait_shown(crowd, "document.getElementById('count').textContent.startsWith('3 of ')")
    assert await crowd.evaluate("return location.hash") == "#/connections?search=SENSOR-0123+site&user=u1"
    await crowd.evaluate("location.hash = '#/connections?slow=1'")
    await wait_shown(crowd, "document.getElementById('count').textContent === '1 of 10,000 connections'")
    await wait_shown(crowd, f"{FIRST} === 'sensor-00007'")
    assert await crowd.evaluate("return document.getElementById('only-slow').checked") is True
    await crowd.evaluate("location.hash = '#/connections?role=link'")
    await wait_shown(crowd, "document.getElementById('count').textContent === '0 of 10,000 connections'")

    await crowd.evaluate("location.hash = '#/connections'")
    await wait_shown(crowd, "document.getElementById('count').textContent === '10,000 connections'")
    await enter(crowd, {"search": "sensor-000"})
    await sort_by_name(crowd, first="sensor-00001")
    await press(crowd, "ArrowDown", "ArrowDown", "End", "Home", "ArrowDown")
    await wait_shown(
        crowd, "document.querySelector('[aria-selected=true] .column-name')?.textContent === 'sensor-00002'"
    )
    await press(crowd, "Enter")
    await wait_shown(crowd, "document.getElementById('connection-title')?.textContent === 'sensor-00002'")


async def test_the_page_of_one(crowd: Page, crowded_hub: ScriptedHub) -> None:
    """Says what it is and what it lost, closes it, and stays when it has gone."""
    loss = {"at": 1_700_000_000.0, "id": 7, "label": "a", "messages": 5, "why": "drop-oldest"}
    crowded_hub.answers["$hub/losses"] = lambda question: [loss] * min(question["limit"], 70)
    await crowd.evaluate("location.hash = '#/connections/7'")
    await wait_shown(crowd, "document.getElementById('connection-title')?.textContent === 'sensor-00007'")
    assert await text(crowd, "prefixes") == "/site/7"
    facts = str(await crowd.evaluate("return document.querySelector('.facts').textContent"))
    assert "10.0.0.1:7" in facts
    assert "topichub 1.0.0" in facts
    earlier = "return document.getElementById('losses-earlier').checkVisibility()"
    await wait_shown(crowd, "document.querySelectorAll('#losses tr').length === 50")
    assert "drop-oldest" in await text(crowd, "losses")
    assert await crowd.evaluate(earlier)
    await crowd.evaluate("document.getElementById('losses-earlier').click()")
    await wait_shown(crowd, "document.querySelectorAll('#losses tr').length === 70")
    assert not await crowd.evaluate(earlier)

    await crowd.evaluate("document.getElementById('kick').click()")
    await wait_shown(crowd, "document.querySelector('dialog[open]') !== null")
    assert "sensor-00007" in await crowd.evaluate("return document.querySelector('dialog').textContent")
    await crowd.evaluate("document.querySelector('dialog button[type=button]').click()")
    await wait_shown(crowd, "document.querySelector('dialog') === null")
    await crowd.evaluate("document.getElementById('kick').click()")
    await enter(crowd, {"confirm-text": "go"}, "dialog .danger")
    await wait_shown(crowd, "document.getElementById('kicked').textContent === 'disconnected'")
    kicks = [one for one in crowded_hub.of_type("request") if one["topic"] == "$hub/kick"]
    assert [one.get("values", [one.get("value")]) for one in kicks] == [[{"id": 7, "text": "go"}]]

    crowded_hub.answers["$hub/who"] = who([])
    await wait_shown(crowd, "document.querySelector('.connection').dataset.state === 'gone'")
    assert await text(crowd, "connection-title") == "sensor-00007"
    assert await text(crowd, "problem") == "It is no longer connected."


async def test_who_may_not_close_is_not_offered_it(browser: Browser, crowded_hub: ScriptedHub) -> None:
    asks = [one for one in RIGHTS["asks"] if one != "$hub/kick"]  # type: ignore[attr-defined]
    for address, rights in [("#/connections/7", RIGHTS | {"asks": asks}), ("?wall#/connections/7", RIGHTS)]:
        crowded_hub.answers["$hub/rights"] = rights
        async with browser.reuse_tab(f"{crowded_hub.page_url}{address}") as page:
            await wait_shown(page, "document.getElementById('connection-title')?.textContent === 'sensor-00007'")
            assert await page.evaluate("return document.getElementById('kick')") is None
            assert await page.evaluate("return document.getElementById('queue')") is None


RATES = {"in_messages": 3, "out_messages": 1_250, "dropped_messages": 2, "out_bytes": 2_048, "offered_messages": 1_500}
"""What a connection does a second, as the hub says."""


async def test_rates_and_queues(browser: Browser, hub: ScriptedHub) -> None:
    """In the table, and on the page of a connection what it did before."""
    queued = {"queued_messages": 50, "queued_bytes": 900_000, "dropped_messages": 12}
    hub.answers |= {"$hub/who": who([row(1, rates=RATES, **queued)]), "$hub/state": State().fields()}
    facts = "document.querySelector('.facts').textContent"
    async with browser.reuse_tab(f"{hub.page_url}#/connections") as page:
        await wait_shown(page, f"{FIRST} === 'sensor-00001'")
        cells = "['in', 'out', 'bytes', 'dropped'].map((it) => document.querySelector(`.table-lines .column-${it}`))"
        assert await page.evaluate(f"return {cells}.map((it) => it.textContent)") == ["3", "1.25k", "2 KiB", "12"]
        queue = await page.evaluate("""
            const cell = document.querySelector(".table-lines .column-queue");
            const full = cell.style.getPropertyValue("--full");
            return [cell.textContent, full, cell.className.includes("is-full"), cell.title];
        """)
        assert queue == ["50", "90.0%", True, "50 of 100 messages, 879 KiB of 977 KiB"]
        hub.answers |= {"$hub/who": who([row(1)]), "$hub/losses": []}
        await page.evaluate("location.hash = '#/connections/1'")
        await wait_shown(page, "document.getElementById('no-history')?.checkVisibility()")
        await wait_shown(page, f"{facts}.includes('0, measuring')")
        figures = {name: [None] * 117 + [1.5, 2, 2_500] for name in COUNTED}
        history = {"step_s": 5, "points": 120, "first": 7, "figures": figures}
        clock = {"now_s": 1_700_000_000.0, "clock_s": 635.0}
        hub.answers["$hub/who"] = who([row(1, rates=RATES, history=history | clock)])
        await wait_shown(page, "document.querySelector('.connection').dataset.points === '120'")
        assert "0, 1.25k/s, 2 KiB/s" in str(await page.evaluate(f"return {facts}"))
        last = "return [...document.querySelectorAll('.chart output')].map((it) => it.textContent)"
        assert await page.evaluate(last) == ["2.5k/s", "2.5k/s", "2.44 KiB/s", "2.5k/s", "2.44 KiB"]
        assert not await page.evaluate("return document.getElementById('no-history').checkVisibility()")
