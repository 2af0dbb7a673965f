"""The view of settings in a real Chromium."""

from __future__ import annotations

from typing import Any

from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub
from tests.console.scripted_hub import RIGHTS, ScriptedHub
from tests.console.seeing import text, wait_shown


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


async def rows(page: Page) -> list[list[str]]:
    found: list[list[str]] = await page.evaluate(
        "return [...document.getElementById('settings').rows].map(({cells}) => [...cells].map((it) => it.textContent))"
    )
    return found


async def test_settings_in_force(browser: Browser, hub: ScriptedHub) -> None:
    hub.answers |= {"$hub/rights": RIGHTS | {"asks": ["$hub/settings"]}, "$hub/settings": SETTINGS}
    async with browser.open(f"{hub.page_url}#/settings") as page:
        await wait_shown(page, "document.getElementById('settings-count')?.textContent === '4 settings'")
        assert await rows(page) == [
            ["nameAbout name. A change needs a restart.", "<b>east\\u202e", "flag --name"],
            ["listenAbout listen. A reload applies changes.", "tcp://127.0.0.1:7400\nws://127.0.0.1:7401", "default"],
            ["queue.bytesAbout queue.bytes. A reload applies changes.", "1,234,567,891 bytes", "hub.toml"],
            ["tls.caAbout tls.ca. A reload applies changes.", "\u2013", "default"],
        ]
        await page.evaluate("document.getElementById('only-set').click()")
        assert await text(page, "settings-count") == "2 of 4 settings"
        await page.evaluate("""
            document.getElementById("settings-search").value = "QUEUE toml";
            document.getElementById("settings-search").dispatchEvent(new Event("input"));
        """)
        assert [row[2] for row in await rows(page)] == ["hub.toml"]
        assert await page.evaluate("return location.hash") == "#/settings?search=QUEUE+toml&set=1"
        await page.evaluate("location.hash = '#/settings?search=listen'")
        await wait_shown(page, "document.getElementById('settings-count').textContent === '1 of 4 settings'")
        assert page.complaints == []


async def test_who_may_not_ask(browser: Browser, hub: ScriptedHub) -> None:
    hub.answers["$hub/rights"] = RIGHTS | {"asks": ["$hub/state", "$hub/history"]}
    async with browser.open(f"{hub.page_url}#/settings") as page:
        await wait_shown(page, "document.querySelector('.told')?.textContent.startsWith('Settings is nothing')")
    hub.answers["$hub/rights"] = RIGHTS | {"asks": ["$hub/settings"]}
    hub.refusals["$hub/settings"] = (1013, "not now")
    async with browser.open(f"{hub.page_url}#/settings") as page:
        await wait_shown(page, "document.getElementById('settings-problem')?.textContent === '1013: not now'")


async def test_a_real_hub(browser: Browser, real_hub: RealHub) -> None:
    async with browser.open(f"{real_hub.page_url}#/settings", width_px=390) as page:
        await wait_shown(page, "document.getElementById('settings')?.rows.length > 100")
        assert await page.evaluate("return document.documentElement.scrollWidth <= innerWidth")
        assert page.complaints == []
