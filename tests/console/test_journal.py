"""The view of the journal in a real Chromium."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import RIGHTS, ScriptedHub
from tests.console.seeing import cells, enter, number, text, wait_shown, wait_view

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
    counters = dict.fromkeys(("acknowledged_total", "redelivered_total", "dead_total"), 0)
    usual = {
        "prefixes": ["/a"],
        "members": 1,
        "lag": 0,
        "out": 0,
        "error": "",
        "counters": counters,
        "committed_s": None,
    }
    return {"name": name} | usual | fields


@pytest.fixture(scope="module")
def recording_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHub]:
    with run_hub("--journal", str(tmp_path_factory.mktemp("journal"))) as hub:
        yield hub


@pytest.fixture
def telling_hub(hub: ScriptedHub) -> ScriptedHub:
    hub.answers["$hub/rights"] = RIGHTS | {"asks": ASKS, "may": ["subscribe"]}
    hub.answers |= {"$hub/journal": STANDS, "$hub/consumers": []}
    return hub


@pytest.fixture
async def page(browser: Browser, recording_hub: RealHub) -> AsyncIterator[Page]:
    async with browser.reuse_tab(f"{recording_hub.page_url}#/journal") as page:
        await wait_view(page, "journal")
        yield page
        assert page.complaints == []


async def note(page: Page, selector: str, *, under: str) -> None:
    """Keep in `seen` what an element says from now on: what it says for one look alone is not missed."""
    await page.evaluate(
        """
        globalThis.seen = [];
        const look = () => seen.push(document.querySelector(selector)?.textContent ?? "");
        const changes = {childList: true, characterData: true, subtree: true};
        new MutationObserver(look).observe(document.getElementById(under), changes);
        """,
        selector=selector,
        under=under,
    )


async def test_what_is_recorded_is_seen(page: Page) -> None:
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
    async with browser.reuse_tab(f"{real_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.getElementById('journal-state')?.textContent.includes('hub run --journal')")
        assert await page.evaluate("return document.querySelector('.journal .figures').checkVisibility()") is False
        assert await page.evaluate("return document.getElementById('consumers').checkVisibility()") is False
        assert page.complaints == []


async def test_how_far_behind(browser: Browser, telling_hub: ScriptedHub) -> None:
    slow, quick = consumer("slow", lag=500), consumer("quick", lag=400)
    others = [consumer("done"), consumer("left", lag=3, members=0), consumer("broken", lag=1, error="damaged")]
    queries = [consumer("idle", members=0, committed_s=2.5), consumer("query", lag=2, members=0, committed_s=120.0)]
    telling_hub.answers["$hub/consumers"] = [slow, quick, *others, *queries]
    async with browser.reuse_tab(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.querySelectorAll('#consumers tr').length === 7")
        order = ["slow", "quick", "left", "query", "broken", "done", "idle"]
        assert [row[0] for row in await cells(page, "consumers", 0, 2, 3)] == order
        assert await page.evaluate("return document.querySelectorAll('#consumers tr')[3].dataset.state") == "bad"
        assert {row[0]: row[2] for row in await cells(page, "consumers", 0, 2, 3)} | {"slow": "", "quick": ""} == {
            "slow": "",
            "quick": "",
            "left": "has no clients",
            "query": "is behind: a query, last commit 2 min ago",
            "idle": "keeps up: a query, last commit 2.5 s ago",
            "broken": "damaged",
            "done": "keeps up",
        }
        await note(page, "#consumers .standing", under="consumers")
        telling_hub.answers["$hub/consumers"] = [slow | {"lag": 900}]
        await wait_shown(page, "seen.some((it) => /^falls behind by /.test(it)) && /^stays/.test(seen.at(-1))")
        telling_hub.answers["$hub/consumers"] = [slow | {"lag": 450}]
        await wait_shown(page, "seen.some((it) => /^catches up in /.test(it))")


async def test_rates_retention_a_tier_and_trouble(browser: Browser, telling_hub: ScriptedHub) -> None:
    tier = {"first": 7, "next": 1_000, "files": 3, "size_bytes": 2_048, "missed": 5, "error": ""}
    telling_hub.answers["$hub/journal"] = STANDS | {"tier": tier}
    async with browser.reuse_tab(f"{telling_hub.page_url}#/journal") as page:
        await wait_shown(page, "document.getElementById('journal-records')?.textContent === '1k'")
        assert await page.evaluate("return document.getElementById('export-begin').checkVisibility()") is False
        told = {
            "journal-rate": UNKNOWN,
            "journal-kept": "up to 977 KiB or 1 h 0 min; 25 % of the size is used",
            "journal-tier": "100 records not yet copied; 3 files, 2 KiB, from offset 7",
            "journal-missed": "5",
            "journal-oldest": "unknown, or not permitted",
        }
        assert {name: await text(page, name) for name in told} == told
        await note(page, "#journal-rate", under="journal-rate")
        telling_hub.answers["$hub/journal"] = STANDS | {"at_s": 14.0, "recorded_messages_total": 1_100}
        await wait_shown(page, "seen.includes('25/s')")
        await wait_shown(page, "document.getElementById('journal-tier').textContent.startsWith('none: ')")
        telling_hub.answers["$hub/journal"] = STANDS | {"error": "the disk is full", "lost_messages_total": 12}
        expected = "The journal does not record: the disk is full"
        await wait_shown(page, f"document.getElementById('journal-state').textContent === {expected!r}")
        assert await page.evaluate("return document.querySelector('.sentence').dataset.state") == "bad"
        assert await page.evaluate("return document.querySelector('.figure.alarm output').textContent") == "12"
        telling_hub.answers["$hub/journal"] = STANDS | {"waiting_bytes": 70_000, "pauses_total": 2}
        await wait_shown(page, "document.querySelector('.sentence').dataset.state === 'slow'")
        assert (await text(page, "journal-pauses")).startswith("2 times")
        telling_hub.answers["$hub/journal"] = STANDS | {"first": 0, "committed": 7, "recorded_messages_total": 7}
        telling_hub.drop_connections()
        await wait_shown(page, "document.getElementById('journal-records').textContent === '7'")
        assert await text(page, "journal-rate") == UNKNOWN
        telling_hub.answers |= {"$hub/journal": None, "$hub/consumers": [consumer("far", lag=2)]}
        await wait_shown(page, "document.querySelectorAll('#consumers tr').length === 1")
        state = "document.getElementById('journal-state').textContent"
        await wait_shown(page, f"{state}.startsWith('This hub has no journal. Below')")


CHOOSES = """
    globalThis.saved = {name: null, text: "", ends: []};
    const write = async (bytes) => { saved.text += new TextDecoder().decode(bytes); await globalThis.written?.(); };
    const end = (how) => async () => { saved.ends.push(how); await globalThis.ended?.(); };
    globalThis.showSaveFilePicker = async ({suggestedName}) => {
      saved.name = suggestedName;
      return {createWritable: async () => ({write, close: end("closed"), abort: end("aborted")})};
    };
