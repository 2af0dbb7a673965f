"""The view of messages in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub
from tests.console.scripted_hub import ScriptedHub
from tests.console.seeing import enter, number, publish, rows, text, wait_messages, wait_rows, wait_shown


@pytest.fixture
def hub_page_url(real_hub: RealHub) -> str:
    return real_hub.page_url


@pytest.fixture
async def page(browser: Browser, hub_page_url: str) -> AsyncIterator[Page]:
    async with browser.reuse_tab(f"{hub_page_url}#/messages?prefix=/") as page:
        await wait_messages(page)
        yield page
        assert page.complaints == []


async def anew(page: Page, prefix: str) -> None:
    """Look at another prefix, of which nothing has come."""
    await page.evaluate("location.hash = address", address=f"#/messages?prefix={prefix}")
    await wait_shown(page, f"document.getElementById('prefix').value === {prefix!r}")
    await wait_messages(page)
    await wait_rows(page, 0)


async def test_rows(page: Page) -> None:
    """Newest first; a click or a key shows one in full; what is published is text and never HTML."""
    await publish(page, ("/zeek/dns", {"query": "example.org"}), ("/zeek/conn", [1, None, "x"]))
    await wait_shown(page, "document.getElementById('received').textContent === '2'")
    await wait_rows(page, 2)
    assert await rows(page) == [["/zeek/conn", '[1,null,"x"]'], ["/zeek/dns", '{"query":"example.org"}']]
    await wait_shown(page, "document.getElementById('topic-count').textContent === '2'")
    assert await number(page, "dropped") == 0
    press = "document.getElementById('stream').dispatchEvent(new KeyboardEvent('keydown', {key}))"
    inspected = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        await page.evaluate(press, key=key)
        inspected.append(await text(page, "inspected-topic"))
    assert inspected == ["/zeek/conn", "/zeek/dns", "/zeek/dns", "/zeek/conn"]
    await page.evaluate(press, key="Escape")
    assert await page.evaluate("return document.getElementById('inspector').hidden")

    await anew(page, "/deep")
    await publish(page, ("/deep", {"long": "x" * 10_000}), ("/deep", {"deep": {"er": [1]}}))
    await wait_rows(page, 2)
    await page.evaluate("document.querySelectorAll('.row')[0].click()")
    await page.evaluate("document.getElementById('inspector-form').click()")
    assert json.loads(await text(page, "inspected-value")) == {"deep": {"er": [1]}}
    assert "\n" in await text(page, "inspected-value")

    await anew(page, "/<")
    markup = "<img src=x onerror='globalThis.broken = true'>"
    await publish(page, (f"/{markup}", {markup: markup}))
    await wait_rows(page, 1)
    await page.evaluate("document.querySelector('.row').click()")
    await wait_shown(page, "document.querySelectorAll('#topics tr').length === 1")
    assert await rows(page) == [[f"/{markup}", json.dumps({markup: markup}, separators=(",", ":"))]]
    assert await text(page, "inspected-topic") == f"/{markup}"
    assert await page.evaluate("return [document.images.length, globalThis.broken ?? null]") == [0, None]


@pytest.mark.parametrize("fragment", ["#/messages?prefix=%2Fzeek%2F+d", "#/zeek/%20d"])
async def test_the_prefix_stands_in_the_address(browser: Browser, hub_page_url: str, fragment: str) -> None:
    async with browser.reuse_tab(f"{hub_page_url}{fragment}") as page:
        await wait_messages(page)
        assert await page.evaluate("return document.getElementById('prefix').value") == "/zeek/ d"
        await wait_shown(page, "!document.getElementById('empty-connected').hidden")
        assert await number(page, "received") == 0
        assert await page.evaluate("return document.getElementById('empty-disconnected').hidden")
        await publish(page, ("/zeek/ dns", 1), ("/zeek/conn", 2), ("/zeek/ d", 3))
        await wait_rows(page, 2)
        assert await rows(page) == [["/zeek/ d", "3"], ["/zeek/ dns", "1"]]


async def test_the_form_publishes(page: Page) -> None:
    for value, said in (
        ('{"n": [1, 2]}', "accepted by the hub"),
        ('{"hello"', "not valid JSON: "),
        ("hello", "accepted by the hub"),
    ):
        await page.evaluate("document.getElementById('published').textContent = ''")
        await enter(page, {"topic": "/demo/form", "value": value}, "#publish button")
        await wait_shown(page, "document.getElementById('published').textContent !== ''")
        assert (await text(page, "published")).startswith(said)
    await wait_rows(page, 2)
    assert await rows(page) == [["/demo/form", '"hello"'], ["/demo/form", '{"n":[1,2]}']]


async def test_a_flood_is_counted_in_full_and_shown_in_part(page: Page) -> None:
    await page.evaluate("""
        const {connect} = await import("/hub.js");
        const publisher = connect();
        for (let number = 1; number <= 6000; number += 1) {
          const confirm = number % 500 === 0;
          const sent = publisher.publish(`/flood/${number % 50}`, {number, text: "x".repeat(60)}, {confirm});
          if (confirm) await sent;
        }
        await publisher.close();
    """)
    await wait_shown(page, "document.getElementById('received').textContent.replace(/\\D/g, '') === '6000'")
    shown = await rows(page)
    numbers = [json.loads(value)["number"] for _, value in shown]
    assert numbers == list(range(6_000, 6_000 - len(shown), -1))
    assert await page.evaluate("return document.querySelectorAll('.row').length") < 100
    skipped = await number(page, "skipped")
    assert 0 < skipped <= 6_000 - 1_000, "the ring holds the newest 1,000; of the older ones some were drawn"
    await wait_shown(page, "document.getElementById('topic-count').textContent === '50'")
    assert await number(page, "dropped") == 0


async def test_a_paused_stream_stands_still_and_counts(page: Page) -> None:
    await publish(page, ("/a", 1))
    await wait_rows(page, 1)
    await page.evaluate("document.getElementById('hold').click()")
    await publish(page, ("/a", 2), ("/a", 3))
    await wait_shown(page, "document.getElementById('received').textContent === '3'")
    assert await rows(page) == [["/a", "1"]]
    assert await text(page, "skipped") == "2 skipped"
    await page.evaluate("document.getElementById('hold').click()")
    await publish(page, ("/a", 4))
    await wait_rows(page, 2)
    assert await rows(page) == [["/a", "4"], ["/a", "1"]]


async def test_scrolling_away_from_the_newest_holds_the_stream(page: Page) -> None:
    await publish(page, *[("/a", value) for value in range(1000)])
    await wait_shown(page, "document.getElementById('received').textContent.replace(/\\D/g, '') === '1000'")
    await page.evaluate("document.getElementById('stream').scrollTop = 1e6")
    await wait_shown(page, "[...document.querySelectorAll('.row:not([hidden]) .value')].at(-1).textContent === '0'")
    await wait_shown(page, "document.getElementById('hold').textContent === 'Resume'")
    before = await rows(page)
    await publish(page, ("/a", "more"))
    await wait_shown(page, "document.getElementById('skipped').textContent === '1 skipped'")
    assert await rows(page) == before
    await page.evaluate("document.getElementById('hold').click()")
    await wait_shown(page, "document.querySelector('.row .value').textContent === '999'")


async def test_drops_and_refusals(browser: Browser, hub: ScriptedHub) -> None:
    hub.refusals["/secret/"] = (1008, "not for you")
    async with browser.reuse_tab(f"{hub.page_url}#/messages?prefix=/secret/") as page:
        await wait_shown(page, "document.getElementById('problem')?.hidden === false")
        assert await text(page, "problem") == "1008: not for you"
        await page.evaluate("location.hash = '#/messages?prefix=/public/'")
        await wait_shown(page, "document.getElementById('problem').hidden")
        await hub.wait_until(lambda hub: hub.of_type("subscribe")[-1]["prefixes"] == ["/public/"])
        await wait_messages(page)
        await hub.send(type="dropped", count=40)
        await hub.send(type="dropped", count=2)
        await wait_shown(page, "document.getElementById('dropped').textContent === '42'")
        assert await page.evaluate("return document.getElementById('dropped-figure').className") == "figure alarm"


async def test_values_are_trees(page: Page) -> None:
    deep: object = "bottom"
    for _ in range(60):
        deep = [deep]
    value = {"n": 1.5, "when": "2026-11-23T02:00:00Z", "who": "10.0.0.7", "many": list(range(1000)), "deep": deep}
    await publish(page, ("/tree", value))
    await wait_rows(page, 1)
    await page.evaluate("document.querySelector('.row').click()")
    tree = "document.getElementById('inspected-tree')"
    assert (await page.evaluate(f"return {tree}.querySelector('summary').textContent")).endswith("map of 5")
    leaves = await page.evaluate(f"return [...{tree}.querySelectorAll('.leaf')].map((leaf) => leaf.textContent)")
    assert leaves[:3] == ["n: 1.5number", 'when: "2026-11-23T02:00:00Z"time', 'who: "10.0.0.7"address']
    await page.evaluate(
        f"[...{tree}.querySelectorAll('summary')].find((it) => it.textContent.startsWith('many')).click()"
    )
    await wait_shown(page, f"{tree}.querySelector('.more')?.textContent === '900 more'")
    await page.evaluate(f"{tree}.querySelector('.more').click()")
    await wait_shown(page, f"{tree}.querySelector('.more').textContent === '800 more'")
    for _ in range(60):  # each opens what the last click has made
        await page.evaluate(f"[...{tree}.querySelectorAll('details')].at(-1).open = true")
        await page.evaluate("await new Promise(requestAnimationFrame)")
    await wait_shown(page, f"[...{tree}.querySelectorAll('.leaf')].at(-1).textContent.includes('bottom')")


async def test_hostile_messages(page: Page) -> None:
    topic = "/rtl/\u202etxt.exe\u200b"
    await publish(page, (topic, "\u001b[31mred\u202e"), ("/long", "\u0001" * 400_000), ("/wide", "x" * 1_000_000))
    await wait_rows(page, 3)
    shown = await rows(page)
    assert shown[2] == ["/rtl/\\u202etxt.exe\\u200b", '"\\u001b[31mred\\u202e"']
    assert [len(value) for _, value in shown[:2]] == [600, 600]
    await page.evaluate("document.querySelectorAll('.row')[1].click()")
    assert (await text(page, "inspected-value")).endswith("… (2400002 characters)")
    assert await page.evaluate("return document.getElementById('inspector-form').hidden")
    await page.evaluate("document.querySelectorAll('.row')[0].click()")
    assert "… (1000002 characters)" in await text(page, "inspected-tree")
    await page.evaluate("document.querySelectorAll('.row')[2].click()")
    assert await text(page, "inspected-topic") == shown[2][0]
    assert "\u202e" not in str(await page.evaluate("return document.body.textContent"))


async def test_a_search_and_labels(page: Page) -> None:
    await enter(page, {"search": "NeEdle"}, "#filter button")
    await wait_messages(page)
    assert "search=NeEdle" in str(await page.evaluate("return location.hash"))
    await publish(page, ("/hay", {"a": "needle"}), ("/hay", "stack"), ("/needle", 1), ("/hay", "stack"))
    await wait_shown(page, "document.getElementById('received').textContent === '4'")
    await wait_rows(page, 2)
    assert await rows(page) == [["/needle", "1"], ["/hay", '{"a":"needle"}']]

    await anew(page, "/door")
    await enter(page, {"labels": " urgent , north"}, "#filter button")
    await wait_messages(page)
    await page.evaluate("""
        const {connect} = await import("/hub.js");
        const publisher = connect();
        publisher.publish("/door", "no", {labels: ["urgent"]});
        publisher.publish("/door", "no");
        await publisher.publish("/door", "yes", {labels: ["north", "urgent", "x"], confirm: true});
        await publisher.close();
    """)
    await wait_rows(page, 1)
    assert await rows(page) == [["/door", '"yes"']]
    await page.evaluate("document.querySelector('.row').click()")
    assert "labels north, urgent, x" in await text(page, "inspected-beside")
