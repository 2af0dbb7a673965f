"""An hour of ordinary trouble at a constant load, and a report: `python tests/soak/long.py [--minutes 60]`.

Two publishers send 5,000 messages a second each to ten live readers: 100,000 deliveries/s. Meanwhile

| what | how often | what is checked |
|---|---|---|
| clients that come, read a little and go | 20 a second | the memory of the hub |
| slow readers, with queues of 200 messages | always | each missing message was reported to them |
| readers whose connections are cut | every 2 s | a stream from the journal goes on where it was |
| a reload with a renewed certificate | every 30 s | TLS clients stay, new ones see the new certificate |
| the folder of the tier is away | 20 s of 2 minutes | the tier has every sealed record at the end |
| a worker of a second hub is killed | every 20 s | a confirmed message is in its journal exactly once |

Exit code 1: a message was lost without a report or came twice, or memory after the first sixth grew by over 5 %.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.errors import HubError
from hub.limits import Overflow
from peers.client import MessageStream, QueueWish, connect
from tests.daemon.hub_process import HubProcess
from tests.hubs.authority import Authority
from tests.links.way import Way
from tests.workers.conftest import is_worker, workers_of

_PUBLISHERS, _READERS, _SLOW_READERS, _FOLLOWERS = 2, 10, 3, 3
_STEP_S = 0.02
_QUIET_S = 10.0  # for the last messages to arrive
_GROWTH_LIMIT = 0.05


class Reader:
    """Reads the numbers of all publishers, and counts what is missing, repeated and reported."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.last: dict[int, int] = {}
        self.received = self.missing = self.repeated = self.reported = 0

    def take(self, publisher: int, number: int) -> None:
        self.received += 1
        expected = self.last.get(publisher, number - 1) + 1
        if number < expected:
            self.repeated += 1
            return
        self.missing += number - expected
        self.last[publisher] = number

    def on_dropped(self, messages: int) -> None:
        self.reported += messages

    @property
    def silent(self) -> int:
        """How many messages are missing without a report, or reported without being missing."""
        return abs(self.missing - self.reported) + self.repeated


