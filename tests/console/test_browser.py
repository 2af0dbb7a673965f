"""The hub's page, and the example page, in a real Chromium.

The hub under test is that of the fixture `hub_page_url`: these tests ask nothing of it but what is documented. Those
that need a hub that loses connections or refuses take the scripted one by name.
"""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from peers.users.admin_token import AdminToken
from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import ScriptedHub

EXAMPLE = Path(__file__).parents[2] / "examples" / "browser" / "index.html"


async def publish(page: Page, *messages: tuple[str, Any]) -> None:
    """Publish messages to the hub of a page, through a client of their own, and wait until the hub has them."""
    await page.evaluate(
        """
        const {connect} = await import("/hub.js");
        const publisher = connect();
        await Promise.all(messages.map(([topic, value]) => publisher.publish(topic, value, {confirm: true})));
        await publisher.close();
        """,
        messages=messages,
    )


async def wait_shown(page: Page, condition: str) -> None:
    """Wait until a JavaScript condition holds, looked at once a frame."""
    await page.evaluate(f"while (!({condition})) await new Promise(requestAnimationFrame);")


async def wait_connected(page: Page) -> None:
    """Wait until the page says so; what is published afterwards reaches it."""
    await wait_shown(page, "document.getElementById('state').textContent === 'connected'")


async def text(page: Page, name: str) -> str:
    """Return the text of an element."""
    return str(await page.evaluate("return document.getElementById(name).textContent", name=name))


async def number(page: Page, name: str) -> int:
    """Return the number that an element shows, without what groups its digits."""
    return int("".join(character for character in await text(page, name) if character.isdigit()) or "0")


async def rows(page: Page) -> list[list[str]]:
    """Return topic and value of the rows in sight, newest first."""
    shown: list[list[str]] = await page.evaluate("""
        return [...document.querySelectorAll(".row:not([hidden])")].map(
          (row) => [row.querySelector(".topic").textContent, row.querySelector(".value").textContent]);
    """)
    return shown


@pytest.fixture
def hub_page_url(real_hub: RealHub) -> str:
    """Where the page of the hub under test is."""
    return real_hub.page_url


@pytest.fixture
async def page(browser: Browser, hub_page_url: str) -> AsyncIterator[Page]:
    """The hub's page, connected, that has nothing to complain about when the test is over.

    The prefix leaves out the hub's own topics, on which it tells who comes and goes.
    """
    async with browser.reuse_tab(f"{hub_page_url}#/") as page:
        await wait_connected(page)
        yield page
        assert page.complaints == []


async def test_messages_are_shown_newest_first(page: Page) -> None:
    """Whoever opens the hub's address sees what is published: topic, value, and how many there were."""
    await publish(page, ("/zeek/dns", {"query": "example.org"}), ("/zeek/conn", [1, None, "x"]))
    await wait_shown(page, "document.getElementById('received').textContent === '2'")
    await wait_shown(page, "document.querySelectorAll('.row:not([hidden])').length === 2")
    assert await rows(page) == [["/zeek/conn", '[1,null,"x"]'], ["/zeek/dns", '{"query":"example.org"}']]
    assert await number(page, "topic-count") == 2
    assert await number(page, "dropped") == 0


async def test_what_is_published_is_text_and_never_html(page: Page) -> None:
    """Markup in topics and values stands there as it was written; no element comes of it and no script runs."""
    markup = "<img src=x onerror='globalThis.broken = true'>"
    await publish(page, (f"/{markup}", {markup: markup}))
    await wait_shown(page, "document.querySelectorAll('.row:not([hidden])').length === 1")
    await page.evaluate("document.querySelector('.row').click()")
    await wait_shown(page, "document.querySelectorAll('#topics tr').length === 1")
    assert await rows(page) == [[f"/{markup}", json.dumps({markup: markup}, separators=(",", ":"))]]
    assert await text(page, "inspected-topic") == f"/{markup}"
    assert await page.evaluate("return [document.images.length, globalThis.broken ?? null]") == [0, None]


