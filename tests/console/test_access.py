"""Users and refusals in a real Chromium, with a hub that tells, and one that has users, roles and quotas."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hub.errors import NotAllowedError
from peers.client import connect
from peers.users.tokens import TokenFile
from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import RIGHTS, ScriptedHub
from tests.console.seeing import cells, publish, text, wait_shown


def user(name: str, *roles: str) -> dict[str, Any]:
    counts = {"connections": 2, "queued_bytes": 2_048, "published_messages": 1_500, "dropped_messages": 0}
    return {"user": name, "roles": list(roles)} | counts


@pytest.fixture
def telling_hub(hub: ScriptedHub) -> ScriptedHub:
    hub.answers["$hub/users"] = [user("ada", "admin"), user("bob", "member", "sensor")]
    return hub


async def test_who_there_is(browser: Browser, telling_hub: ScriptedHub) -> None:
    async with browser.reuse_tab(f"{telling_hub.page_url}#/access") as page:
        await wait_shown(page, "document.querySelectorAll('#users tr').length === 2")
        assert await cells(page, "users", 0, 1, 2, 3, 4, 5) == [
            ["ada", "admin", "2", "2 KiB", "1.5k", "0"],
            ["bob", "member sensor", "2", "2 KiB", "1.5k", "0"],
        ]
        assert await page.evaluate("return document.querySelector('#users a').hash") == "#/connections?search=ada"
        await page.evaluate("location.hash = '#/access?search=SENSOR'")
        await wait_shown(page, "document.querySelectorAll('#users tr').length === 1")
        assert await cells(page, "users", 0) == [["bob"]]
        await page.evaluate("document.getElementById('users-search').value = 'bob admin'")
        await page.evaluate("document.getElementById('users-search').form.requestSubmit()")
        await wait_shown(page, "document.getElementById('users-told').textContent.startsWith('No user or role')")
        assert await page.evaluate("return location.hash") == "#/access?search=bob+admin"


async def test_refusals_as_they_come(browser: Browser, telling_hub: ScriptedHub) -> None:
    async with browser.reuse_tab(f"{telling_hub.page_url}#/access") as page:
        await wait_shown(page, "document.getElementById('audit')?.getAttribute('aria-busy') === 'false'")
        refused = {"what": "refused", "user": "bob", "action": "publish", "text": "not granted", "count": 12}
        kicked = {"what": "kick", "user": "ada", "of": {"id": None, "user": "bob"}, "text": "go"}
        reloaded = {"what": "reload", "name": "signal", "user": "", "changed": ["queue.messages"], "id": 3}
        await publish(page, ("$hub/audit", refused), ("$hub/audit", kicked), ("$hub/audit", reloaded))
        await wait_shown(page, "document.querySelectorAll('#audit tr').length === 3")
        assert await cells(page, "audit", 1, 2, 3) == [
            ["signal", "reloaded the hub", 'changed: ["queue.messages"]'],
            ["ada", "closed connections of bob", "go"],
            ["bob", "was denied: publish (12 times)", "not granted"],
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
        assert (await cells(page, "audit", 1, 2, 3))[0] == ["bob", "was denied: publish", "no 119"]
        await publish(page, ("$hub/audit", {"what": "refused", "user": "eve", "text": "now"}))
        await wait_shown(page, "document.querySelectorAll('#audit tr').length === 51")
        for count in (101, 121):
            await wait_shown(page, "document.getElementById('audit-earlier').checkVisibility()")
            await page.evaluate("document.getElementById('audit-earlier').click()")
            await wait_shown(page, f"document.querySelectorAll('#audit tr').length === {count}")
        assert [why for _, _, why in await cells(page, "audit", 1, 2, 3)] == [
            "now",
            *(str(event["text"]) for event in kept),
        ]
        await wait_shown(page, "!document.getElementById('audit-earlier').checkVisibility()")
        assert [question.get("before") for question in asked] == [None, kept[49]["at"], kept[99]["at"]]


async def test_hostile_names_and_very_many(browser: Browser, telling_hub: ScriptedHub) -> None:
    markup = "<img src=x onerror='globalThis.broken = true'>"
    many = [user(f"u{number}") for number in range(500)]
    telling_hub.answers["$hub/users"] = [user(markup, markup), user("\u202ertl" + "x" * 10_000), *many]
    async with browser.reuse_tab(f"{telling_hub.page_url}#/access") as page:
        await wait_shown(page, "document.querySelectorAll('#users tr').length === 300")
        assert (await cells(page, "users", 0, 1))[0] == [markup, markup]
        assert (await cells(page, "users", 0))[1][0].startswith("\\u202ertl")
        assert (await text(page, "users-told")).startswith("and 202 more")
        await wait_shown(page, "document.getElementById('audit').getAttribute('aria-busy') === 'false'")
        event = {"what": markup, "user": markup, "text": "\u202e"}
        long = event | {"text": "\u202e" + "x" * 1_000_000}
        await publish(page, *[("$hub/audit", event)] * 250, ("$hub/audit", 7), ("$hub/audit", long))
        await wait_shown(page, "document.querySelectorAll('#audit tr').length === 200")
        await wait_shown(page, "document.querySelector('#audit tr').cells[3].textContent.includes('x')")
        who, what, why = (await cells(page, "audit", 1, 2, 3))[0]
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

[users]
ada = ["admin"]
bob = ["sensor"]
nils = []

[limits.users.bob]
prefixes = 3
"""


