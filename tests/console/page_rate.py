"""Measure what the page costs with fast messages: `python -m tests.console.page_rate [messages/s] [seconds] [rounds]`.

A client publishes records of 300 bytes under 40 topics to a real hub, one message a frame, at a fixed rate, for so many
seconds with each of these in turn: nobody who reads them; a client that takes a sample of 1,000 a second, and does
nothing with it; and the page, open at its messages. With `search` at the end, the page searches, so that it gets all.
Printed: what the hub used, in all and for each message; then what the page did: frames drawn, how often its main thread
was blocked for more than 50 ms, what that used; and its memory, beside that of an empty tab. A measurement, not a test:
the figures are those of the machine. Short: `python -m tests.console.page_rate 5000 4 1`; half an hour of each:
`python -m tests.console.page_rate 50000 1800 1`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from hub.frame import encode_frame
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.console.browser import Browser, Chromium, Page, chromium_path
from tests.console.real_hub import RealHub, run_hub
from tests.console.seeing import wait_messages
from tests.console.usage import Memory, cpu_by_kind, cpu_s, memory_of, renderers

__all__ = ["main"]

TURN_S = 0.005

SETTLED_S = 1.0
"""So long nothing is measured after somebody has come."""

PARTS = 30
"""So often memory is looked at in a round."""

SAMPLE = 1_000
"""Of messages a second: as many as the page asks for."""

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

TOPICS = [f"/zeek/{place:02}" for place in range(40)]
FRAMES = [encode_frame(Kind.MESSAGES, msgspec.msgpack.encode(RECORD), key=topic.encode()) for topic in TOPICS]

WATCH_FRAMES = """
    globalThis.frames = {count: 0, longest: 0, last: performance.now()};
    const look = (at) => {
      frames.count += 1;
      frames.longest = Math.max(frames.longest, at - frames.last);
      frames.last = at;
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
    globalThis.blocked = {count: 0, longest: 0};
    new PerformanceObserver((list) => {
      for (const {duration} of list.getEntries()) {
        blocked.count += 1;
        blocked.longest = Math.max(blocked.longest, duration);
      }
    }).observe({type: "longtask"});
"""

BUSY = "const end = performance.now() + 500; while (performance.now() < end);"
"""A page that does so betrays which process is its own."""

FOUND = r"""
    const figure = (name) => Number(document.getElementById(name).textContent.replace(/\D/g, ""));
    const share = document.getElementById("share");
    return {
      frames: frames.count, longestPause: frames.longest, blocked: blocked.count, longestTask: blocked.longest,
      received: figure("received"), dropped: figure("dropped"),
      share: share.hidden ? "all shown" : share.textContent,
    };
"""

MEMORY = {"rss": "resident", "pss": "with its part of what others share", "own": "its own"}
"""What of a `Memory` is told, and how."""


class Used(NamedTuple):
    """What a hub has used while somebody was there."""

    messages: int
    passed_s: float
    cpu_s: float

    @property
    def share(self) -> float:
        """Of a processor."""
        return self.cpu_s / self.passed_s

    @property
    def each_us(self) -> float:
        """For each message, µs."""
        return self.cpu_s / self.messages * 1e6


class Publisher:
    """Publishes the same again and again, at a rate, to the hub at a Unix socket."""

    def __init__(self, writer: asyncio.StreamWriter, rate: int) -> None:
        self._writer = writer
        self._rate = rate

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, path: str, rate: int) -> AsyncIterator[Publisher]:
        """Connect for as long as the block lasts."""
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(Hello(protocol=1, role="client", name="publisher").encode())
        answering = asyncio.create_task(_answer(reader, writer))
        try:
            yield cls(writer, rate)
        finally:
            answering.cancel()
            writer.close()

    async def publish_for(self, duration_s: float) -> int:
        """Publish for so long; return how many."""
        sent, started = 0, time.monotonic()
        while (elapsed_s := time.monotonic() - started) < duration_s:
            due = range(
                sent, min(int(elapsed_s * self._rate), sent + self._rate // 4)
            )  # what is behind comes by and by
            self._writer.write(b"".join(FRAMES[place % len(FRAMES)] for place in due))
            await self._writer.drain()
            sent = due.stop
            await asyncio.sleep(TURN_S)
        return sent


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the hub's pings, which come where a round has nothing to publish."""
    while head := await reader.readexactly(8):
        kind, key_bytes = head[4], int.from_bytes(head[6:8], "big")
        body = (await reader.readexactly(key_bytes + int.from_bytes(head[:4], "big")))[key_bytes:]
        if kind == Kind.PING:
            writer.write(encode_frame(Kind.PONG, body))


@dataclass
class Bench:
    """What takes part in all rounds."""

    hub: RealHub
    chromium: Chromium
    browser: Browser
    publisher: Publisher
    duration_s: float
    place: str
    """Where the page is opened, behind its address."""

    async def load(self, look: Callable[[], Any] | None = None) -> Used:
        """Publish, and look at something so many times meanwhile; return what the hub has used."""
        await asyncio.sleep(SETTLED_S)
        before, began = cpu_s(self.hub.pid), time.monotonic()
        sent = 0
        for part in range(PARTS):
            sent += await self.publisher.publish_for(self.duration_s / PARTS)
            if look is not None:
                look()
            _progress(f"  {(part + 1) / PARTS:4.0%}\r")
        return Used(sent, time.monotonic() - began, cpu_s(self.hub.pid) - before)

    async def nobody(self) -> Used:
        """Nobody wants what is published."""
        return await self.load()

    async def sampler(self) -> Used:
        """A client wants some of it."""
        protocol = [Subprotocol("hub.v1.json")]
        async with connect(self.hub.url, subprotocols=protocol, compression=None, max_queue=None) as client:
            await client.send(json.dumps({"type": "hello", "name": "sampler", "sample": SAMPLE}))
            await client.send(json.dumps({"type": "subscribe", "prefixes": ["/zeek/"]}))
            reading = asyncio.create_task(_take(client))
            used = await self.load()
            reading.cancel()
            return used

    async def page(self) -> Used:
        """The page is open; print what that did."""
        async with self.opened(f"{self.hub.page_url}{self.place}") as (page, pid):
            await wait_messages(page)
            auto = {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": True}
            await self.browser.command("Target.setAutoAttach", page.session, **auto)  # so that its thread is known
            await page.evaluate(WATCH_FRAMES)
            alive = [await _alive(page)]
            sizes = [memory_of(pid)]
            before = await self.spent(page)
            used = await self.load(lambda: sizes.append(memory_of(pid)))
            after = await self.spent(page)
            found = await page.evaluate(FOUND)
            alive.append(await _alive(page))
            collected = memory_of(pid)
            threads = [await _heap(page, session) for session in page.workers]
        shares = {name: (spent - before.get(name, 0.0)) / used.passed_s for name, spent in after.items()}
        _print(
            f"  received {found['received']:,} of {used.messages:,}, {found['share']}, missed {found['dropped']:,}; "
            f"{found['frames'] / used.passed_s:.1f} frames/s, longest pause {found['longestPause']:.0f} ms",
            f"  blocked for more than 50 ms {found['blocked']} times, at most {found['longestTask']:.0f} ms",
            "  of a processor: " + ", ".join(f"{name} {share:.1%}" for name, share in shares.items()),
            "  memory of its process, MiB, from beginning to end:",
            *(
                f"    {_course(sizes, field)}, without garbage {getattr(collected, field):.0f}  {text}"
                for field, text in MEMORY.items()
            ),
            f"  without garbage, at the beginning and the end: {'; '.join(alive)}",
            f"  heap of its thread {', '.join(f'{heap:.1f}' for heap in threads)} MiB",
        )
        return used

    async def spent(self, page: Page) -> dict[str, float]:
        """Return how much time of processors was used so far, by the page's main thread and each kind of process."""
        return {"main thread": await _main_thread_s(page)} | cpu_by_kind(self.chromium.pid)

    async def empty(self, url: str) -> Memory:
        """Return what a process holds for a page that has nothing in it."""
        async with self.opened(url) as (_, pid):
            return memory_of(pid)

    @contextlib.asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[tuple[Page, int]]:
        """Open a page; give it, and the process that runs it."""
        async with self.browser.open(url) as page:
            await asyncio.sleep(SETTLED_S)
            before = {pid: cpu_s(pid) for pid in renderers(self.chromium.pid)}
            await page.evaluate(BUSY)
            yield page, max(before, key=lambda pid: cpu_s(pid) - before[pid])


async def _take(client: Any) -> None:
    async for _ in client:
        pass


async def _main_thread_s(page: Page) -> float:
    """Return how much of a processor's time the page's main thread has used since this was asked first, seconds."""
    await page.browser.command("Performance.enable", page.session, timeDomain="threadTicks")
    metrics = (await page.browser.command("Performance.getMetrics", page.session))["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


async def _heap(page: Page, session: str) -> float:
    return float((await page.browser.command("Runtime.getHeapUsage", session))["usedSize"]) / 2**20


async def _alive(page: Page) -> str:
    """Collect garbage, and say what is left: what grows here is held by the page."""
    await page.browser.command("HeapProfiler.collectGarbage", page.session)
    counters = await page.browser.command("Memory.getDOMCounters", page.session)
    heap = await _heap(page, page.session)
    return f"heap {heap:.1f} MiB, {counters['nodes']} nodes, {counters['jsEventListeners']} listeners"


def _course(sizes: list[Memory], field: str) -> str:
    """Say how something went: at the beginning, after a quarter, three quarters, and at the end."""
    quarter = len(sizes) // 4
    return " ".join(f"{getattr(sizes[place], field):5.0f}" for place in (0, quarter, 3 * quarter, -1))


async def measure(bench: Bench, rounds: int) -> None:
    """Measure, and print what comes out."""
    for name, url in (("about:blank", "about:blank"), ("an empty page of the hub", f"{bench.hub.page_url}nothing")):
        size = await bench.empty(url)
        told = ", ".join(f"{getattr(size, field):.0f} {text}" for field, text in MEMORY.items())
        _print(f"memory of {name}, MiB: {told}")
    ways = {"nobody": bench.nobody, "client": bench.sampler, "page": bench.page}
    table: dict[str, list[Used]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name in list(ways) if turn % 2 == 0 else list(ways)[::-1]:
            _progress(f"round {turn + 1} of {rounds}: {name}\n")
            used = await ways[name]()
            table[name].append(used)
            figures = f"{used.messages / used.passed_s:8,.0f}/s  hub {used.share:6.2%}  {used.each_us:6.3f} µs each"
            _print(f"{turn + 1:2} {name:8} {figures}")
    each = {name: statistics.median(one.each_us for one in found) for name, found in table.items()}
    share = {name: statistics.median(one.share for one in found) for name, found in table.items()}
    _print(
        "hub: " + "; ".join(f"{name} {share[name]:.2%} of a processor, {each[name]:.3f} µs each" for name in ways),
        f"with the page, beside a client that samples: {share['page'] - share['client']:+.2%} of a processor, "
        f"{each['page'] / each['client'] - 1:+.1%} for each message",
        f"beside nobody: {share['page'] - share['nobody']:+.2%} of a processor",
    )


def _print(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _progress(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


@dataclass(frozen=True)
class Order:
    """What the command line asks for."""

    rate: int
    duration_s: float
    rounds: int
    place: str

    async def carry_out(self, hub: RealHub, socket: str, chromium: Chromium) -> None:
        """Connect to all that takes part, and measure."""
        async with Browser.connect(chromium.url) as browser, Publisher.connect(socket, self.rate) as publisher:
            await measure(Bench(hub, chromium, browser, publisher, self.duration_s, self.place), self.rounds)


def main() -> None:
    """Read the command line and measure."""
    given = [word for word in sys.argv[1:] if word != "search"]
    rate = int(given[0]) if given else 50_000
    duration_s = float(given[1]) if len(given) > 1 else 10.0
    rounds = int(given[2]) if len(given) > 2 else 3
    place = "#/messages?prefix=/zeek/" + ("&search=10.128.0" if "search" in sys.argv else "")
    path = chromium_path()
    if path is None:
        raise SystemExit("chromium is missing: tests/console/install-chromium installs it")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        socket = f"{folder}/hub"
        with run_hub("--listen", f"unix://{socket}") as hub:
            chromium = Chromium(path, Path(folder) / "profile")
            try:
                asyncio.run(Order(rate, duration_s, rounds, place).carry_out(hub, socket, chromium))
            finally:
                chromium.stop()


if __name__ == "__main__":
    main()