async def test_the_prefix_stands_in_the_address(browser: Browser, hub_page_url: str) -> None:
    """An address with a prefix shows what it matches, and the box shows the prefix."""
    async with browser.open(f"{hub_page_url}#/zeek/%20d") as page:
        await wait_connected(page)
        assert await page.evaluate("return document.getElementById('prefix').value") == "/zeek/ d"
        await publish(page, ("/zeek/ dns", 1), ("/zeek/conn", 2), ("/zeek/ d", 3))
        await wait_shown(page, "document.getElementById('received').textContent === '2'")
        await wait_shown(page, "document.querySelectorAll('.row:not([hidden])').length === 2")
        assert await rows(page) == [["/zeek/ d", "3"], ["/zeek/ dns", "1"]]


@pytest.mark.parametrize("prefix", ["/a/ü #100%", ""])
async def test_another_prefix_starts_anew(page: Page, prefix: str) -> None:
    """Applying a prefix clears what was shown, puts it into the address, and takes effect at once."""
    await publish(page, ("/old", 1))
    await wait_shown(page, "document.getElementById('received').textContent === '1'")
    await page.evaluate(
        """
        document.getElementById("prefix").value = prefix;
        document.querySelector("#filter button").click();
        """,
        prefix=prefix,
    )
    assert await page.evaluate("return decodeURIComponent(location.hash.slice(1))") == prefix
    await publish(page, (f"{prefix}/new", 2))
    await wait_shown(
        page, "[...document.querySelectorAll('.row:not([hidden]) .value')].some((it) => it.textContent === '2')"
    )
    assert [row for row in await rows(page) if not row[0].startswith("$hub/")] == [[f"{prefix}/new", "2"]]


async def test_the_form_publishes_and_tells_when_the_hub_has_it(page: Page) -> None:
    """What is published on the page comes back to it, like to every subscriber."""
    await page.evaluate("""
        document.getElementById("topic").value = "/demo/form";
        document.getElementById("value").value = '{"n": [1, 2]}';
        document.querySelector("#publish button").click();
    """)
    await wait_shown(page, "document.getElementById('published').textContent !== ''")
    assert (await text(page, "published")).startswith("the hub has it")
    await wait_shown(page, "document.querySelectorAll('.row:not([hidden])').length === 1")
    assert await rows(page) == [["/demo/form", '{"n":[1,2]}']]


async def test_the_form_says_what_is_wrong_with_a_value(page: Page) -> None:
    """What begins as JSON and is none is not sent, and the reason is told."""
    await page.evaluate("""
        document.getElementById("value").value = '{"hello"';
        document.querySelector("#publish button").click();
    """)
    await wait_shown(page, "document.getElementById('published').textContent !== ''")
    assert (await text(page, "published")).startswith("begins as JSON and is none: ")
    assert await number(page, "received") == 0


async def test_the_form_takes_plain_text(page: Page) -> None:
    """What is no JSON and does not look like it is text, as on the command line."""
    await page.evaluate("""
        document.getElementById("value").value = "hello";
        document.querySelector("#publish button").click();
    """)
    await wait_shown(page, "document.getElementById('received').textContent === '1'")
    await wait_shown(page, "document.querySelector('.row:not([hidden]) .value')")
    assert await rows(page) == [["/demo/hello", '"hello"']]


async def test_an_idle_hub_keeps_its_hint_and_tells_how_many_are_there(browser: Browser, hub_page_url: str) -> None:
    """Without a prefix the hub's own messages are not shown; its clients are counted all the same."""
    async with browser.open(hub_page_url) as page:
        await wait_connected(page)
        await wait_shown(page, "document.getElementById('rate').textContent !== '\u2013'")
        assert await number(page, "clients") >= 1
        assert await number(page, "received") == 0
        assert not await page.evaluate("return document.getElementById('empty-connected').hidden")
        assert await page.evaluate("return document.getElementById('empty-disconnected').hidden")


