"""The view of access in a real Chromium, with a real hub that has users, roles, quotas and refusals."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hub.errors import HubError, NotAllowedError, RejectedError
from peers.client import Client, connect
from peers.users.tokens import TokenFile
from tests.console.browser import Browser, Page
from tests.console.real_hub import RealHub, run_hub
from tests.console.seeing import text, wait_shown
from tests.console.test_access import events, users

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
    async def page(
        self, browser: Browser, user: str, view: str = "#/access", *, width_px: int = 1280
    ) -> AsyncIterator[Page]:
        async with browser.open(f"{self.hub.page_url}#token={self.tokens[user]}", width_px=width_px) as page:
            await wait_shown(page, "document.getElementById('state')?.textContent === 'connected'")
            await page.evaluate("location.hash = view", view=view)
            yield page

    def client(self, user: str, name: str = "") -> Any:
        return connect(self.hub.url, name=name or user, token=self.tokens[user])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "policy.toml").write_text(POLICY)
    file = TokenFile(str(tmp_path / "tokens"))
    tokens = {user: file.add(user, datetime.now(UTC))[0] for user in ("ada", "bob", "vera", "nils")}
    flags = ("--access-policy", str(tmp_path / "policy.toml"), "--access-tokens", str(tmp_path / "tokens"))
    with run_hub(*flags) as hub:
        yield Site(hub, tokens)


async def wait_listening(page: Page) -> None:
    await wait_shown(page, "document.getElementById('audit')?.getAttribute('aria-busy') === 'false'")


async def refused(client: Client, *topics: str) -> None:
    for topic in topics:
        with pytest.raises(RejectedError):
            await client.publish_confirmed(topic, 1)


async def test_users_and_refusals(browser: Browser, site: Site) -> None:
    async with site.page(browser, "ada") as page, site.client("bob") as bob:
        await wait_listening(page)
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
