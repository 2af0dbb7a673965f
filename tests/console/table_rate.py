"""Measure the table of connections: `python -m tests.console.table_rate [connections] [seconds] [rounds]`.

A real hub has so many idle clients, and its page is open in headless Chromium. Printed, for each round: how long it
took from the click on the entry until the first rows were painted, the same from the beginning of a new tab on, how
many frames a second were drawn while every frame scrolled, the longest pause between two of them, how often the main
thread was blocked for more than 50 ms, and what each kind of process used meanwhile. A measurement, not a test: the
figures are those of the machine. Short: `python -m tests.console.table_rate 1000 2 1`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.bench.worker import raise_descriptor_limit
from peers.wire.hello import Hello
from tests.console.browser import Browser, Chromium, Page, chromium_path
from tests.console.real_hub import RealHub, run_hub
from tests.console.seeing import wait_shown, wait_view
from tests.console.usage import cpu_by_kind

__all__ = ["main"]

TOGETHER = 200
"""So many clients connect before it is waited until the hub has greeted them."""

SCROLL_PX = 240
"""So far each frame scrolls: eight rows, a quick turn of a wheel."""

MAIN_THREAD = ("Task", "Script", "Layout", "RecalcStyle")
"""What is told of the page's main thread: all that it does, and of that the page's own code, layout and style."""

FIRST_ROWS = """
    const clicked = fromClick ? performance.now() : 0;
    if (fromClick) document.querySelector('a[href^="#/connections"]').click();
    const isThere = () => document.querySelector(".table-lines .table-line:not([hidden]) .column-name")?.textContent;
    while (!isThere()) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame); // they are painted before this one
    return performance.now() - clicked;
"""

SCROLL = """
    const blocked = [];
    const watch = new PerformanceObserver((list) => blocked.push(...list.getEntries().map((one) => one.duration)));
    watch.observe({type: "longtask"});
    const table = document.querySelector(".table");
    const frames = [];
    let step = scrollPx;
    const end = performance.now() + durationMs;
    while (performance.now() < end) {
      frames.push(await new Promise(requestAnimationFrame));
      const most = table.scrollHeight - table.clientHeight;
      if (table.scrollTop + step > most || table.scrollTop + step < 0) step = -step;
      table.scrollTop += step;
    }
    watch.disconnect();
    const gaps = frames.slice(1).map((at, index) => at - frames[index]);
    return {frames: frames.length, longest: Math.max(...gaps), blocked: blocked.length, worst: Math.max(0, ...blocked)};
"""


@contextlib.contextmanager
def crowded(count: int) -> Iterator[RealHub]:
    """Run a hub with so many clients that say nothing."""
    raise_descriptor_limit()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as clients:
        path = f"{folder}/hub"
        limits = ("--limits-connections", str(count + 100), "--limits-ping-after-s", "86400")
        hub = clients.enter_context(run_hub("--listen", f"unix://{path}", *limits))
        for begin in range(0, count, TOGETHER):
            some = [_client(path, number) for number in range(begin, min(begin + TOGETHER, count))]
            for client in some:
                client.recv(1 << 16)  # its HELLO
                clients.enter_context(client)
            _progress(f"{begin + len(some):,} of {count:,} clients are connected")
        yield hub


def _client(path: str, number: int) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.send(Hello(protocol=1, role="client", name=f"sensor-{number:05}").encode())
    return client


async def open_view(browser: Browser, hub: RealHub) -> float:
    """Return how long the first rows take from the click on."""
    async with browser.open(f"{hub.page_url}#/overview") as page:
        await wait_view(page, "overview")
        await asyncio.sleep(0.5)  # until its charts are drawn
        return float(await page.evaluate(FIRST_ROWS, fromClick=True))


async def open_tab(browser: Browser, hub: RealHub) -> float:
    """Return how long the first rows take from the beginning of a tab on, all files of the page included."""
    async with browser.open(f"{hub.page_url}#/connections") as page:
        return float(await page.evaluate(FIRST_ROWS, fromClick=False))


async def scroll(chromium: Chromium, browser: Browser, hub: RealHub, duration_s: float) -> dict[str, Any]:
    """Scroll all the time, with each frame."""
    async with browser.open(f"{hub.page_url}#/connections") as page:
        await wait_shown(page, "Number(document.querySelector('.connections-view')?.dataset.looks) >= 1")
        await page.browser.command("Performance.enable", page.session, timeDomain="threadTicks")
        before, parts, began = cpu_by_kind(chromium.pid), await _counted(page), time.monotonic()
        found: dict[str, Any] = await page.evaluate(SCROLL, scrollPx=SCROLL_PX, durationMs=duration_s * 1000)
        passed_s, after = time.monotonic() - began, cpu_by_kind(chromium.pid)
        done = await _counted(page)
        found["per_s"] = found["frames"] / duration_s
        found["cpu"] = {kind: (used - before.get(kind, 0.0)) / passed_s for kind, used in after.items()}
        found["main"] = {name: (used - parts[name]) / passed_s for name, used in done.items()}
        return found


async def _counted(page: Page) -> dict[str, float]:
    """Return what the page's main thread has used so far, seconds of a processor, by what for."""
    metrics = (await page.browser.command("Performance.getMetrics", page.session))["metrics"]
    return {name: next(one["value"] for one in metrics if one["name"] == f"{name}Duration") for name in MAIN_THREAD}


async def measure(chromium: Chromium, hub: RealHub, duration_s: float, rounds: int) -> None:
    """Measure, and print a line for each round, then the medians."""
    sys.stdout.write("round  rows after a click  rows of a new tab  frames/s  longest pause  blocked > 50 ms\n")
    table: list[tuple[float, ...]] = []
    async with Browser.connect(chromium.url) as browser:
        for number in range(1, rounds + 1):
            clicked, opened = await open_view(browser, hub), await open_tab(browser, hub)
            found = await scroll(chromium, browser, hub, duration_s)
            row = (clicked, opened, found["per_s"], found["longest"], found["blocked"])
            table.append(row)
            _print(str(number), row)
            _progress(f"       longest task {found['worst']:.0f} ms; {_shares('processes', found['cpu'])}")
            _progress(f"       {_shares('main thread', found['main'])}")
    _print("median", tuple(statistics.median(column) for column in zip(*table, strict=True)))


def _print(name: str, row: tuple[float, ...]) -> None:
    clicked, opened, per_s, longest, blocked = row
    sys.stdout.write(f"{name:6} {clicked:15.0f} ms {opened:15.0f} ms {per_s:9.1f} {longest:11.0f} ms {blocked:16g}\n")
    sys.stdout.flush()


def _shares(of: str, used: dict[str, float]) -> str:
    return f"{of}: " + ", ".join(f"{name} {share:.0%}" for name, share in sorted(used.items(), key=lambda it: -it[1]))


def _progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> None:
    """Read the command line and measure."""
    given = sys.argv[1:]
    count = int(given[0]) if given else 10_000
    duration_s = float(given[1]) if len(given) > 1 else 10.0
    rounds = int(given[2]) if len(given) > 2 else 5
    path = chromium_path()
    if path is None:
        raise SystemExit("chromium is missing: tests/console/install-chromium installs it")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, crowded(count) as hub:
        chromium = Chromium(path, Path(profile))
        try:
            asyncio.run(measure(chromium, hub, duration_s, rounds))
        finally:
            chromium.stop()


if __name__ == "__main__":
    main()