async def test_a_flood_is_counted_in_full_and_shown_in_part(page: Page) -> None:
    """Each of 20,000 messages is received; a screenful is drawn, and what was never on the screen is told."""
    await page.evaluate("""
        const {connect} = await import("/hub.js");
        const publisher = connect();
        for (let number = 1; number <= 20000; number += 1) {
          const confirm = number % 500 === 0;
          const sent = publisher.publish(`/flood/${number % 50}`, {number, text: "x".repeat(60)}, {confirm});
          if (confirm) await sent;
        }
        await publisher.close();
    """)
    await wait_shown(page, "document.getElementById('received').textContent.replace(/\\D/g, '') === '20000'")
    shown = await rows(page)
    numbers = [json.loads(value)["number"] for _, value in shown]
    assert numbers == list(range(20_000, 20_000 - len(shown), -1))
    assert await page.evaluate("return document.querySelectorAll('.row').length") < 100
    skipped = await number(page, "skipped")
    assert 0 < skipped <= 20_000 - 1_000, "the ring holds the newest 1,000; of the older ones some were drawn"
    assert await number(page, "topic-count") == 50
    assert await number(page, "dropped") == 0


async def test_the_table_shows_the_busiest_topics(page: Page) -> None:
    """The first twenty by count, in order; the rest is told as a sum."""
    await publish(page, *[(f"/t/{topic:02}", None) for topic in range(25) for _ in range(25 - topic)])
    await wait_shown(page, "document.getElementById('received').textContent === '325'")
    await wait_shown(page, "!document.getElementById('other-topics').hidden")
    table = await page.evaluate("""
        const lines = [...document.querySelectorAll("#topics tr")];
        return lines.map(({cells}) => [cells[0].textContent, cells[1].textContent]);
    """)
    assert table == [[f"/t/{topic:02}", str(25 - topic)] for topic in range(20)]
    assert await text(page, "other-topics") == "and 15 messages of 5 other topics"


async def test_a_paused_stream_stands_still_and_counts(page: Page) -> None:
    """What comes while the stream is held is counted as skipped; resuming shows what comes then."""
    await publish(page, ("/a", 1))
    await wait_shown(page, "document.querySelectorAll('.row:not([hidden])').length === 1")
    await page.evaluate("document.getElementById('hold').click()")
    await publish(page, ("/a", 2), ("/a", 3))
    await wait_shown(page, "document.getElementById('received').textContent === '3'")
    assert await rows(page) == [["/a", "1"]]
    assert await text(page, "skipped") == "2 skipped"
    await page.evaluate("document.getElementById('hold').click()")
    await publish(page, ("/a", 4))
    await wait_shown(page, "document.querySelectorAll('.row:not([hidden])').length === 2")
    assert await rows(page) == [["/a", "4"], ["/a", "1"]]


async def test_scrolling_away_from_the_newest_holds_the_stream(page: Page) -> None:
    """Rows do not run away under the reader's eyes; any of the last thousand can be scrolled to."""
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


async def test_a_clicked_row_is_shown_in_full(page: Page) -> None:
    """The value stands there indented; a long one is shortened and says how long it is."""
    await publish(page, ("/a", {"long": "x" * 10_000}), ("/b", {"deep": {"er": [1]}}))
    await wait_shown(page, "document.querySelectorAll('.row:not([hidden])').length === 2")
    await page.evaluate("document.querySelectorAll('.row')[0].click()")
    assert json.loads(await text(page, "inspected-value")) == {"deep": {"er": [1]}}
    assert "\n" in await text(page, "inspected-value")
    await page.evaluate("document.querySelectorAll('.row')[1].click()")
    assert (await text(page, "inspected-value")).endswith("… (10011 characters)")


async def test_both_colour_schemes_are_drawn(page: Page, tmp_path: Path) -> None:
    """The page follows the reader's preference."""
    colours = []
    for scheme in ("light", "dark"):
        await page.prefer(scheme)
        colours.append(await page.evaluate("return getComputedStyle(document.body).backgroundColor"))
        await page.screenshot(tmp_path / f"{scheme}.png")
    assert colours == ["rgb(244, 246, 249)", "rgb(13, 18, 24)"]
    assert (tmp_path / "light.png").read_bytes() != (tmp_path / "dark.png").read_bytes()


