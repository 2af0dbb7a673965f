"""The pictures of docs/console.md, of examples/demo and of a hub with users: `python -m tests.console.screenshots`."""

from __future__ import annotations

import asyncio
import base64
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from peers.client import connect
from peers.embedding import Hub
from tests.cli.programs import hub
from tests.client.test_demo import running
from tests.console.browser import Browser, Chromium, Page, chromium_path

FOLDER = Path(__file__).parents[2] / "docs" / "console"
WIDTH_PX, PHONE_PX = 1180, 390
WARM_UP_S = 45  # until the slow readers of the demo have lost messages, and charts have a line
SHOWN_S = 5

WATCH = "[...document.querySelectorAll('button')].find((it) => it.textContent === 'Watch')?.click()"
VIEWS = {
    "overview": ("#/overview", 640, ""),
    "connections": ("#/connections", 640, ""),
    "topics": ("#/topics?topic=/plant/east/press-00/reading", 640, WATCH),
    "messages": ("#/messages?prefix=/plant/", 640, ""),
    "journal": ("#/journal", 900, ""),
    "mesh": ("#/mesh?topic=/plant/east/press-00/reading", 960, ""),
}
"""Of the demo: the address of each picture, its height, and JavaScript that completes the view."""

POLICY = """
[roles.sensor]
publish = ["/plant/{user}"]
subscribe = ["/control/{user}"]

[roles.panel]
subscribe = { allow = ["/plant"], deny = ["/plant/press-03"] }

[users]
press-01 = ["sensor"]
press-02 = ["sensor"]
wall = ["panel"]
"""


FILES = {"policy": "policy.toml", "tokens": "tokens", "admin_token": "admin-token"}


async def take(page: Page, name: str, height_px: int, width_px: int = WIDTH_PX) -> None:
    await page.resize(width_px, height_px)
    await asyncio.sleep(1)  # charts are drawn for the new size
    picture = await page.browser.command("Page.captureScreenshot", page.session, format="png")
    await asyncio.to_thread((FOLDER / f"{name}.png").write_bytes, base64.b64decode(picture["data"]))


async def of_demo(browser: Browser, folder: Path) -> None:
    with running(folder) as (process, (_, port, *_)):
        assert process.stdout is not None
        said = iter(process.stdout.readline, "")
        assert await asyncio.to_thread(lambda: any("Open http" in line for line in said))
        await asyncio.sleep(WARM_UP_S)
        async with browser.reuse_tab(f"http://127.0.0.1:{port}/", width_px=WIDTH_PX) as page:
            for name, (address, height_px, then) in VIEWS.items():
                await page.evaluate("location.hash = address", address=address)
                await asyncio.sleep(SHOWN_S)
                await page.evaluate(then)
                await asyncio.sleep(SHOWN_S)
                await take(page, name, height_px)
            await page.evaluate("location.hash = '#/overview'")
            await asyncio.sleep(SHOWN_S)
            await page.evaluate("document.querySelector('#sentence a').click()")
            await asyncio.sleep(SHOWN_S)
            await take(page, "connection", 640)
            await page.evaluate("location.hash = '#/overview'")
            await page.prefer("dark")
            await asyncio.sleep(SHOWN_S)
            await take(page, "phone", 640, PHONE_PX)
            await page.prefer("light")


@asynccontextmanager
async def with_users(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """A hub with a policy, sensors, and some rejected messages; yields the page's address and the admin's token."""
    (folder / "policy.toml").write_text(POLICY)
    access = {name: f"{folder}/{file}" for name, file in FILES.items()}
    config = folder / "hub.toml"
    config.write_text("[access]\n" + "".join(f'{name} = "{file}"\n' for name, file in access.items()))
    tokens = {}
    for user in ("press-01", "press-02", "wall"):
        made = await asyncio.to_thread(hub, "token", "new", user, "--config", str(config))
        assert made.returncode == 0, made.stderr
        tokens[user] = made.stdout.decode().strip()
    async with Hub(("tcp://127.0.0.1:0", "ws://127.0.0.1:0"), settings={"access": access}) as running_hub:
        tcp, websocket = running_hub.listening
        async with (
            connect(tcp, token=tokens["press-01"], name="press-01") as one,
            connect(tcp, token=tokens["press-02"], name="press-02") as other,
            connect(tcp, token=tokens["wall"], name="wall") as wall,
            wall.subscribe("/plant/press-01"),
        ):
            await one.publish("/plant/press-01/celsius", 71.5)
            for topic in ("/control/press-01", "/plant/press-01/celsius"):
                await other.publish(topic, 1)
            yield websocket.replace("ws:", "http:"), (folder / "admin-token").read_text().strip()


async def of_users(browser: Browser, folder: Path) -> None:
    async with (
        with_users(folder) as (address, token),
        browser.reuse_tab(f"{address}/#token={token}", width_px=WIDTH_PX) as page,
    ):
        await asyncio.sleep(SHOWN_S)
        await page.evaluate("location.hash = '#/access'")
        await asyncio.sleep(SHOWN_S)
        await take(page, "access", 800)


async def main() -> None:
    path = chromium_path()
    if path is None:
        sys.exit("chromium is missing: tests/console/install-chromium installs it")
    with tempfile.TemporaryDirectory() as folder:
        chromium = Chromium(path, Path(folder) / "chromium")
        try:
            async with Browser.connect(chromium.url) as browser:
                for take_pictures in (of_users, of_demo):
                    (place := Path(folder) / take_pictures.__name__).mkdir()
                    await take_pictures(browser, place)
        finally:
            chromium.stop()


if __name__ == "__main__":
    asyncio.run(main())