async def ask(page: Page, **fields: str) -> str:
    await page.evaluate(
        """
        for (const [name, value] of Object.entries(fields)) document.getElementById(`trial-${name}`).value = value;
        document.getElementById("trial-answers").replaceChildren();
        document.getElementById("trial-user").form.requestSubmit();
        """,
        fields=fields,
    )
    await wait_shown(page, "document.querySelector('#trial-answers .allowed, #trial-answers .refused')")
    return await text(page, "trial-answers")


async def test_a_hub_with_users(browser: Browser, tmp_path: Path) -> None:
    """Which rule decides what they may do; refusals are told as they come."""
    (tmp_path / "policy.toml").write_text(POLICY)
    file = TokenFile(str(tmp_path / "tokens"))
    tokens = {user: file.add(user, datetime.now(UTC))[0] for user in ("ada", "bob")}
    flags = ("--access-policy", str(tmp_path / "policy.toml"), "--access-tokens", str(tmp_path / "tokens"))
    with run_hub(*flags) as hub:
        async with (
            browser.reuse_tab(f"{hub.page_url}#token={tokens['ada']}") as page,
            connect(hub.url, token=tokens["bob"]) as bob,
        ):
            await wait_shown(page, "document.getElementById('state')?.textContent === 'connected'")
            await page.evaluate("location.hash = '#/access'")
            await wait_shown(page, "document.querySelectorAll('#trial-users option').length === 3")
            assert await cells(page, "users", 0, 1) == [["ada", "admin"], ["bob", "sensor"], ["nils", ""]]
            told = await ask(page, user="bob", action="subscribe", topic="/zeek/dns/")
            assert told.startswith("Allowed. subscribe '/zeek/dns/': role sensor allows '/zeek' (roles of bob: sensor)")
            assert "At most 3 prefixes." in told
            assert (await ask(page, user="bob", action="publish", topic="/zeek/secret")).startswith("Allowed.")
            told = await ask(page, user="nils", action="publish", topic="/zeek")
            assert "Rejected. publish '/zeek': not granted to user 'nils'" in told
            told = await ask(page, user="", role="sensor", action="publish", topic="/status/{user}")
            assert told.startswith("Allowed.")
            assert "expected a user, or a role" in await ask(page, user="", role="", topic="/zeek")
            await wait_shown(page, "document.getElementById('audit').getAttribute('aria-busy') === 'false'")
            with pytest.raises(NotAllowedError):
                await bob.request("$hub/users", None)
            await wait_shown(page, "document.querySelector('#audit [data-what=refused]') !== null")
            expected = ["bob", "was denied: request", "request '$hub/users': not granted to user 'bob'"]
            assert expected in await cells(page, "audit", 1, 2, 3)
            assert page.complaints == []
