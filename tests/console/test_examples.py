"""examples/demo, examples/browser and the page of docs/start.md, looked at in a real Chromium."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from peers.client import connect
from tests.client import test_start
from tests.client.test_demo import running
from tests.console.browser import Browser
from tests.console.real_hub import RealHub, run_hub
from tests.console.seeing import text, wait_shown

pytestmark = pytest.mark.timeout(240)


async def test_who_is_slow_and_why(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as (process, (_, page_port, *_)):
        assert process.stdout is not None
        said = iter(process.stdout.readline, "")
        address = f"http://127.0.0.1:{page_port}/"
        assert await asyncio.to_thread(lambda: any(f"Open {address} " in line for line in said))
        async with browser.reuse_tab(address) as page:
            await wait_shown(page, "document.querySelector('#sentence a')?.textContent === 'report'")
            assert "subscribers are slow" in await text(page, "sentence")
            row = "[...document.querySelectorAll('#slow li')].find((it) => it.children[0].textContent === 'report')"
            await wait_shown(
                page, f"/^It reads .* under \\/plant\\/\\. Its queue is full/.test({row}?.children[1].textContent)"
            )
            await page.evaluate("document.querySelector('#sentence a').click()")
            await wait_shown(page, "document.getElementById('connection-title')?.textContent === 'report'")
            await wait_shown(page, "document.getElementById('why-slow').textContent.includes('Its queue is full')")
            assert page.complaints == []


EXAMPLE = Path(__file__).parents[2] / "examples" / "browser" / "index.html"


async def test_the_example_page_connects_from_a_disk_only_where_the_hub_lets_it(
    browser: Browser, tmp_path: Path, real_hub: RealHub
) -> None:
    """A page of another origin than the hub's shows a live stream."""
    source, page_file = EXAMPLE.read_text(), tmp_path / "index.html"
    assert source.count("127.0.0.1:7401") == 2
    page_file.write_text(source.replace("127.0.0.1:7401", f"127.0.0.1:{real_hub.port}"))
    async with browser.reuse_tab(page_file.as_uri()) as page:
        await wait_shown(page, "document.getElementById('state').textContent === 'reconnecting'")
        assert all("403" in complaint for complaint in page.complaints)
    with run_hub("--websocket-origins", "null") as hub:
        page_file.write_text(source.replace("127.0.0.1:7401", f"127.0.0.1:{hub.port}"))
        async with browser.reuse_tab(page_file.as_uri()) as page, connect(hub.url) as publisher:
            await wait_shown(page, "document.getElementById('state').textContent.startsWith('connected')")
            for number in range(50):
                await publisher.publish("/zeek/<b>", {"n": number})
            await wait_shown(page, "document.getElementById('messages').textContent.includes(':49}')")
            lines = await page.evaluate("return [...document.querySelectorAll('li')].map((it) => it.textContent)")
            records = [line for line in lines if not line.startswith("$hub/")]
            assert records == [f'/zeek/<b> {{"n":{number}}}' for number in range(49, 49 - len(records), -1)]
            assert 20 < len(lines) <= 30
            await page.evaluate("document.getElementById('hello').click()")
            await wait_shown(page, "document.getElementById('messages').textContent.includes('/demo/hello')")
            assert page.complaints == []


async def test_the_page_of_the_tutorial_shows_readings_and_alarms(browser: Browser, tmp_path: Path) -> None:
    with run_hub("--websocket-origins", "null") as hub:
        source = test_start.block(5, "html").replace(test_start.WEBSOCKET, f"127.0.0.1:{hub.port}")
        (tmp_path / "page.html").write_text(source)
        async with browser.reuse_tab((tmp_path / "page.html").as_uri()) as page, connect(hub.url) as publisher:
            while not await page.evaluate("return document.getElementById('alarm').textContent"):
                await publisher.publish("/plant/east/press-1", {"celsius": 71.5})
                await publisher.publish("/alarm/slow-reader", "report is slow")
                await asyncio.sleep(0.05)
            await wait_shown(page, "document.querySelector('tr')?.textContent === '/plant/east/press-171.5 °C'")
            assert page.complaints == []
