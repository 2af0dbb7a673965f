"""Measure how the hub's page bears a fast stream: `python -m tests.console.page_rate [messages/s] [seconds] [real]`.

A scripted hub sends records of 300 bytes, one message a frame (the form that costs a browser most), at a fixed rate to
the page in headless Chromium. With `real`, a client publishes them to a real hub, whose page is opened. Printed: what
the page received, how often it drew, its longest pause between two frames, how often its main thread was blocked for
more than 50 ms (as browsers count tasks), and how long it takes to answer meanwhile. A measurement, not a test: the
figures are those of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from websockets.frames import Frame, Opcode

from peers.client import connect
from tests.console.browser import Browser, Chromium, Page, chromium_path
from tests.console.real_hub import run_hub
from tests.console.scripted_hub import ScriptedHub
from tests.console.seeing import wait_messages

__all__ = ["main"]

TURN_S = 0.005
PROBE_S = 0.25

TOGETHER = 5_000
"""So many are published before it is waited until they are sent."""

PARTS = 6
"""So often memory is looked at."""

RECORD = {
    "_path": "conn",
    "ts": "2018-03-24T17:15:23.679053Z",
    "uid": "CbZVu5FcCsBaqxuAg",
    "id.orig_h": "10.128.0.241",
    "id.orig_p": 34032,
    "id.resp_h": "10.47.1.208",
    "id.resp_p": 995,
    "proto": "tcp",
    "service": "ssl",
    "duration": 1.339,
    "orig_bytes": 1024,
    "resp_bytes": 4711,
    "conn_state": "SF",
}

WATCH_FRAMES = """
    globalThis.frames = [];
    const look = (at) => { frames.push(at); requestAnimationFrame(look); };
    requestAnimationFrame(look);
    globalThis.blocked = [];
    new PerformanceObserver((list) => blocked.push(...list.getEntries().map((one) => one.duration)))
      .observe({type: "longtask"});
"""

WAIT_RECEIVED = """
    const figure = (name) => Number(document.getElementById(name).textContent.replace(/\\D/g, ""));
    while (figure("received") + figure("dropped") < sent) await new Promise((resolve) => setTimeout(resolve, 20));
"""

REPORT = """
    const gaps = frames.slice(1).map((at, index) => at - frames[index]);
    const skipped = Number(document.getElementById("skipped").textContent.replace(/\\D/g, ""));
    const heap = performance.memory.usedJSHeapSize;
    const dropped = Number(document.getElementById("dropped").textContent.replace(/\\D/g, ""));
    return {dropped, frames: frames.length, longest: Math.max(...gaps), skipped, heap, blocked};
"""


TOPICS = [f"/zeek/{number:02}" for number in range(40)]

Send = Callable[[range], Awaitable[None]]
"""Sends the messages with these numbers."""


@contextlib.asynccontextmanager
async def scripted() -> AsyncIterator[tuple[str, Send]]:
    """Give the address of a page, and what sends to it: a frame a message, ready before."""
    messages = [{"type": "messages", "topic": topic, "values": [RECORD]} for topic in TOPICS]
    frames = [Frame(Opcode.TEXT, json.dumps(message).encode()).serialize(mask=False) for message in messages]
    async with ScriptedHub() as hub:

        async def send(due: range) -> None:
            await hub.send_raw(b"".join(frames[number % len(frames)] for number in due), "")

        yield hub.page_url, send


@contextlib.asynccontextmanager
async def real() -> AsyncIterator[tuple[str, Send]]:
    """Give the address of the page of a real hub, and what publishes there."""
    with run_hub() as hub:
        async with connect(hub.url.removesuffix("/v1/hub")) as client:

            async def send(due: range) -> None:
                for number in due:
                    client.publish_nowait(TOPICS[number % len(TOPICS)], RECORD)
                    if number % TOGETHER == 0:
                        await client.drain()

            yield hub.page_url, send


async def send_for(send: Send, rate: int, duration_s: float) -> int:
    """Send at a fixed rate; return how many."""
    sent, started = 0, time.monotonic()
    while (elapsed := time.monotonic() - started) < duration_s:
        due = range(sent, min(int(elapsed * rate), sent + rate // 4))  # what is behind does not come at once
        await send(due)
        sent = due.stop
        await asyncio.sleep(TURN_S)
    return sent


async def probe(page: Page) -> list[float]:
    """Ask the page for nothing, again and again; return how long each answer took, milliseconds."""
    answers = []
    while True:
        started = time.monotonic()
        try:
            await page.evaluate("return 0")
            answers.append((time.monotonic() - started) * 1000)
            await asyncio.sleep(PROBE_S)
        except asyncio.CancelledError:
            return answers


async def main_thread_s(page: Page) -> float:
    """Return how much of a processor's time the page's main thread has used since this was asked first, seconds."""
    await page.browser.command("Performance.enable", page.session, timeDomain="threadTicks")
    metrics = (await page.browser.command("Performance.getMetrics", page.session))["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


async def measure(chromium: Chromium, rate: int, duration_s: float, picture: Path, *, is_real: bool) -> None:
    """Run one measurement and print it."""
    async with (
        real() if is_real else scripted() as (page_url, send),
        Browser.connect(chromium.url) as browser,
        browser.open(f"{page_url}#/messages") as page,
    ):
        await wait_messages(page)
        await page.evaluate(WATCH_FRAMES)
        used_s = await main_thread_s(page)
        probing = asyncio.create_task(probe(page))
        started, sent = time.monotonic(), 0
        sizes = [chromium.renderer_bytes()]
        for _ in range(PARTS):
            sent += await send_for(send, rate, duration_s / PARTS)
            sizes.append(chromium.renderer_bytes())
        await page.evaluate(WAIT_RECEIVED, sent=sent)
        elapsed_s = time.monotonic() - started
        probing.cancel()
        answers = await probing
        await page.screenshot(picture)
        result = await page.evaluate(REPORT)
        blocked_ms = max(result["blocked"], default=0)
        used_s = await main_thread_s(page) - used_s
    sys.stdout.write(
        f"sent {sent:,} in {duration_s:g} s, received all after {elapsed_s:.1f} s ({sent / elapsed_s:,.0f}/s)\n"
        f"frames drawn {result['frames']:,}, longest pause between two {result['longest']:.0f} ms\n"
        f"answers took {statistics.median(answers):.0f} ms (median), {max(answers):.0f} ms (longest)\n"
        f"main thread blocked for more than 50 ms {len(result['blocked'])} times, at most {blocked_ms:.0f} ms; "
        f"it used {used_s / elapsed_s:.0%} of a processor; its heap {result['heap'] / 2**20:.0f} MiB\n"
        f"memory of its process {', '.join(f'{size / 2**20:.0f}' for size in sizes)} MiB, from begin to end\n"
        f"skipped {result['skipped']:,}, dropped by the hub {result['dropped']:,}; picture: {picture}\n"
    )


def main() -> None:
    """Read the command line and measure."""
    rate = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    duration_s = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    path = chromium_path()
    if path is None:
        raise SystemExit("chromium is missing: tests/console/install-chromium installs it")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        chromium = Chromium(path, Path(profile))
        try:
            picture = Path(tempfile.gettempdir()) / "page-rate.png"
            asyncio.run(measure(chromium, rate, duration_s, picture, is_real="real" in sys.argv))
        finally:
            chromium.stop()


if __name__ == "__main__":
    main()
