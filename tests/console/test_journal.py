"""The view of the journal in a real Chromium."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import RIGHTS, ScriptedHub
from tests.console.seeing import number, text, wait_shown, wait_view

UNKNOWN = "\N{EN DASH}"

ASKS = ["$hub/consumers", "$hub/journal", "$hub/rights"]

STANDS: dict[str, Any] = {
    "id": "00" * 16,
    "at_s": 10.0,
    "topics": ["/"],
    "keep_bytes": 1_000_000,
    "keep_s": 3600.0,
    "buffer_bytes": 65_536,
    "first": 100,
    "committed": 1_100,
    "size_bytes": 250_000,
    "recorded_messages_total": 1_000,
    "lost_messages_total": 0,
    "waiting_bytes": 0,
    "pauses_total": 0,
    "error": "",
    "readers": 1,
    "fetches": 0,
    "staged_transactions": 0,
    "staged_bytes": 0,
    "tier": None,
}


def consumer(name: str, **fields: Any) -> dict[str, Any]:
    """A consumer, as the hub lists it."""
    counters = dict.fromkeys(("acknowledged_total", "redelivered_total", "dead_total"), 0)
    usual = {"prefixes": ["/a"], "members": 1, "lag": 0, "out": 0, "error": "", "counters": counters}
    return {"name": name} | usual | fields


@pytest.fixture(scope="module")
def recording_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHub]:
    """A hub with a journal."""
    with run_hub("--journal", str(tmp_path_factory.mktemp("journal"))) as hub:
        yield hub


@pytest.fixture
def telling_hub(hub: ScriptedHub) -> ScriptedHub:
    """A hub that says how its journal stands; nobody may read it."""
    hub.answers["$hub/rights"] = RIGHTS | {"asks": ASKS, "may": ["subscribe"]}
    hub.answers |= {"$hub/journal": STANDS, "$hub/consumers": []}
    return hub


@pytest.fixture
async def page(browser: Browser, recording_hub: RealHub) -> AsyncIterator[Page]:
    """The page at this view, that has nothing to complain about when the test is over."""
    async with browser.reuse_tab(f"{recording_hub.page_url}#/journal") as page:
        await wait_view(page, "journal")
        yield page
        assert page.complaints == []


async def consumers(page: Page) -> list[list[str]]:
    """Name, how far behind, and how it does, of each consumer that is shown."""
    rows: list[list[str]] = await page.evaluate("""
        const lines = [...document.querySelectorAll("#consumers tr")];
        return lines.map(({cells}) => [cells[0], cells[2], cells[3]].map((it) => it.textContent));
    """)
    return rows


async def note(page: Page, selector: str, *, under: str) -> None:
    """Keep in `seen` what an element says from now on: what it says for one look alone is not missed."""
    await page.evaluate(
        """
        globalThis.seen = [];
        const look = () => seen.push(document.querySelector(selector)?.textContent ?? "");
        new MutationObserver(look).observe(document.getElementById(under), {childList: true, subtree: true});
        """,
        selector=selector,
        under=under,
    )


async def test_what_is_recorded_is_seen(page: Page) -> None:
    """Its records, its size and its oldest one; who works through it by a name, and how far behind he is."""
    await wait_shown(page, "document.getElementById('journal-state').textContent.startsWith('The journal records')")
    await page.evaluate("""
        const {connect} = await import("/hub.js");
        globalThis.publisher = connect();
        globalThis.stream = publisher.consume("billing", "/journal/", {fromOffset: 0, prefetch: 1});
        await publisher.publish("/journal/0", 0, {confirm: "recorded"});
        for await (const message of stream) break;
        for (let n = 1; n < 30; n += 1) await publisher.publish("/journal/" + n, n, {confirm: "recorded"});
    """)
    await wait_shown(page, "Number(document.getElementById('journal-records').textContent) >= 30")
    await wait_shown(page, "document.querySelector('#consumers td')?.textContent === 'billing'")
    await wait_shown(page, "/ ago$/.test(document.getElementById('journal-oldest').textContent)")
    await wait_shown(page, "document.getElementById('journal-size').textContent.endsWith('B')")
    assert await number(page, "journal-lost") == 0
    await page.evaluate("await publisher.close();")


async def test_a_hub_that_records_nothing(browser: Browser, real_hub: RealHub) -> None:
    """It says so, and how that is changed."""
    async with browser.reuse_tab(f"{real_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.getElementById('journal-state')?.textContent.includes('hub run --journal')")
        assert await page.evaluate("return document.querySelector('.journal .figures').checkVisibility()") is False
        assert await page.evaluate("return document.getElementById('consumers').checkVisibility()") is False
        assert page.complaints == []


async def test_how_far_behind(browser: Browser, telling_hub: ScriptedHub) -> None:
    """The furthest behind stands first; whether one gets nearer is found out between two looks."""
    slow, quick = consumer("slow", lag=500), consumer("quick", lag=400)
    others = [consumer("done"), consumer("left", lag=3, members=0), consumer("broken", lag=1, error="damaged")]
    telling_hub.answers["$hub/consumers"] = [slow, quick, *others]
    async with browser.open(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.querySelectorAll('#consumers tr').length === 5")
        assert [row[0] for row in await consumers(page)] == ["slow", "quick", "left", "broken", "done"]
        assert {row[0]: row[2] for row in await consumers(page)} | {"slow": "", "quick": ""} == {
            "slow": "",
            "quick": "",
            "left": "nobody takes its messages",
            "broken": "damaged",
            "done": "keeps up",
        }
        await note(page, "#consumers .standing", under="consumers")
        telling_hub.answers["$hub/consumers"] = [slow | {"lag": 900}]
        await wait_shown(page, "seen.some((it) => /^falls behind, by /.test(it)) && /^stays/.test(seen.at(-1))")
        telling_hub.answers["$hub/consumers"] = [slow | {"lag": 450}]
        await wait_shown(page, "seen.some((it) => /^catches up, in /.test(it))")


async def test_rates_retention_and_a_tier(browser: Browser, telling_hub: ScriptedHub) -> None:
    """The rate is that between two looks by the hub's clock; what the tier lacks is told, and what it has missed."""
    tier = {"first": 7, "next": 1_000, "files": 3, "size_bytes": 2_048, "missed": 5, "error": ""}
    telling_hub.answers["$hub/journal"] = STANDS | {"tier": tier}
    async with browser.open(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.getElementById('journal-records')?.textContent === '1k'")
        assert await text(page, "journal-rate") == UNKNOWN
        assert await text(page, "journal-kept") == "up to 977 KiB or 1 h 0 min; 25 % of the size is used"
        assert await text(page, "journal-tier") == "100 records are still to be copied; 3 files, 2 KiB, from offset 7"
        assert await text(page, "journal-missed") == "5"
        assert await text(page, "journal-oldest") == "not known, or not yours to read"
        await note(page, "#journal-rate", under="journal-rate")
        telling_hub.answers["$hub/journal"] = STANDS | {"at_s": 14.0, "recorded_messages_total": 1_100}
        await wait_shown(page, "seen.includes('25/s')")
        await wait_shown(page, "document.getElementById('journal-tier').textContent.startsWith('none: ')")


async def test_a_journal_that_is_in_trouble(browser: Browser, telling_hub: ScriptedHub) -> None:
    """Why nothing is written, what is missing by that, and whether publishers wait."""
    telling_hub.answers["$hub/journal"] = STANDS | {"error": "the disk is full", "lost_messages_total": 12}
    async with browser.open(f"{telling_hub.page_url}#/journal") as page:
        expected = "Nothing is recorded now: the disk is full"
        await wait_shown(page, f"document.getElementById('journal-state')?.textContent === {expected!r}")
        assert await page.evaluate("return document.querySelector('.sentence').dataset.state") == "bad"
        assert await page.evaluate("return document.querySelector('.figure.alarm output').textContent") == "12"
        telling_hub.answers["$hub/journal"] = STANDS | {"waiting_bytes": 70_000, "pauses_total": 2}
        await wait_shown(page, "document.querySelector('.sentence').dataset.state === 'slow'")
        assert (await text(page, "journal-pauses")).startswith("publishers 2 times")


async def test_very_many_consumers_with_hostile_names(browser: Browser, telling_hub: ScriptedHub) -> None:
    """Markup is text, a direction is written out, and no more rows than can be read are made."""
    markup = "<img src=x onerror='globalThis.broken = true'>"
    hostile = [consumer(markup, lag=9), consumer("\u202ertl", lag=8, prefixes=[markup]), consumer("x" * 100_000, lag=7)]
    telling_hub.answers["$hub/consumers"] = [*hostile, *(consumer(f"c{n}", lag=1) for n in range(997))]
    telling_hub.answers["$hub/journal"] = STANDS | {"error": markup, "topics": [markup] * 100}
    async with browser.open(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.querySelectorAll('#consumers tr').length === 200")
        assert [row[0] for row in (await consumers(page))[:3]] == [markup, "\\u202ertl", "x" * 100_000]
        assert (await text(page, "consumers-told")).startswith("and 800 others")
        assert await page.evaluate("return [document.images.length, globalThis.broken ?? null]") == [0, None]
        assert await page.evaluate("return document.documentElement.scrollWidth === innerWidth")


async def test_consumers_of_a_journal_elsewhere(browser: Browser, telling_hub: ScriptedHub) -> None:
    """A hub that lets its clients use that of another one has no journal to show, and consumers nevertheless."""
    telling_hub.answers |= {"$hub/journal": None, "$hub/consumers": [consumer("far", lag=2)]}
    async with browser.open(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.querySelectorAll('#consumers tr').length === 1")
        assert (await text(page, "journal-state")).startswith("This hub records nothing itself.")


async def test_a_hub_that_is_lost_and_comes_back(browser: Browser, telling_hub: ScriptedHub) -> None:
    """What it tells then is not compared with what was before: its counters begin anew."""
    async with browser.open(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.getElementById('journal-records')?.textContent === '1k'")
        telling_hub.answers["$hub/journal"] = STANDS | {"first": 0, "committed": 7, "recorded_messages_total": 7}
        telling_hub.drop_connections()
        await wait_shown(page, "document.getElementById('journal-records').textContent === '7'")
        assert await text(page, "journal-rate") == UNKNOWN


async def test_a_refusal_is_told(browser: Browser, telling_hub: ScriptedHub) -> None:
    """The hub's words stand there; whoever may not ask has no entry, and without consumers the rest is shown."""
    telling_hub.refusals["$hub/journal"] = (1013, "not now")
    async with browser.open(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.getElementById('journal-problem')?.textContent === '1013: not now'")
    telling_hub.refusals.clear()
    telling_hub.answers["$hub/rights"] = RIGHTS | {"asks": ["$hub/journal"], "may": []}
    async with browser.open(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.getElementById('journal-records')?.textContent === '1k'")
        assert await page.evaluate("return document.getElementById('consumers').checkVisibility()") is False
    telling_hub.answers["$hub/rights"] = RIGHTS | {"asks": []}
    async with browser.open(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.querySelector('.told')?.textContent.startsWith('Journal is nothing')")
