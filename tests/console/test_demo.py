"""examples/demo, looked at in a real Chromium: somebody who has never seen the page finds who is slow, and why."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from tests.client.test_demo import running
from tests.console.browser import Browser
from tests.console.seeing import text, wait_shown

pytestmark = pytest.mark.timeout(240)


async def test_who_is_slow_and_why(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as (process, (_, page_port, *_)):
        assert process.stdout is not None
        said = iter(process.stdout.readline, "")
        address = f"http://127.0.0.1:{page_port}/"
        assert await asyncio.to_thread(lambda: any(f"Open {address} " in line for line in said))
        async with browser.open(address) as page:
            await wait_shown(page, "document.querySelector('#sentence a')?.textContent === 'report'")
            assert "subscribers are slow" in await text(page, "sentence")
            row = "[...document.querySelectorAll('#slow li')].find((it) => it.children[0].textContent === 'report')"
            await wait_shown(
                page, f"/^It takes .* under \\/plant\\/\\. Its queue is full/.test({row}?.children[1].textContent)"
            )
            await page.evaluate("document.querySelector('#sentence a').click()")
            await wait_shown(page, "document.getElementById('connection-title')?.textContent === 'report'")
            await wait_shown(page, "document.getElementById('why-slow').textContent.includes('Its queue is full')")
            assert page.complaints == []
