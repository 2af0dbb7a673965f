"""Make the pictures of docs/console.md anew: `python -m tests.console.screenshots [folder]`.

A hub of its own, sensors that publish, readers, one of them too slow, and Chromium. What is waited for are conditions;
how long it lasts depends on the machine, as the charts begin with the hub: about a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect as connect_websocket

from hub.errors import RejectedError
from peers.client import Client, MessageStream, connect
from peers.users.tokens import TokenFile
from tests.console.browser import Browser, Chromium, Page, chromium_path
from tests.console.real_hub import RealHub, run_hub
from tests.console.seeing import wait_connected, wait_messages, wait_shown, wait_view

__all__ = ["main"]

FOLDER = Path(__file__).parents[2] / "docs" / "console"

SENSORS = 24

READERS = 12

TICK_S = 0.05

RECEIVE_BYTES = 8192
"""What the kernel keeps for the slow reader: the smaller, the sooner the hub has to keep it."""

SIGN_OF_LIFE_S = 5

SLOW_QUEUE = {"messages": 2000, "bytes": 4_000_000, "overflow": "drop-oldest"}

LONG_S, SHORT_S = 30, 12
"""How much the charts show at least, of the hub, and of what begins when one looks at it."""

WIDTH_PX, HEIGHT_PX, PHONE_PX = 1180, 640, 390

ACCESS_HEIGHT_PX = 1000
"""That view has three parts beneath one another."""
MESH_PX, JOURNAL_PX = 1140, 900
"""These views are shown whole."""


@contextlib.asynccontextmanager
async def slow_reader(hub: RealHub, name: str) -> AsyncIterator[None]:
    """Subscribe to everything, and read nothing; who is silent as well is taken for dead, so it says something."""

    async def say_something() -> None:
        while True:
            await reader.send(json.dumps({"type": "publish", "topic": "/archive/alive", "values": [True]}))
            await asyncio.sleep(SIGN_OF_LIFE_S)

    plain = socket.create_connection(("127.0.0.1", hub.port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    async with connect_websocket(
        hub.url,
        sock=plain,
        subprotocols=["hub.v1.json"],  # type: ignore[list-item]
        max_queue=1,
        ping_interval=None,
        close_timeout=0,
        compression=None,
    ) as reader:
        await reader.send(json.dumps({"type": "hello", "name": name, "queue": SLOW_QUEUE}))
        await reader.send(json.dumps({"type": "subscribe", "prefixes": ["/site/"]}))
        saying = asyncio.create_task(say_something())
        yield
        saying.cancel()
        plain.close()


async def publish(sensors: list[Client]) -> None:
    """Publish readings for as long as this is not cancelled, sometimes more and sometimes less."""
    for tick in itertools.count():
        rate = 6 + 5 * math.sin(tick / 40)
        for number, sensor in enumerate(sensors):
            for reading in range(int(rate)):
                value: dict[str, Any] = {"celsius": round(20 + math.sin(tick / 90 + number), 2), "reading": reading}
                sensor.publish_nowait(f"/site/hall-{number % 4}/sensor-{number:02}", value | {"note": "x" * 200})
        await asyncio.sleep(TICK_S)


async def read(messages: MessageStream) -> None:
    async for _ in messages:
        pass


async def work(client: Client, name: str, prefix: str, pause_s: float) -> None:
    async with client.consume(name, prefix, prefetch=500) as messages:
        while batch := await messages.batch():
            await messages.ack(*batch)
            await asyncio.sleep(pause_s)


@contextlib.asynccontextmanager
async def crowd(hub: RealHub) -> AsyncIterator[None]:
    tasks: list[asyncio.Task[None]] = []
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        sensors = [await enter(connect(hub.url, name=f"sensor-{number:02}")) for number in range(SENSORS)]
        for number in range(READERS):
            reader = await enter(connect(hub.url, name=f"panel-{number}"))
            messages = await enter(reader.subscribe(f"/site/hall-{number % 4}/"))
            tasks.append(asyncio.create_task(read(messages)))
        for name, prefix, pause_s in (("billing", "/site/hall-1/", 0.0), ("quality", "/site/", 0.5)):
            client = await enter(connect(hub.url, name=name))
            tasks.append(asyncio.create_task(work(client, name, prefix, pause_s)))
        await enter(slow_reader(hub, "archive"))
        tasks.append(asyncio.create_task(publish(sensors)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def take_overview(page: Page, folder: Path) -> None:
    known = "document.querySelector('.overview')?.dataset.points"
    await wait_shown(page, f"{known} === '60' && document.querySelectorAll('#losers li').length === 1")
    await wait_history(page, LONG_S)
    await page.screenshot(folder / "overview.png")


async def wait_history(page: Page, seconds: int) -> None:
    """Wait until the hub knows what it did in so many further seconds, so that charts show something."""
    await page.evaluate(
        """
        const {connect} = await import("/hub.js");
        const client = connect("/", {name: "screenshots"});
        const newest = async () => {
          const {first, figures} = await client.request("$hub/history", null);
          return first + figures.in_messages.length;
        };
        const enough = await newest() + seconds;
        while (await newest() < enough) await new Promise((resolve) => setTimeout(resolve, 500));
        await client.close();
        """,
        seconds=seconds,
    )


async def take_connections(page: Page, folder: Path) -> None:
    await page.evaluate("location.hash = '#/connections'")
    await wait_shown(page, "Number(document.querySelector('.connections-view')?.dataset.looks) >= 3")
    await wait_shown(page, "document.querySelector('.table .slow')?.textContent === 'archive'")
    await page.screenshot(folder / "connections.png")
    await page.evaluate("document.querySelector('.table .slow').click()")
    await wait_shown(page, "document.querySelectorAll('#losses tr').length > 5")
    await wait_shown(page, "Number(document.querySelector('.connection').dataset.points) > 0")
    await page.screenshot(folder / "connection.png")


async def take_topics(page: Page, folder: Path) -> None:
    await page.evaluate("location.hash = '#/topics?topic=/site/hall-1/sensor-01'")
    await wait_shown(page, "document.querySelector('#topic-tree [aria-selected=true]')")
    await page.evaluate("document.getElementById('topic-watch').click()")
    await wait_shown(page, "document.querySelectorAll('#topic-fields tr').length === 3")
    await page.evaluate("document.querySelector('#topic-fields input[data-path=celsius]').click()")
    await wait_shown(page, "Number(document.getElementById('topic-told').textContent.replace(/\\D/g, '')) > 1500")
    await page.screenshot(folder / "topics.png")


async def take_messages(page: Page, folder: Path) -> None:
    await page.evaluate("location.hash = '#/messages?prefix=/site/'")
    await wait_messages(page)
    await wait_shown(page, "document.querySelectorAll('.row:not([hidden])').length > 10")
    await wait_shown(page, "document.querySelectorAll('#topics tr').length === 20")
    await page.evaluate("document.getElementById('hold').click(); document.querySelectorAll('.row')[3].click()")
    await wait_shown(page, "document.querySelector('#inspected-tree .leaf')")
    await page.screenshot(folder / "messages.png")


async def take_phone(page: Page, folder: Path) -> None:
    await page.resize(PHONE_PX, HEIGHT_PX)
    await page.evaluate("location.hash = '#/overview'")
    await wait_shown(page, "document.querySelector('.overview')?.dataset.points === '60'")
    await page.prefer("dark")
    await page.screenshot(folder / "phone.png")


async def take_journal(page: Page, folder: Path) -> None:
    await page.evaluate("location.hash = '#/journal'")
    await wait_view(page, "journal")
    await page.resize(WIDTH_PX, JOURNAL_PX)
    await wait_history(page, SHORT_S)
    await page.screenshot(folder / "journal.png")
    await page.resize(WIDTH_PX, HEIGHT_PX)


async def take_mesh(browser: Browser, folder: Path, sockets: Path) -> None:
    """Three hubs in a row, with what flows over their links, a service, a name and a store."""
    between = [f"unix://{sockets}/{name}.sock" for name in ("east", "north")]
    kept = ("--store", "last=:memory:", "--store-from", "last=/site/hall-1/")
    with (
        run_hub("--name", "east", "--listen", between[0], *kept) as east,
        run_hub("--name", "north", "--listen", between[1], "--peer", between[0]) as north,
        run_hub("--name", "west", "--peer", between[1]) as west,
    ):
        async with contextlib.AsyncExitStack() as stack:
            enter = stack.enter_async_context
            sensors = [await enter(connect(east.url, name=f"sensor-{number:02}")) for number in range(SENSORS)]
            readers = [await enter(connect(hub.url, name="panel")) for hub in (north, west)]
            tasks = [asyncio.create_task(publish(sensors))]
            for reader, prefix in zip(readers, ("/site/hall-1/", "/site/"), strict=True):
                messages = await enter(reader.subscribe(prefix))
                tasks.append(asyncio.create_task(read(messages)))
            await enter(sensors[0].serve("/convert/", lambda request: request.value))
            await enter(readers[1].serve("/draw/", lambda request: request.value))
            await readers[1].claim("org.example.site.Panel", ["west"])
            async with browser.open(f"{east.page_url}#/mesh") as page:
                await page.resize(WIDTH_PX, MESH_PX)
                for shown in (
                    "document.querySelectorAll('.mesh-picture g').length === 3",
                    "document.querySelectorAll('#mesh-names tr, #mesh-services tr').length === 4",
                    "document.querySelector('.mesh-picture .rate')?.textContent.includes('k/s out')",
                ):
                    await wait_shown(page, shown)
                await page.evaluate("location.hash = '#/mesh?topic=/site/hall-1/sensor-01'")
                await wait_shown(page, "document.querySelectorAll('#way tr[data-outcome=taken]').length === 3")
                await page.screenshot(folder / "mesh.png")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


POLICY = """
[roles.sensor]
publish = ["/plant/{user}", "/plant/common"]
subscribe = { allow = ["/control/{user}"], deny = ["/control/{user}/secret"] }