async def test_a_lost_connection_is_shown_and_made_again(browser: Browser, hub: ScriptedHub) -> None:
    """The page says that it reconnects, comes back by itself, and goes on where the stream is."""
    async with browser.open(hub.page_url) as page:
        await wait_connected(page)
        await page.evaluate("""
            globalThis.states = [];
            const state = document.getElementById("state");
            new MutationObserver(() => states.push(state.dataset.state)).observe(state, {attributes: true});
        """)
        hub.drop_connections()
        await wait_shown(page, "states.includes('waiting') && states.at(-1) === 'open'")
        await hub.wait_received("subscribe", 2)
        await hub.send(type="messages", topic="/a", values=[1, 2])
        await wait_shown(page, "document.getElementById('received').textContent === '2'")


async def test_what_the_hub_dropped_is_shown(browser: Browser, hub: ScriptedHub) -> None:
    """Losses are seen: their number, in the colour of an alarm."""
    async with browser.open(hub.page_url) as page:
        await wait_connected(page)
        await hub.send(type="dropped", count=40)
        await hub.send(type="dropped", count=2)
        await wait_shown(page, "document.getElementById('dropped').textContent === '42'")
        assert await page.evaluate("return document.getElementById('dropped-figure').className") == "figure alarm"


async def test_a_refused_prefix_is_told(browser: Browser, hub: ScriptedHub) -> None:
    """The hub's code and words stand above the stream, until another prefix is taken."""
    hub.refusals["/secret/"] = (1008, "not for you")
    async with browser.open(f"{hub.page_url}#/secret/") as page:
        await wait_shown(page, "!document.getElementById('problem').hidden")
        assert await text(page, "problem") == "1008: not for you"
        await page.evaluate("location.hash = '#/public/'")
        await wait_shown(page, "document.getElementById('problem').hidden")
        await hub.wait_until(lambda hub: hub.of_type("subscribe")[-1]["prefixes"] == ["/public/"])


