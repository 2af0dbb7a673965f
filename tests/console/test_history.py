"""What the view of messages shows of the journal, and what can be done with what it shows. In a real Chromium."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from peers.users.tokens import AdminToken
from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import RIGHTS, ScriptedHub
from tests.console.seeing import enter, publish, rows, text, wait_messages, wait_rows, wait_shown

KEEP_EXPORTS = """
    globalThis.exports = [];
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => { blob.text().then((text) => exports.push(text)); return make.call(URL, blob); };
"""


@pytest.fixture(scope="module")
def recording_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHub]:
    with run_hub("--journal", str(tmp_path_factory.mktemp("journal") / "journal")) as hub:
        yield hub


@pytest.fixture
async def page(browser: Browser, recording_hub: RealHub) -> AsyncIterator[Page]:
    async with browser.reuse_tab(f"{recording_hub.page_url}#/messages?prefix=/") as page:
        await wait_messages(page)
        yield page
        assert page.complaints == []


async def record(page: Page, topic: str, values: list[object]) -> int:
    return int(
        await page.evaluate(
            """
            const {connect} = await import("/hub.js");
            const publisher = connect();
            const publish = (value) => publisher.publish(topic, value, {confirm: "recorded"});
            const offsets = await Promise.all(values.map(publish));
            await publisher.close();
            return offsets[0];
            """,
            topic=topic,
            values=values,
        )
    )


async def go(page: Page, fragment: str) -> None:
    await page.evaluate("location.hash = fragment", fragment=fragment)
    await wait_messages(page)


async def look_back(page: Page) -> None:
    await page.evaluate("document.getElementById('turn').click()")
    await wait_shown(page, "!document.getElementById('history').hidden")
    await wait_messages(page)


async def test_jumps(page: Page) -> None:
    """To an offset, to a time, and back to what comes."""
    first = await record(page, "/jump/a", [1, 2, 3])
    await look_back(page)
    await enter(page, {"history-offset": first + 1, "history-at": ""}, "#history-jump button")
    await wait_rows(page, 2)
    assert await rows(page) == [["/jump/a", "2"], ["/jump/a", "3"]]
    assert f"offset={first + 1}" in str(await page.evaluate("return location.hash"))
    assert (await text(page, "history-told")) == f"2 of 2 records, offsets {first + 1} to {first + 2}"
    await enter(page, {"history-offset": "", "history-at": "2001-01-31 16:30:00"}, "#history-jump button")
    await wait_shown(page, "document.getElementById('history-at').value === '2001-01-31 16:30:00.000'")
    await wait_shown(page, "Number(document.getElementById('topic-count').textContent) > 0")
    await page.evaluate("document.getElementById('turn').click()")
    await wait_shown(page, "document.getElementById('history').hidden")
    await wait_messages(page)
    await publish(page, ("/jump/b", "live"))
    await wait_shown(page, "document.querySelector('.row:not([hidden]) .value')?.textContent === '\"live\"'")


async def test_the_slider(page: Page) -> None:
    prefix = f"/slide/{uuid4()}/"  # nobody has recorded anything there
    await record(page, prefix + "a", ["old"])
    await record(page, prefix + "b", ["new"])
    await go(page, f"#/messages?prefix={prefix}&at=2100-01-01T00:00:00Z")
    await wait_rows(page, 0)
    await wait_shown(page, "!document.getElementById('history-slider').disabled")
    await wait_shown(page, "document.getElementById('history-time').textContent !== ''")
    await page.evaluate("""
        const slider = document.getElementById("history-slider");
        slider.value = "0";
        slider.dispatchEvent(new Event("input"));
        slider.dispatchEvent(new Event("change"));
    """)
    await wait_rows(page, 2)
    assert await rows(page) == [[prefix + "a", '"old"'], [prefix + "b", '"new"']]
    assert await page.evaluate("return document.querySelector('.row .time').title") != "", "it says its offset"


async def test_many_records(page: Page) -> None:
    first = await record(page, "/many", [{"n": number} for number in range(700)])
    await go(page, f"#/messages?prefix=/many&offset={first}")
    await wait_shown(page, "document.getElementById('history-told').textContent.startsWith('500 of 500')")
    await wait_shown(page, "document.querySelector('.row:not([hidden])')")
    assert (await rows(page))[0] == ["/many", '{"n":0}']
    await page.evaluate("document.getElementById('history-later').click()")
    await wait_shown(page, "document.querySelector('.row:not([hidden]) .value')?.textContent === '{\"n\":500}'")
    await wait_shown(page, "document.getElementById('history-later').disabled")
    await go(page, f"#/messages?prefix=/many&offset={first}&search=69")
    await wait_shown(page, "document.getElementById('history-told').textContent.includes(' of 700 ')")
    shown = [json.loads(value)["n"] for _, value in await rows(page)]
    assert shown == [number for number in range(700) if "69" in str(number)][: len(shown)]


async def test_an_offset_that_is_not_there(page: Page) -> None:
    await go_without_waiting(page, "#/messages?offset=999999999")
    await wait_shown(page, "document.getElementById('problem')?.hidden === false")
    assert (await text(page, "problem")).startswith("4011: ")
    await go(page, "#/messages?prefix=/")
    assert await page.evaluate("return document.getElementById('problem').hidden")
    await go_without_waiting(page, "#/messages?at=yesterday")
    await wait_shown(page, "document.getElementById('problem').textContent.includes('no time')")


async def go_without_waiting(page: Page, fragment: str) -> None:
    await page.evaluate("location.hash = fragment", fragment=fragment)


async def test_what_is_listed_is_exported(page: Page) -> None:
    await page.evaluate(KEEP_EXPORTS)
    await publish(page, ("/export/a", {"x": 1}), ("/export/b", [None]), ("/export/c", "ü"))
    await wait_rows(page, 3)
    await wait_shown(page, "!document.getElementById('export').disabled")
    await page.evaluate("document.getElementById('export').click()")
    await wait_shown(page, "exports.length === 1")
    lines = [json.loads(line) for line in str(await page.evaluate("return exports[0]")).splitlines()]
    assert [(line["topic"], line["value"]) for line in lines] == [
        ("/export/a", {"x": 1}),
        ("/export/b", [None]),
        ("/export/c", "ü"),
    ]
    assert all(line["time"].endswith("Z") for line in lines)
    await page.evaluate("""
        const shown = document.querySelectorAll(".row:not([hidden])");
        shown[0].click();
        shown[1].dispatchEvent(new MouseEvent("click", {bubbles: true, shiftKey: true}));
        await new Promise(requestAnimationFrame);
    """)
    assert await page.evaluate("return document.querySelectorAll('.row.selected').length") == 2
    await page.evaluate("document.getElementById('export').click()")
    await wait_shown(page, "exports.length === 2")
    assert [json.loads(line)["topic"] for line in str(await page.evaluate("return exports[1]")).splitlines()] == [
        "/export/b",
        "/export/c",
    ]


async def test_a_selection_is_published_again(page: Page) -> None:
    await publish(page, ("/again/a", 1), ("/again/b", {"two": 2}))
    await wait_rows(page, 2)
    await wait_shown(page, "!document.getElementById('replay').disabled")
    await page.evaluate("document.getElementById('replay').click()")
    await wait_shown(page, "document.getElementById('replay-dialog').open")
    assert await text(page, "replay-question") == "Publish 2 messages again, each to its own topic?"
    await page.evaluate("document.getElementById('replay-cancel').click()")
    await page.evaluate("document.getElementById('replay').click()")
    await enter(page, {"replay-topic": "/elsewhere"})
    assert await text(page, "replay-question") == "Publish 2 messages again, to /elsewhere?"
    await page.evaluate("document.getElementById('replay-sure').click()")
    await wait_shown(page, "document.getElementById('replay-outcome').textContent === '2 of 2 published.'")
    await wait_rows(page, 4)
    assert (await rows(page))[:2] == [["/elsewhere", '{"two":2}'], ["/elsewhere", "1"]]


async def test_a_hub_without_a_journal(browser: Browser, real_hub: RealHub) -> None:
    async with browser.reuse_tab(f"{real_hub.page_url}#/messages?prefix=/") as page:
        await wait_messages(page)
        turn = await page.evaluate(
            "const {disabled, title} = document.getElementById('turn'); return [disabled, title]"
        )
        assert turn == [True, "This hub has no journal"]


async def test_who_may_not(browser: Browser, hub: ScriptedHub) -> None:
    hub.answers["$hub/rights"] = RIGHTS | {"admin": False, "may": ["subscribe"]}
    async with browser.reuse_tab(f"{hub.page_url}#/messages") as page:
        await wait_messages(page)
        hidden = "return ['turn', 'replay'].map((name) => document.getElementById(name).hidden)"
        assert await page.evaluate(hidden) == [True, True]
        assert await page.evaluate("return document.getElementById('publish')") is None


async def test_the_token_reaches_the_thread(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("guarded")
    token = AdminToken(str(folder / "admin-token"))
    with run_hub("--access-admin-token", str(folder / "admin-token")) as hub:
        async with browser.reuse_tab(f"{hub.page_url}#token={token.secret()}") as page:
            await wait_shown(page, "document.getElementById('user').textContent === 'admin'")
            await go(page, "#/messages?prefix=/")
            await enter(page, {"topic": "/mine"}, "#publish button")
            await wait_rows(page, 1)