"""
"""Stands for a reader who chooses a file."""

RECORD = """
    const {connect} = await import("/hub.js");
    const publisher = connect();
    await Promise.all(values.map((value) => publisher.publish(topic, value, {confirm: "recorded"})));
    await publisher.close();
"""


@pytest.fixture
def place() -> str:
    """A prefix under which nothing was recorded before: the hub is there for all tests."""
    return f"/place/{secrets.token_hex(8)}/"


async def export(page: Page, prefix: str, records: int | None = None) -> None:
    """Begin to export what has a prefix; wait until so many records are said to be exported."""
    await wait_shown(page, "document.getElementById('journal-records').textContent !== '\N{EN DASH}'")
    await enter(page, {"export-prefix": prefix}, "#export-begin")
    if records is not None:
        said = f"Exported: {records} record"
        await wait_shown(page, f"document.getElementById('export-told').textContent.startsWith({said!r})")


async def test_an_export(page: Page, place: str) -> None:
    hostile = "</script>\n\N{RIGHT-TO-LEFT OVERRIDE}"
    await page.evaluate(CHOOSES + RECORD, topic=place + "a", values=[{"n": 1}, hostile, None])
    await page.evaluate(RECORD, topic="/other", values=[1])
    await export(page, place, 3)
    saved = await page.evaluate("return saved")
    lines = [json.loads(line) for line in saved["text"].splitlines()]
    assert [(line["topic"], line["value"]) for line in lines] == [
        (place + "a", value) for value in ({"n": 1}, hostile, None)
    ]
    assert [line["offset"] for line in lines] == sorted(line["offset"] for line in lines)
    assert (saved["ends"], saved["name"].endswith(".ndjson")) == (["closed"], True)
    assert await page.evaluate("return document.getElementById('export-cancel').checkVisibility()") is False
    await page.evaluate("document.getElementById('export-to').value = '2001-01-01T00:00'")
    await export(page, place, 0)
    await enter(page, {"export-from": "2001-01-01T00:00", "export-to": "2999-01-01T00:00"})
    await export(page, place, 3)


async def test_an_export_is_cancelled(page: Page, place: str) -> None:
    await page.evaluate(CHOOSES + RECORD, topic=place + "a", values=["x" * 10_000] * 100)
    await page.evaluate("globalThis.written = () => new Promise(() => {})")
    await export(page, place)
    await wait_shown(page, "saved.text.length > 0")
    assert await page.evaluate("return document.getElementById('export-begin').disabled") is True
    length = await page.evaluate("return saved.text.length")
    await page.evaluate("document.getElementById('export-cancel').click()")
    assert await text(page, "export-told") == "Cancelled: nothing was saved."
    assert await page.evaluate("return [saved.ends, saved.text.length]") == [["aborted"], length]
    assert length < 1_000_000
    await page.evaluate("globalThis.written = undefined; saved.text = ''")
    await export(page, place, 100)
    assert await page.evaluate("return saved.text.length > 1e6")
    # An export ends with the view.
    await page.evaluate("saved.ends = []; globalThis.written = () => new Promise(() => {})")
    await export(page, place)
    await wait_shown(page, "saved.text.length > 1e6")
    await page.evaluate("location.hash = '#/overview'")
    await wait_shown(page, "saved.ends.includes('aborted')")


async def test_what_is_being_saved_is_not_cancelled(page: Page, place: str) -> None:
    """All is read then, and the browser has it: to say that nothing was saved would be wrong."""
    await page.evaluate(CHOOSES + RECORD, topic=place + "a", values=[1])
    await page.evaluate("globalThis.ended = () => new Promise((resolve) => { globalThis.release = resolve; })")
    await export(page, place)
    await wait_shown(page, "saved.ends.includes('closed')")
    assert await page.evaluate("return document.getElementById('export-cancel').checkVisibility()") is False
    assert await page.evaluate("return document.getElementById('export-begin').disabled") is True
    await page.evaluate("release()")
    await wait_shown(page, "document.getElementById('export-told').textContent.startsWith('Exported: 1 records')")
    assert await page.evaluate("return document.getElementById('export-begin').disabled") is False


async def test_numbers_that_a_browser_rounds(page: Page, recording_hub: RealHub, place: str) -> None:
    values = (2**60 + 1, {"a": [1, {"b": -(2**53)}]}, 2**53 - 1, 0.1234567890123456, "1234567890123456789")
    lines = "\n".join(json.dumps(value) for value in values)
    # Not by the page: a connection over which something was published brings no files.
    status, _ = await asyncio.to_thread(posted, recording_hub, f"/v1/publish{place}a?confirm=1", lines)
    assert status == HTTPStatus.OK
    await page.evaluate(CHOOSES)
    await export(page, place, 5)
    assert " 2 of them have integers above 2^53, which browsers round" in await text(page, "export-told")


def posted(hub: RealHub, path: str, lines: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", hub.port)
    connection.request("POST", path, lines.encode(), {"Content-Type": "application/x-ndjson"})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


async def test_an_export_by_a_browser_without_a_choice_of_files(page: Page, place: str) -> None:
    await page.evaluate(
        """
        globalThis.showSaveFilePicker = undefined;
        const keep = URL.createObjectURL;
        URL.createObjectURL = (blob) => {
          globalThis.blob = blob;
          return keep.call(URL, blob);
        };
        HTMLAnchorElement.prototype.click = function () { globalThis.download = this.download; };
        """
        + RECORD,
        topic=place + "a",
        values=[1, 2],
    )
    await export(page, place)
    await wait_shown(page, "globalThis.download !== undefined")
    name, saved = await page.evaluate("return [download, await blob.text()]")
    assert name.endswith(".ndjson")
    assert [json.loads(line)["value"] for line in saved.splitlines()] == [1, 2]
    await page.evaluate(CHOOSES)
    await page.evaluate("globalThis.written = async () => { throw new Error('the disk is full'); }")
    await export(page, place)
    await wait_shown(page, "document.getElementById('export-told').textContent.includes('the disk is full')")
