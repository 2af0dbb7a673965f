"""Users and refusals in a real Chromium, with a hub that tells, and one that has users, roles and quotas."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from hub.errors import HubError, NotAllowedError, RejectedError
from peers.client import connect
from peers.users.tokens import TokenFile
from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import RIGHTS, ScriptedHub
from tests.console.seeing import publish, text, wait_shown


def user(name: str, *roles: str) -> dict[str, Any]:
    counts = {"connections": 2, "queued_bytes": 2_048, "published_messages": 1_500, "dropped_messages": 0}
    return {"user": name, "roles": list(roles)} | counts


@pytest.fixture
def telling_hub(hub: ScriptedHub) -> ScriptedHub:
    hub.answers["$hub/users"] = [user("ada", "admin"), user("bob", "member", "sensor")]
    return hub


async def users(page: Page, *columns: int) -> list[list[str]]:
    found: list[list[str]] = await page.evaluate(
        """
        const lines = [...document.querySelectorAll("#users tr")];
        return lines.map((line) => columns.map((column) => line.cells[column].textContent));
        """,
        columns=list(columns),
    )
    return found


async def events(page: Page) -> list[list[str]]:
    found: list[list[str]] = await page.evaluate("""
        const lines = [...document.querySelectorAll("#audit tr")];
        return lines.map(({cells}) => [cells[1], cells[2], cells[3]].map((it) => it.textContent));
    """)
    return found


async def test_who_there_is(browser: Browser, telling_hub: ScriptedHub) -> None:
    async with browser.reuse_tab(f"{telling_hub.page_url}#/access") as page:
        await wait_shown(page, "document.querySelectorAll('#users tr').length === 2")
        assert await users(page, 0, 1, 2, 3, 4, 5) == [
            ["ada", "admin", "2", "2 KiB", "1.5k", "0"],
            ["bob", "member sensor", "2", "2 KiB", "1.5k", "0"],
        ]
        assert await page.evaluate("return document.querySelector('#users a').hash") == "#/connections?search=ada"
        await page.evaluate("location.hash = '#/access?search=SENSOR'")
        await wait_shown(page, "document.querySelectorAll('#users tr').length === 1")
        assert await users(page, 0) == [["bob"]]
        await page.evaluate("""
            document.getElementById("users-search").value = "bob admin";
            document.getElementById("users-search").form.requestSubmit();
        """)
        await wait_shown(page, "document.getElementById('users-told').textContent.startsWith('No user has')")
        assert await page.evaluate("return location.hash") == "#/access?search=bob+admin"


async def test_refusals_as_they_come(browser: Browser, telling_hub: ScriptedHub) -> None:
    async with browser.reuse_tab(f"{telling_hub.page_url}#/access") as page:
        await wait_shown(page, "document.getElementById('audit')?.getAttribute('aria-busy') === 'false'")
        refused = {"what": "refused", "user": "bob", "action": "publish", "text": "not granted", "count": 12}
        kicked = {"what": "kick", "user": "ada", "of": {"id": None, "user": "bob"}, "text": "go"}
        reloaded = {"what": "reload", "name": "signal", "user": "", "changed": ["queue.messages"], "id": 3}
        await publish(page, ("$hub/audit", refused), ("$hub/audit", kicked), ("$hub/audit", reloaded))
        await wait_shown(page, "document.querySelectorAll('#audit tr').length === 3")
        assert await events(page) == [
            ["signal", "reloaded the hub", 'changed: ["queue.messages"]'],
            ["ada", "closed connections of bob", "go"],
            ["bob", "was refused publish (12 times)", "not granted"],
        ]


async def test_what_was_before(browser: Browser, telling_hub: ScriptedHub) -> None:
    kept = [
        {"what": "refused", "at": 1_700_000_000.0 + number, "user": "bob", "action": "publish", "text": f"no {number}"}
        for number in reversed(range(120))
    ]
    asked: list[Any] = []

    def audited(question: dict[str, Any]) -> list[dict[str, Any]]:
        asked.append(question)
        return [event for event in kept if event["at"] < question.get("before", 1e12)][: question["limit"]]

    telling_hub.answers["$hub/audit"] = audited
    telling_hub.answers["$hub/rights"] = RIGHTS | {"asks": [*RIGHTS["asks"], "$hub/audit"]}  # type: ignore[misc]
    async with browser.reuse_tab(f"{telling_hub.page_url}#/access") as page:
        await wait_shown(page, "document.querySelectorAll('#audit tr').length === 50")
        assert (await events(page))[0] == ["bob", "was refused publish", "no 119"]
        await publish(page, ("$hub/audit", {"what": "refused", "user": "eve", "text": "now"}))
        await wait_shown(page, "document.querySelectorAll('#audit tr').length === 51")
        for count in (101, 121):
            await wait_shown(page, "document.getElementById('audit-earlier').checkVisibility()")
            await page.evaluate("document.getElementById('audit-earlier').click()")
            await wait_shown(page, f"document.querySelectorAll('#audit tr').length === {count}")
        assert [why for _, _, why in await events(page)] == ["now", *(str(event["text"]) for event in kept)]
        await wait_shown(page, "!document.getElementById('audit-earlier').checkVisibility()")
        assert [question.get("before") for question in asked] == [None, kept[49]["at"], kept[99]["at"]]


async def test_hostile_names_and_very_many(browser: Browser, telling_hub: ScriptedHub) -> None:
    markup = "<img src=x onerror='globalThis.broken = true'>"
    many = [user(f"u{number}") for number in range(500)]
    telling_hub.answers["$hub/users"] = [user(markup, markup), user("\u202ertl" + "x" * 10_000), *many]
    async with browser.reuse_tab(f"{telling_hub.page_url}#/access") as page:
        await wait_shown(page, "document.querySelectorAll('#users tr').length === 300")
        assert (await users(page, 0, 1))[0] == [markup, markup]
        assert (await users(page, 0))[1][0].startswith("\\u202ertl")
        assert (await text(page, "users-told")).startswith("and 202 others")
        await wait_shown(page, "document.getElementById('audit').getAttribute('aria-busy') === 'false'")
        event = {"what": markup, "user": markup, "text": "\u202e"}
        long = event | {"text": "\u202e" + "x" * 1_000_000}
        await publish(page, *[("$hub/audit", event)] * 250, ("$hub/audit", 7), ("$hub/audit", long))
        await wait_shown(page, "document.querySelectorAll('#audit tr').length === 200")
        await wait_shown(page, "document.querySelector('#audit tr').cells[3].textContent.includes('x')")
        who, what, why = (await events(page))[0]
        assert (who, what, why.startswith("\\u202ex"), len(why) < 600) == (markup, markup, True, True)
        assert await page.evaluate("return [document.images.length, globalThis.broken ?? null]") == [0, None]
        assert await page.evaluate("return document.documentElement.scrollWidth === innerWidth")


async def test_a_hub_without_users(browser: Browser, real_hub: RealHub) -> None:
    async with browser.reuse_tab(f"{real_hub.page_url}#/access") as page:
        await wait_shown(page, "document.getElementById('users-told')?.textContent.startsWith('This hub has no users')")
        await wait_shown(page, "document.getElementById('audit').getAttribute('aria-busy') === 'false'")
        assert page.complaints == []


async def test_who_may_not_hear_of_refusals(browser: Browser, telling_hub: ScriptedHub) -> None:
    telling_hub.answers["$hub/rights"] = RIGHTS | {"hears": []}
    async with browser.reuse_tab(f"{telling_hub.page_url}#/access") as page:
        await wait_shown(page, "document.querySelectorAll('#users tr').length === 2")
        assert await page.evaluate("return document.getElementById('audit').checkVisibility()") is False
        assert telling_hub.of_type("subscribe") == []


POLICY = """
[roles.sensor]
publish = ["/zeek", "/status/{user}"]
subscribe = { allow = ["/zeek"], deny = ["/zeek/secret"] }

