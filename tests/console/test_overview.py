"""The overview in a real Chromium: how the hub does, and what it has done before; and the view of settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hub.statistics.history import FIGURES
from hub.statistics.losses import State
from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub
from tests.console.scripted_hub import RIGHTS, ScriptedHub, row
from tests.console.seeing import cells, enter, number, publish, text, wait_shown, wait_view

SEVEN = State(300, 214, 3, 12_400, (("sensor-7", 12_000), ("b", 400)), 2, (7, 8, 9))


def history(*points: float | None, first: int = 100, step_s: int = 1) -> dict[str, Any]:
    figures = {name: list(points) for name in FIGURES}
    clock = {"now_s": 1_700_000_000.0, "clock_s": 200.0}
    return {"step_s": step_s, "points": 60, "first": first, "figures": figures} | clock


@pytest.fixture
def telling_hub(hub: ScriptedHub) -> ScriptedHub:
    hub.answers |= {"$hub/state": SEVEN.fields(), "$hub/history": history(1, 2, 3), "$hub/who": []}
    return hub


@pytest.fixture
async def page(browser: Browser, real_hub: RealHub) -> AsyncIterator[Page]:
    async with browser.reuse_tab(f"{real_hub.page_url}#/overview") as page:
        await wait_view(page, "overview")
        yield page
        assert page.complaints == []


async def lines(page: Page) -> int:
    return int(
        await page.evaluate("""
            const pixels = (it) => it.getContext("2d").getImageData(0, 0, it.width, it.height).data;
            return [...document.querySelectorAll(".chart canvas")].filter((it) => pixels(it).some(Boolean)).length;
        """)
    )


async def test_a_hub_says_how_it_does(page: Page) -> None:
    await wait_shown(page, "/in the last minute/.test(document.getElementById('sentence').textContent)")
    await wait_shown(page, "Number(document.getElementById('figure-connections').textContent) >= 1")
    await wait_shown(page, "Number(document.querySelector('.overview').dataset.points) >= 2")
    assert await lines(page) == 8
    await publish(page, *[("/overview", value) for value in range(50)])
    figures = "[...document.querySelectorAll('.chart')].map((it) => it.textContent).join()"
    await wait_shown(page, f"/[1-9][.\\d]*\\/s/.test({figures})")


async def test_a_chart_tells_value_and_time_under_the_pointer(browser: Browser, telling_hub: ScriptedHub) -> None:
    telling_hub.answers["$hub/history"] = history(1, 2, 3, 4)
    async with browser.reuse_tab(telling_hub.page_url) as page:
        await wait_shown(page, "document.querySelector('.overview')?.dataset.points === '4'")
        first = "document.querySelector('.chart figcaption').textContent"
        last = await page.evaluate(f"return {first}")
        move = """
            const over = document.querySelector(".u-over");
            const {left, top} = over.getBoundingClientRect();
            over.dispatchEvent(new MouseEvent(kind, {clientX: left + 1, clientY: top + 9}));
        """
        for kind in ("mouseenter", "mousemove"):
            await page.evaluate(move, kind=kind)
        await wait_shown(
            page, r"/\d\d:\d\d:\d\d$/.test([...document.querySelectorAll('.chart-time')].at(-1).textContent)"
        )
        assert await page.evaluate(f"return {first}") != last
        await page.evaluate(move, kind="mouseleave")
        await wait_shown(page, "document.querySelector('.chart-time').textContent === ''")
        assert await page.evaluate(f"return {first}") == last


async def test_who_is_slow_and_why(browser: Browser, telling_hub: ScriptedHub) -> None:
    async with browser.reuse_tab(telling_hub.page_url) as page:
        await wait_shown(page, "document.getElementById('sentence')?.textContent.startsWith('3 of 214')")
        assert await text(page, "sentence") == (
            "3 of 214 subscribers are slow, 12,400 messages were dropped in the last minute, most of them by sensor-7."
        )
        assert await page.evaluate("return document.querySelector('.sentence').dataset.state") == "bad"
        assert await number(page, "figure-lost") == 12_400
        assert await page.evaluate("return document.querySelector('.figure.alarm output').textContent") == "3"
        losers = await page.evaluate("return [...document.querySelectorAll('#losers li')].map((it) => it.textContent)")
        assert losers == ["sensor-712,000", "b400"]
        assert await page.evaluate("return document.querySelector('#losers a').hash") == "#/connections?search=sensor-7"
        telling_hub.answers["$hub/state"] = SEVEN._replace(troubles=("the journal cannot be written", "<b>x")).fields()
        await wait_shown(page, "document.querySelectorAll('#alarms li').length === 2")
        listed = await page.evaluate("return [...document.querySelectorAll('#alarms li')].map((it) => it.textContent)")
        assert listed == ["the journal cannot be written", "<b>x"]
        telling_hub.answers["$hub/state"] = SEVEN.fields()
        await wait_shown(page, "!document.getElementById('alarms').checkVisibility()")
        telling_hub.refusals["$hub/state"] = (1008, "not for you any more")
        await wait_shown(page, "document.getElementById('problem').textContent.includes('not for you any more')")


async def reasons(page: Page) -> list[list[str]]:
    found: list[list[str]] = await page.evaluate("""
        return [...document.querySelectorAll("#slow li")].map((it) => [...it.children].map((part) => part.textContent));
    """)
    return found


async def test_more_slow_ones_than_are_shown(browser: Browser, telling_hub: ScriptedHub) -> None:
    telling_hub.answers["$hub/state"] = SEVEN._replace(slow=40, slow_ids=tuple(range(1, 41))).fields()
    telling_hub.answers["$hub/who"] = [row(3, name="<b>\u202e", sample=["<i>"] * 5, queued_messages=50)]
    async with browser.reuse_tab(telling_hub.page_url) as page:
        await wait_shown(page, "document.querySelectorAll('#slow li').length > 0")
        assert {name for name, _ in await reasons(page)} == {"<b>\\u202e"}
        assert (await reasons(page))[0][1].startswith("It reads <i>, <i>, <i>")
        requests = [one for one in telling_hub.of_type("request") if one["topic"] == "$hub/who"]
        values = [value for one in requests for value in one.get("values", [one.get("value")])]
        assert {value["id"] for value in values} == {1, 2, 3, 4, 5}
        assert await page.evaluate("return document.querySelector('#slow > a').hash") == "#/connections?slow=1"


async def test_who_may_not_ask_for_connections(browser: Browser, telling_hub: ScriptedHub) -> None:
    telling_hub.answers["$hub/rights"] = RIGHTS | {"asks": ["$hub/history", "$hub/rights", "$hub/state"]}
    async with browser.reuse_tab(telling_hub.page_url) as page:
        await wait_shown(page, "document.querySelectorAll('#losers li').length === 2")
        await wait_shown(page, "document.querySelector('.overview').dataset.points === '3'")
        assert await page.evaluate("return document.getElementById('slow').checkVisibility()") is False
        assert not [one for one in telling_hub.of_type("request") if one["topic"] == "$hub/who"]


def setting(name: str, value: Any, source: str = "default", unit: str = "", *, live: bool = True) -> dict[str, Any]:
    return {
        "setting": name,
        "value": value,
        "unit": unit,
        "from": source,
        "live": live,
        "description": f"About {name}.",
    }


SETTINGS = [
    setting("name", "<b>east\u202e", "flag --name", live=False),
    setting("listen", ["tcp://127.0.0.1:7400", "ws://127.0.0.1:7401"]),
    setting("queue.bytes", 1_234_567_891, "hub.toml", "bytes"),
    setting("tls.ca", ""),
]


async def test_settings_in_force(browser: Browser, hub: ScriptedHub) -> None:
    hub.answers |= {"$hub/rights": RIGHTS | {"asks": ["$hub/settings"]}, "$hub/settings": SETTINGS}
    async with browser.reuse_tab(f"{hub.page_url}#/settings") as page:
        await wait_shown(page, "document.getElementById('settings-count')?.textContent === '4 settings'")
        assert await cells(page, "settings", 0, 1, 2) == [
            ["nameAbout name. A change needs a restart.", "<b>east\\u202e", "flag --name"],
            ["listenAbout listen. A reload applies changes.", "tcp://127.0.0.1:7400\nws://127.0.0.1:7401", "default"],
            ["queue.bytesAbout queue.bytes. A reload applies changes.", "1,234,567,891 bytes", "hub.toml"],
            ["tls.caAbout tls.ca. A reload applies changes.", "\u2013", "default"],
        ]
        await page.evaluate("document.getElementById('only-set').click()")
        assert await text(page, "settings-count") == "2 of 4 settings"
        await enter(page, {"settings-search": "QUEUE toml"})
        assert [row[2] for row in await cells(page, "settings", 0, 1, 2)] == ["hub.toml"]
        assert await page.evaluate("return location.hash") == "#/settings?search=QUEUE+toml&set=1"
        await page.evaluate("location.hash = '#/settings?search=listen'")
        await wait_shown(page, "document.getElementById('settings-count').textContent === '1 of 4 settings'")
        assert page.complaints == []


async def test_settings_of_a_real_hub(browser: Browser, real_hub: RealHub) -> None:
    async with browser.reuse_tab(f"{real_hub.page_url}#/settings", width_px=390) as page:
        await wait_shown(page, "document.getElementById('settings')?.rows.length > 100")
        assert await page.evaluate("return document.documentElement.scrollWidth <= innerWidth")
        assert page.complaints == []