[roles.panel]
subscribe = { allow = ["/plant"], deny = ["/plant/press-03"] }

[users]
ada = ["admin"]
press-01 = ["sensor"]
press-02 = ["sensor"]
press-03 = ["sensor"]
wall = ["panel", "reader"]

[limits.roles.sensor]
connections = 2
prefixes = 10
"""

REFUSED = ("/plant/press-01/temperature", "/plant/press-03/pressure", "/control/press-02")


async def take_access(browser: Browser, folder: Path) -> None:
    """Users, a question about one of them, what another policy would change, and refusals."""
    with tempfile.TemporaryDirectory() as files:
        tokens = TokenFile(f"{files}/tokens")
        (Path(files) / "policy.toml").write_text(POLICY)
        users = ("ada", "press-01", "press-02", "press-03", "wall")
        token = {user: tokens.add(user, datetime.now(UTC))[0] for user in users}
        flags = ("--access-policy", "policy.toml", "--access-tokens", "tokens")
        async with contextlib.AsyncExitStack() as stack:
            hub = stack.enter_context(run_hub(*flags, folder=Path(files)))
            for user in users[1:]:
                client = await stack.enter_async_context(connect(hub.url, name=user, token=token[user]))
                if user == "wall":
                    await stack.enter_async_context(client.subscribe("/plant/press-01/", "/plant/press-02/"))
                    continue
                await stack.enter_async_context(client.subscribe(f"/control/{user}/orders/"))
                for topic in REFUSED:
                    with contextlib.suppress(RejectedError):
                        await client.publish_confirmed(topic, 1)
            page = await stack.enter_async_context(browser.open(f"{hub.page_url}#token={token['ada']}"))
            await page.resize(WIDTH_PX, ACCESS_HEIGHT_PX)
            await wait_connected(page)
            await page.evaluate("location.hash = '#/access'")
            await wait_shown(page, "document.querySelectorAll('#users tr').length === 5")
            await wait_shown(page, "document.querySelectorAll('#audit tr').length >= 6")
            await try_policy(page)
            await page.screenshot(folder / "access.png")


async def try_policy(page: Page) -> None:
    await page.evaluate(
        """
        const fill = (fields) => {
          for (const [name, value] of Object.entries(fields)) document.getElementById(`trial-${name}`).value = value;
        };
        fill({user: "wall", action: "subscribe", topic: "/plant/press-03/"});
        document.getElementById("trial-user").form.requestSubmit();
        """
    )
    await wait_shown(page, "document.querySelector('#trial-answers .refused')")


async def take_all(chromium: Chromium, folder: Path, journal: Path) -> None:
    with run_hub("--journal", str(journal)) as hub:
        async with crowd(hub), Browser.connect(chromium.url) as browser, browser.open(hub.page_url) as page:
            await page.resize(WIDTH_PX, HEIGHT_PX)
            for take in (take_overview, take_connections, take_topics, take_messages, take_journal, take_phone):
                await take(page, folder)
            await take_access(browser, folder)
            for complaint in page.complaints:
                sys.stderr.write(f"the page complains: {complaint}\n")
    async with Browser.connect(chromium.url) as browser:
        await take_mesh(browser, folder, journal.parent)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = chromium_path()
    if path is None:
        raise SystemExit("chromium is missing: tests/console/install-chromium installs it")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        chromium = Chromium(path, Path(profile))
        try:
            asyncio.run(take_all(chromium, folder, Path(profile) / "journal"))
        finally:
            chromium.stop()
    for picture in sorted(folder.glob("*.png")):
        sys.stdout.write(f"{picture}: {picture.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
