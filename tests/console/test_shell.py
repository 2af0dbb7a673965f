"""What stands around the views of the page: signing in, connection, entries, colours, keys. In a real Chromium."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from peers.users.tokens import AdminToken
from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import RIGHTS, ScriptedHub
from tests.console.seeing import text, wait_connected, wait_messages, wait_shown, wait_view


async def entries(page: Page) -> list[str]:
    shown: list[str] = await page.evaluate(
        "return [...document.querySelectorAll('#entries a')].map((it) => it.textContent)"
    )
    return shown


@pytest.fixture
def admin_file(tmp_path: Path) -> AdminToken:
    return AdminToken(str(tmp_path / "admin-token"))


@pytest.fixture
def guarded_hub(tmp_path: Path) -> Iterator[RealHub]:
    with run_hub("--access-admin-token", str(tmp_path / "admin-token")) as hub:
        yield hub


async def test_the_link_of_the_first_start(browser: Browser, guarded_hub: RealHub, admin_file: AdminToken) -> None:
    async with browser.reuse_tab(f"{guarded_hub.page_url}#token={admin_file.secret()}") as page:
        await wait_shown(page, "document.getElementById('user').textContent === 'admin'")
        assert await page.evaluate("return location.href") == guarded_hub.page_url
        assert admin_file.secret() not in str(await page.evaluate("return document.documentElement.outerHTML"))
        assert await text(page, "sign") == "Sign out"
        assert await page.evaluate("return document.getElementById('sign-in').hidden") is True
        await page.load_by("location.reload()")
        await wait_shown(page, "document.getElementById('user').textContent === 'admin'")
        await page.load_by("document.getElementById('sign').click()")
        await wait_shown(page, "!document.getElementById('sign-in').hidden")
        assert await page.evaluate("return sessionStorage.length") == 0


async def test_signing_in_by_the_form(browser: Browser, guarded_hub: RealHub, admin_file: AdminToken) -> None:
    sign_in = """
        document.getElementById("token").value = token;
        document.querySelector("#sign-in button").click();
    """
    async with browser.reuse_tab(guarded_hub.page_url) as page:
        await wait_shown(page, "!document.getElementById('sign-in').hidden")
        assert await page.evaluate("return document.getElementById('sign-in-problem').hidden") is True
        await page.load_by(sign_in, token="hub_" + "x" * 43)
        await wait_shown(page, "document.getElementById('sign-in-problem').textContent === 'This token is not valid.'")
        assert await page.evaluate("return document.querySelector('.told').checkVisibility()") is False
        assert [one for one in page.complaints if "Error" in one] == []
        await page.load_by(sign_in, token=f" {admin_file.secret()} ")
        await wait_shown(page, "document.getElementById('user').textContent === 'admin'")


async def test_strangers_are_told_of(browser: Browser, admin_file: AdminToken, tmp_path: Path) -> None:
    with run_hub("--access-admin-token", str(tmp_path / "admin-token"), "--anonymous", "reader") as hub:
        async with browser.reuse_tab(f"{hub.page_url}#/messages?prefix=/a") as page:
            await wait_messages(page)
            told = "This hub accepts clients without a token, with the role reader"
            assert await text(page, "anonymous") == f"{told}; you are one of them."
            assert (await text(page, "user"), await text(page, "sign")) == ("anonymous", "Sign in")
            assert await page.evaluate("return document.getElementById('publish')") is None, "he could not publish"
            assert await entries(page) == ["Topics", "Messages"]
            await page.load_by("location.hash = token", token=f"#token={admin_file.secret()}")
            await wait_shown(page, "document.getElementById('user').textContent === 'admin'")
            await wait_view(page, "overview")
            assert await text(page, "anonymous") == f"{told}."
            assert await page.evaluate("return location.hash") == ""


@pytest.fixture
async def page(browser: Browser, real_hub: RealHub) -> AsyncIterator[Page]:
    async with browser.reuse_tab(real_hub.page_url) as page:
        await wait_connected(page)
        yield page
        assert page.complaints == []


async def test_a_lost_connection_is_shown_and_made_again(browser: Browser, hub: ScriptedHub) -> None:
    async with browser.reuse_tab(f"{hub.page_url}#/messages") as page:
        await wait_messages(page)
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


async def test_views_are_opened_by_entry_address_and_key(page: Page) -> None:
    await wait_view(page, "overview")
    for go, name in [
        ("document.querySelector('#entries [href=\"#/messages\"]').click()", "messages"),
        ("location.hash = '#/overview'", "overview"),
        ("dispatchEvent(new KeyboardEvent('keydown', {key: String(number)}))", "messages"),
        ("history.back()", "overview"),
    ]:
        number = (await entries(page)).index("Messages") + 1
        await page.evaluate(go, number=number)
        await wait_view(page, name)
        assert await page.evaluate("return document.querySelector('#entries [aria-current]').hash") in {f"#/{name}", ""}
        assert (await page.evaluate("return document.title")).endswith("topichub")


async def test_keys_belong_to_who_types(page: Page) -> None:
    await page.evaluate("location.hash = '#/messages'")
    await wait_messages(page)
    await page.evaluate("dispatchEvent(new KeyboardEvent('keydown', {key: '/'}))")
    assert await page.evaluate("return document.activeElement.id") == "prefix"
    await page.evaluate("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '1', bubbles: true}))")
    assert await page.evaluate("return [location.hash, document.getElementById('view').dataset.view]") == [
        "#/messages",
        "messages",
    ]
    await page.evaluate("document.activeElement.blur(); dispatchEvent(new KeyboardEvent('keydown', {key: '?'}))")
    assert "/ goes to the search" in await text(page, "keys")
    await page.evaluate("document.querySelector('#keys button').click()")
    await wait_shown(page, "document.getElementById('keys') === null")


@pytest.mark.parametrize(
    ("view", "service", "problem"),
    [
        ("access", "$hub/users", "access-problem"),
        ("journal", "$hub/journal", "journal-problem"),
        ("mesh", "$hub/mesh/graph", "mesh-problem"),
        ("settings", "$hub/settings", "settings-problem"),
        ("topics", "$hub/topics", "topics-problem"),
    ],
)
async def test_refusals_and_rights(browser: Browser, hub: ScriptedHub, view: str, service: str, problem: str) -> None:
    """A view says what is refused; it asks nothing where nothing may be asked."""
    hub.answers["$hub/rights"] = RIGHTS | {"asks": [*RIGHTS["asks"], service]}  # type: ignore[misc]
    hub.refusals[service] = (1013, "not now")
    async with browser.reuse_tab(f"{hub.page_url}#/{view}") as page:
        await wait_shown(page, f"document.getElementById({problem!r})?.textContent.includes('1013: not now')")
    hub.received.clear()
    hub.answers["$hub/rights"] = RIGHTS | {"admin": False, "asks": ["$hub/rights"]}
    async with browser.reuse_tab(f"{hub.page_url}#/{view}") as page:
        told = f"You may not see this view at this hub: {view.title()}."
        await wait_shown(page, f"document.querySelector('.told')?.textContent === {told!r}")
        assert {one["topic"] for one in hub.of_type("request")} == {"$hub/rights"}


async def test_somebody_who_may_see_nothing(browser: Browser, hub: ScriptedHub) -> None:
    hub.answers["$hub/rights"] = RIGHTS | {"user": "mal", "admin": False, "may": [], "asks": [], "hears": []}
    async with browser.reuse_tab(hub.page_url) as page:
        told = "mal may not see anything at this hub."
        await wait_shown(page, f"document.querySelector('.told')?.textContent === {told!r}")
        assert await entries(page) == []


async def test_the_reader_chooses_the_colours(browser: Browser, hub: ScriptedHub) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(244, 246, 249)", "rgb(13, 18, 24)"
    async with browser.reuse_tab(hub.page_url) as page:
        await wait_connected(page)
        await page.prefer("dark")
        assert await page.evaluate(background) == dark
        await page.evaluate("document.getElementById('theme').click()")
        assert await page.evaluate(background) == light
        await page.load_by("location.reload()")
        await wait_connected(page)
        assert await page.evaluate(background) == light
        await page.evaluate("document.getElementById('theme').click()")
        await page.prefer("light")
        assert await page.evaluate(background) == dark
        assert "Dark" in await page.evaluate("return document.getElementById('theme').getAttribute('aria-label')")


async def test_a_screen_on_a_wall_shows_and_lets_nobody_act(browser: Browser, hub: ScriptedHub) -> None:
    async with browser.reuse_tab(f"{hub.page_url}?wall#/messages") as page:
        await wait_messages(page)
        await hub.send(type="messages", topic="/a", values=[1])
        await wait_shown(page, "document.getElementById('received').textContent === '1'")
        for name in ("publish", "sign"):
            assert await page.evaluate("return document.getElementById(name)", name=name) is None
        assert await page.evaluate("return getComputedStyle(document.getElementById('nav')).display") == "none"


@pytest.mark.parametrize("width", [390, 3840])
async def test_every_width_has_room(browser: Browser, hub: ScriptedHub, width: int) -> None:
    async with browser.reuse_tab(hub.page_url) as page:
        await page.resize(width, 844)
        await wait_connected(page)
        await wait_shown(page, "document.querySelectorAll('#entries a').length > 0")
        for address in await page.evaluate("return [...document.querySelectorAll('#entries a')].map((it) => it.hash)"):
            await page.evaluate("location.hash = address", address=address)
            await wait_view(page, address.removeprefix("#/"))
            widths = await page.evaluate("""
                const {scrollWidth, clientWidth} = document.documentElement;
                const main = document.getElementById("view");
                return [scrollWidth, clientWidth, main.scrollWidth, main.clientWidth];
            """)
            assert widths[0] == widths[1] == width, address
            assert widths[2] == widths[3], address


async def test_a_hub_of_another_version_behind_the_page(browser: Browser, hub: ScriptedHub) -> None:
    hub.refusals["$hub/rights"] = (1008, "there is no such service")
    async with browser.reuse_tab(hub.page_url) as page:
        await wait_view(page, "messages")
        assert await entries(page) == ["Messages"]


async def test_what_is_stale_looks_stale(browser: Browser, hub: ScriptedHub) -> None:
    pale = "Number(getComputedStyle(document.querySelector('main > *')).opacity) < 1"
    async with browser.reuse_tab(f"{hub.page_url}#/connections") as page:
        await wait_view(page, "connections")
        assert await page.evaluate(f"return {pale}") is False
        hub.refused_connections = 10**6
        hub.drop_connections()
        await wait_shown(
            page, f"{pale} && /as of \\d\\d:\\d\\d:\\d\\d/.test(document.getElementById('stale').textContent)"
        )
        await page.evaluate("location.hash = '#/messages'")
        await wait_view(page, "messages")
        hub.refused_connections = 0
        await page.evaluate("dispatchEvent(new Event('online'))")
        await wait_connected(page)
        await wait_messages(page)
        await wait_shown(page, f"!({pale})")