[roles.watcher]
subscribe = ["$hub/audit", "/zeek"]
request = ["$hub/users", "$hub/policy/test", "$hub/state"]

[users]
ada = ["admin"]
bob = ["sensor"]
vera = ["watcher"]
nils = []

[limits.users.bob]
prefixes = 3
connections = 2
"""


class Site:
    def __init__(self, hub: RealHub, tokens: dict[str, str]) -> None:
        self.hub = hub
        self.tokens = tokens

    @contextlib.asynccontextmanager
    async def page(self, browser: Browser, user: str) -> AsyncIterator[Page]:
        async with browser.reuse_tab(f"{self.hub.page_url}#token={self.tokens[user]}") as page:
            await wait_shown(page, "document.getElementById('state')?.textContent === 'connected'")
            await page.evaluate("location.hash = '#/access'")
            yield page

    def client(self, user: str, name: str = "") -> Any:
        return connect(self.hub.url, name=name or user, token=self.tokens[user])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    tmp_path = tmp_path_factory.mktemp("site")
    (tmp_path / "policy.toml").write_text(POLICY)
    file = TokenFile(str(tmp_path / "tokens"))
    tokens = {user: file.add(user, datetime.now(UTC))[0] for user in ("ada", "bob", "vera", "nils")}
    flags = ("--access-policy", str(tmp_path / "policy.toml"), "--access-tokens", str(tmp_path / "tokens"))
    with run_hub(*flags) as hub:
        yield Site(hub, tokens)


async def test_users_and_refusals(browser: Browser, site: Site) -> None:
    async with site.page(browser, "ada") as page, site.client("bob") as bob:
        await wait_shown(page, "document.getElementById('audit')?.getAttribute('aria-busy') === 'false'")
        async with bob.subscribe("/zeek/a/", "/zeek/b/"):
            with pytest.raises(RejectedError, match="the limit for this user is 3"):
                await bob.subscribe("/zeek/c/", "/zeek/d/").open()
            with pytest.raises(RejectedError):
                await bob.subscribe("/zeek/secret/").open()
            with pytest.raises(NotAllowedError):
                await bob.request("$hub/users", None)
            assert [row[:2] for row in await users(page, 0, 1)] == [
                ["ada", "admin"],
                ["bob", "sensor"],
                ["nils", ""],
                ["vera", "watcher"],
            ]
            await wait_shown(page, "document.querySelectorAll('#audit [data-what=refused]').length >= 2")
            told = [row for row in await events(page) if row[0] == "bob" and row[1].startswith("was refused")]
            assert ["bob", "was refused request", "request '$hub/users': not granted to user 'bob'"] in told
            assert any(row[1] == "was refused subscribe" and "/zeek/secret" in row[2] for row in told)
        assert page.complaints == []


async def test_closing_somebody(browser: Browser, site: Site) -> None:
    async with site.page(browser, "ada") as page:
        bob = await site.client("bob")
        of_bob = "[...document.querySelectorAll('#users a')].find((it) => it.textContent === 'bob')"
        await wait_shown(page, f"{of_bob}?.closest('tr').cells[2].textContent === '1'")
        await page.evaluate(f"{of_bob}.click()")
        await wait_shown(page, "location.hash === '#/connections?search=bob'")
        async with site.client("ada", name="asks") as ada:
            (row,) = await ada.request("$hub/who", {"user": "bob"})
        await page.evaluate("location.hash = `#/connections/${id}`", id=row["id"])
        await wait_shown(page, "document.getElementById('connection-title')?.textContent === 'bob'")
        await page.evaluate("document.getElementById('kick').click()")
        await wait_shown(page, "document.querySelector('dialog[open]') !== null")
        await page.evaluate("""
            document.getElementById("confirm-text").value = "go <b>away</b>";
            document.querySelector("dialog .danger").click();
        """)
        await wait_shown(page, "document.getElementById('kicked').textContent === 'disconnected'")
        with pytest.raises(HubError, match="go <b>away</b>"):
            await bob.request("$hub/rights", None)
        await bob.close()
        await page.evaluate("location.hash = '#/access'")
        await wait_shown(page, f"{of_bob}?.closest('tr').cells[2].textContent === '0'")


async def ask(page: Page, **fields: str) -> None:
    await page.evaluate(
        """
        for (const [name, value] of Object.entries(fields)) document.getElementById(`trial-${name}`).value = value;
        document.getElementById("trial-answers").replaceChildren();
        document.getElementById("trial-user").form.requestSubmit();
        """,
        fields=fields,
    )
    await wait_shown(page, "document.querySelector('#trial-answers .allowed, #trial-answers .refused')")


async def test_which_rule_decides(browser: Browser, site: Site) -> None:
    async with site.page(browser, "ada") as page:
        await wait_shown(page, "document.querySelectorAll('#trial-users option').length === 4")
        await ask(page, user="bob", action="subscribe", topic="/zeek/dns/")
        told = await text(page, "trial-answers")
        assert told.startswith("Allowed. subscribe '/zeek/dns/': role sensor allows '/zeek' (roles of bob: sensor)")
        assert "At most 3 prefixes." in told
        await ask(page, user="bob", action="publish", topic="/zeek/secret")
        assert (await text(page, "trial-answers")).startswith("Allowed.")
        await ask(page, user="nils", action="publish", topic="/zeek")
        assert "Refused. publish '/zeek': not granted to user 'nils'" in await text(page, "trial-answers")
        await ask(page, user="", role="sensor", action="publish", topic="/status/{user}")
        assert (await text(page, "trial-answers")).startswith("Allowed.")
        await ask(page, user="", role="", topic="/zeek")
        assert "expected a user, or a role" in await text(page, "trial-answers")


async def test_who_may_only_look(browser: Browser, site: Site) -> None:
    async with site.page(browser, "vera") as page:
        await wait_shown(page, "document.querySelector('.told')?.textContent.startsWith('Access is nothing')")
        assert await page.evaluate("return document.getElementById('trial-user')") is None
        async with site.client("vera") as vera:
            for topic, value in (
                ("$hub/policy/test", {"action": "publish", "topic": "/a", "user": "bob"}),
                ("$hub/users", None),
                ("$hub/kick", {"user": "bob"}),
            ):
                with pytest.raises(NotAllowedError):
                    await vera.request(topic, value)
    async with site.page(browser, "nils") as page:
        await wait_shown(page, "document.querySelector('.told')?.textContent.startsWith('Access is nothing')")
        entries = await page.evaluate("return [...document.querySelectorAll('nav a')].map((it) => it.textContent)")
        assert "Access" not in json.dumps(entries)