@pytest.fixture
def example_server(tmp_path: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    """A server for the example page: another origin than the hub's. It serves what is put into the test's folder."""
    (tmp_path / "favicon.ico").touch()
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing: the test's output is the test's."""


def put_example(folder: Path, hub: RealHub) -> None:
    """Put the example page into a folder, with the hub's address instead of the default one."""
    source = EXAMPLE.read_text()
    assert source.count("127.0.0.1:7401") == 2
    (folder / "index.html").write_text(source.replace("127.0.0.1:7401", f"127.0.0.1:{hub.port}"))


async def test_the_example_page_shows_a_live_stream(
    browser: Browser, example_server: http.server.ThreadingHTTPServer, tmp_path: Path, real_hub: RealHub
) -> None:
    """A page of another origin loads hub.js from the hub, shows what comes as text, and publishes."""
    put_example(tmp_path, real_hub)
    async with (
        browser.open(f"http://127.0.0.1:{example_server.server_port}") as page,
        browser.open(f"{real_hub.page_url}hub.d.ts") as other,
    ):
        await wait_shown(page, "document.getElementById('state').textContent.startsWith('connected')")
        await publish(other, *[("/zeek/<b>", {"n": number}) for number in range(50)])
        await wait_shown(page, "document.getElementById('messages').textContent.includes(':49}')")
        lines = await page.evaluate("return [...document.querySelectorAll('li')].map((it) => it.textContent)")
        records = [line for line in lines if not line.startswith("$hub/")]
        assert records == [f'/zeek/<b> {{"n":{number}}}' for number in range(49, 49 - len(records), -1)]
        assert 20 < len(lines) <= 30
        await page.evaluate("document.getElementById('hello').click()")
        await wait_shown(page, "document.getElementById('messages').textContent.includes('/demo/hello')")
        assert page.complaints == []


async def test_a_page_from_disk_connects_only_where_the_hub_lets_it(
    browser: Browser, tmp_path: Path, real_hub: RealHub
) -> None:
    """Any page may load hub.js, but not every one may connect: a file's origin, `null`, has to be listed."""
    put_example(tmp_path, real_hub)
    async with browser.open((tmp_path / "index.html").as_uri()) as page:
        await wait_shown(page, "document.getElementById('state').textContent === 'reconnecting'")
        assert all("403" in complaint for complaint in page.complaints)
    with run_hub("--websocket-origins", "null") as hub:
        put_example(tmp_path, hub)
        async with browser.open((tmp_path / "index.html").as_uri()) as page:
            await wait_shown(page, "document.getElementById('state').textContent.startsWith('connected')")
            assert page.complaints == []


# Who is at the page.


@pytest.fixture
def admin_file(tmp_path: Path) -> AdminToken:
    """The file of the admin's token of the hub below."""
    return AdminToken(str(tmp_path / "admin-token"))


@pytest.fixture
def guarded_hub(tmp_path: Path) -> Iterator[RealHub]:
    """A hub that knows nobody but its admin."""
    with run_hub("--access-admin-token", str(tmp_path / "admin-token")) as hub:
        yield hub


async def test_the_link_of_the_first_start(browser: Browser, guarded_hub: RealHub, admin_file: AdminToken) -> None:
    """It opens the page signed in, the token is nowhere to be seen then, and who signs out is asked for it again."""
    async with browser.open(f"{guarded_hub.page_url}#token={admin_file.secret()}") as page:
        await wait_connected(page)
        assert await page.evaluate("return location.href") == guarded_hub.page_url
        assert admin_file.secret() not in str(await page.evaluate("return document.documentElement.outerHTML"))
        assert (await text(page, "user"), await text(page, "sign")) == ("admin", "Sign out")
        assert await page.evaluate("return document.getElementById('sign-in').hidden") is True
        await page.load_by("location.reload()")
        await wait_connected(page)
        await page.load_by("document.getElementById('sign').click()")
        await wait_shown(page, "!document.getElementById('sign-in').hidden")
        assert await page.evaluate("return sessionStorage.length") == 0


async def test_signing_in_by_the_form(browser: Browser, guarded_hub: RealHub, admin_file: AdminToken) -> None:
    """Whoever has no link is asked for a token, is told that a wrong one is wrong, and gets in with the right one."""
    sign_in = """
        document.getElementById("token").value = token;
        document.querySelector("#sign-in button").click();
    """
    async with browser.open(guarded_hub.page_url) as page:
        await wait_shown(page, "!document.getElementById('sign-in').hidden")
        assert await page.evaluate("return document.getElementById('sign-in-problem').hidden") is True
        await page.load_by(sign_in, token="hub_" + "x" * 43)
        await wait_shown(page, "document.getElementById('sign-in-problem').textContent.startsWith('4401: ')")
        await page.load_by(sign_in, token=f" {admin_file.secret()} ")
        await wait_connected(page)
        assert await text(page, "user") == "admin"


async def test_strangers_are_told_of(browser: Browser, admin_file: AdminToken, tmp_path: Path) -> None:
    """A hub that lets strangers in says so on its page, to them and to the admin."""
    with run_hub("--access-admin-token", str(tmp_path / "admin-token"), "--anonymous", "reader") as hub:
        async with browser.open(f"{hub.page_url}#/a") as page:
            await wait_connected(page)
            told = "Whoever reaches this hub is let in, with the role reader"
            assert await text(page, "strangers") == f"{told}, and so are you."
            assert (await text(page, "user"), await text(page, "sign")) == ("anonymous", "Sign in")
            await page.evaluate("document.querySelector('#publish button').click()")
            await wait_shown(page, "document.getElementById('published').textContent.startsWith('1008: ')")
            await page.load_by("location.hash = token", token=f"#token={admin_file.secret()}")
            await wait_shown(page, "document.getElementById('user').textContent === 'admin'")
            assert await text(page, "strangers") == f"{told}."
            assert await page.evaluate("return location.hash") == ""


async def test_a_hub_without_users_asks_nobody(page: Page) -> None:
    """Its page shows neither a form nor a name."""
    for name in ("sign-in", "sign", "strangers"):
        assert await page.evaluate("return document.getElementById(name).hidden", name=name) is True
    assert await text(page, "user") == ""