def memory_of(pid: int) -> int:
    """Return the resident memory of a process, bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Run:
    """One hub under load, and one with workers."""

    def __init__(self, minutes: float, rate: int) -> None:
        self.rate = rate  # messages a second of one publisher
        self.end_s = time.monotonic() + minutes * 60
        self.begun_s = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.readers: list[Reader] = []
        self.memory: list[int] = []  # of the hub, once a second
        self.confirmed: list[int] = []

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end_s

    async def every(self, period_s: float) -> bool:
        await asyncio.sleep(max(0.0, min(period_s, self.end_s - time.monotonic())))
        return not self.is_over

    async def publish(self, url: str, publisher: int) -> None:
        async with connect(url, name=f"publisher {publisher}", buffer_bytes=1 << 28) as client:
            number, due = 0, time.monotonic()
            while not self.is_over:
                due += _STEP_S
                for _ in range(int(self.rate * _STEP_S)):
                    client.publish_nowait("/load", [publisher, number])
                    number += 1
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            await client.drain()
        self.counts["published"] += number

    async def read(
        self, url: str, reader: Reader, *, pause_s: float = 0.0, from_journal: bool = False, ca: str = ""
    ) -> None:
        self.readers.append(reader)
        queue = QueueWish(messages=200, overflow=Overflow.DROP_OLDEST) if pause_s else None
        options = {"ca": ca} if ca else {}
        async with connect(
            url,
            name=reader.name,
            queue=queue,
            on_dropped=reader.on_dropped,
            stream_bytes=1 << 14 if pause_s else 1 << 24,
            **options,
        ) as client:
            stream = client.subscribe("/load", from_offset=0) if from_journal else client.subscribe("/load")
            async with stream as messages:
                ending = asyncio.get_running_loop().create_task(self.end_of(messages))
                async for message in messages:
                    reader.take(*message.value)
                    if pause_s and not reader.received % 500 and not self.is_over:
                        await asyncio.sleep(pause_s)
                await ending

    async def end_of(self, messages: MessageStream) -> None:
        """Close a stream when the last messages have had time to arrive."""
        await asyncio.sleep(self.end_s + _QUIET_S - time.monotonic())
        await messages.close()

    async def churn(self, url: str) -> None:
        async def one() -> None:
            with suppress(HubError, TimeoutError):
                async with (
                    asyncio.timeout(_QUIET_S),
                    connect(url, name="passing") as client,
                    client.subscribe("/load") as messages,
                ):
                    for _ in range(100):
                        await anext(messages)
            self.counts["clients that came and went"] += 1

        async with asyncio.TaskGroup() as group:
            while await self.every(0.05):
                group.create_task(one())

    async def renew(self, hub: HubProcess, authority: Authority, url: str) -> None:
        while await self.every(30):
            authority.issue("localhost")
            hub.signal(signal.SIGHUP)
            await asyncio.sleep(2)
            async with connect(url, ca=authority.ca):
                self.counts["renewed certificates"] += 1

    async def take_tier_away(self, tier: Path) -> None:
        while await self.every(100):
            await asyncio.to_thread(tier.rename, tier.with_name("away"))
            await asyncio.sleep(20)
            await asyncio.to_thread(tier.with_name("away").rename, tier)
            self.counts["times the tier was away"] += 1

    async def watch_memory(self, hub: HubProcess) -> None:
        while await self.every(1):
            self.memory.append(memory_of(hub.pid))

    async def cut(self, way: Way) -> None:
        while await self.every(2):
            way.cut()
            self.counts["times all connections of followers were cut"] += 1

    async def kill_workers(self, hub: HubProcess) -> None:
        while await self.every(20):
            if workers := [pid for pid in workers_of(hub.pid) if is_worker(pid)]:
                with suppress(ProcessLookupError):
                    os.kill(workers[self.counts["killed workers"] % len(workers)], signal.SIGKILL)
                self.counts["killed workers"] += 1

    async def confirm(self, url: str) -> None:
        """Publish with confirmation, each number once: a confirmed one must be in the journal once."""
        async with connect(url, name="confirmed publisher") as client:
            number = 0
            while await self.every(0.005):
                try:
                    await client.publish_confirmed("/confirmed", number)
                except HubError:
                    self.counts["publications without a confirmation"] += 1
                else:
                    self.confirmed.append(number)
                number += 1


async def main(minutes: float, rate: int) -> int:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        run = Run(minutes, rate)
        authority, tier = Authority(folder), folder / "tier"
        files = authority.issue("localhost")
        tier.mkdir()
        journal = ["--journal", str(folder / "journal"), "--journal-tier", str(tier), "--journal-topics", "/load"]
        secure = ["--listen", "tls://localhost:0", "--tls-certificate", files.certificate, "--tls-key", files.key]
        quiet = ["--log-level", "error"]
        async with AsyncExitStack() as stack:
            hub = await HubProcess.start(
                ["--listen", "tcp://127.0.0.1:0", *secure, *journal, "--queue-messages", "200000", *quiet],
                {}, stderr=asyncio.subprocess.DEVNULL, is_new=True,
            )  # fmt: skip
            stack.push_async_callback(hub.kill)
            await hub.wait_up(2)
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            crew = await HubProcess.start(
                ["--listen", f"tcp://127.0.0.1:{port}", f"--listen=unix://{folder}/crew.sock", "--workers", "2",
                 "--journal", str(folder / "confirmed"), *quiet],
                {}, stderr=asyncio.subprocess.DEVNULL, is_new=True,
            )  # fmt: skip
            stack.push_async_callback(crew.kill)
            await crew.wait_up(2)
            url, tls_url = str(hub.endpoints[0]), str(hub.endpoints[1])
            way = await Way(hub.endpoints[0]).start()
            stack.push_async_callback(way.stop)
            cut_url = str(way.endpoint)
            async with asyncio.TaskGroup() as group:
                for number in range(_READERS):
                    is_secure = number % 3 == 0
                    group.create_task(
                        run.read(
                            tls_url if is_secure else url,
                            Reader(f"reader {number}"),
                            ca=authority.ca if is_secure else "",
                        )
                    )
                for number in range(_SLOW_READERS):
                    group.create_task(run.read(url, Reader(f"slow reader {number}"), pause_s=0.2))
                await asyncio.sleep(0.5)  # so that all have subscribed before the first message
                for number in range(_FOLLOWERS):
                    group.create_task(run.read(cut_url, Reader(f"follower {number}"), from_journal=True))
                for number in range(_PUBLISHERS):
                    group.create_task(run.publish(url, number))
                for work in (
                    run.churn(url), run.renew(hub, authority, tls_url), run.take_tier_away(tier), run.watch_memory(hub),
                    run.kill_workers(crew), run.confirm(f"tcp://127.0.0.1:{port}"), run.cut(way), show(run),
                ):  # fmt: skip
                    group.create_task(work)
            recorded = await values_in(f"unix://{folder}/crew.sock", "/confirmed")
            return report(run, recorded)


async def values_in(url: str, prefix: str) -> Counter[int]:
    async with connect(url) as client:
        return Counter([record.value async for record in client.read(prefix)])


async def show(run: Run) -> None:
    while await run.every(60):
        received = sum(reader.received for reader in run.readers)
        minutes = (time.monotonic() - run.begun_s) / 60
        print(f"{minutes:5.1f} min: {received:,} received, {run.memory[-1] / 1e6:,.1f} MB", flush=True)


def report(run: Run, recorded: Counter[int]) -> int:
    seconds = time.monotonic() - run.begun_s
    print(f"\n{'reader':<16}{'received':>14}{'missing':>12}{'reported':>12}{'repeated':>10}")
    for one in run.readers:
        print(f"{one.name:<16}{one.received:>14,}{one.missing:>12,}{one.reported:>12,}{one.repeated:>10,}")
    deliveries = sum(one.received for one in run.readers) / seconds
    steady = run.memory[len(run.memory) // 6 :] or [0]
    growth = max(steady[-60:]) / max(*steady[:60], 1) - 1
    lost = [number for number in run.confirmed if recorded[number] != 1]
    print(f"\n{deliveries:,.0f} deliveries/s over {seconds / 60:.1f} minutes")
    for name, count in run.counts.items():
        print(f"{count:,} {name}")
    print(f"{len(run.confirmed):,} confirmed messages, {len(lost):,} of them not exactly once in the journal")
    print(
        f"memory of the hub: {steady[0] / 1e6:.1f} MB after a sixth, {steady[-1] / 1e6:.1f} MB at the end: "
        f"{growth:+.1%}"
    )
    failed = [one.name for one in run.readers if one.silent]
    if failed or lost or growth > _GROWTH_LIMIT:
        print(f"soak: failed: {', '.join(failed) or 'memory or confirmations'}")
        return 1
    print("soak: nothing was lost without a report")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=5_000, help="messages a second of each of two publishers")
    faulthandler.register(signal.SIGUSR1)
    logging.disable()  # clients report each cut
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.minutes, given.rate)))
