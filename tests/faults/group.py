"""A group that consumes what a journal holds, while its members, the hub, and its workers are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from hub.messages.batch import Batch
from peers.client import ConnectionLostError, connect
from tests.daemon.hub_process import ROOT, HubProcess
from tests.forked.servers import python_path
from tests.hubs.ports import free_ports
from tests.workers.conftest import workers_of

NAME = "group"
MEMBERS = 4
KEYS = 64  # how many topics there are
DONE_S = 600.0  # when it stops waiting for the last message
_STAGED = 2_000  # so many messages are published together
_LOOK_S = 0.02


class Outcome(NamedTuple):
    worked: int  # messages that were worked on, those that came again included
    again: int  # how many of these were worked on before
    redelivered: int  # how many the members were told of that they are delivered again
    counted: int  # how many the last hub has counted of these


class Group:
    def __init__(self, folder: Path, messages: int, random: Random, workers: int = 0) -> None:
        self._messages = messages
        self._random = random
        self._journal = folder / "journal"
        self._workers = workers
        self._url = f"unix://{folder}/hub.sock"
        # Where members connect: Unix sockets are the core's.
        self._members_url = f"tcp://127.0.0.1:{free_ports(1)[0]}" if workers else self._url
        self._log = folder / "log"
        self._log.touch()
        self._counted_bytes = self._lines = 0  # how much of that was counted, and how many lines that is
        self._members: list[asyncio.subprocess.Process] = []
        self._hub: HubProcess
        self._counted = 0  # what the hub said last of how many were delivered again, since its start

    async def run(self, client_kills: int, hub_kills: int, worker_kills: int = 0) -> Outcome:
        await self._start_hub()
        try:
            await self._fill()
            for _ in range(MEMBERS):
                self._members.append(await self._start_member())
            await self._disturb(
                [self._kill_member] * client_kills + [self._kill_hub] * hub_kills + [self._kill_worker] * worker_kills
            )
            await self._wait_done()
        finally:
            for member in self._members:
                await _kill(member)
            await self._hub.kill()
        return self._check()

    async def _start_hub(self) -> None:
        urls = dict.fromkeys((self._url, self._members_url))
        flags = [flag for url in urls for flag in ("--listen", url)]
        flags += ["--journal", str(self._journal), "--log-level", "error"]  # nobody reads the log
        if self._workers:
            flags += ["--workers", str(self._workers)]
        self._hub = await HubProcess.start(flags, {})
        await self._hub.wait_up(len(urls))

    async def _start_member(self) -> asyncio.subprocess.Process:
        command = (sys.executable, "-m", "tests.faults.consuming", self._members_url, NAME, str(self._log))
        return await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=os.environ | python_path())

    async def _fill(self) -> None:
        async with connect(self._url) as client:
            async with client.consume(NAME, "/", from_offset=0, redeliver_s=60.0):
                pass
            for start in range(0, self._messages, _STAGED):
                numbers = range(start, min(start + _STAGED, self._messages))
                frames = b"".join(
                    Batch.of(f"/{number % KEYS}", [(number % KEYS, number // KEYS)]).frames for number in numbers
                )
                await client.stage(str(start), 0, frames)
                await client.commit(str(start), [0])

    async def _disturb(self, kills: list[Callable[[], Awaitable[None]]]) -> None:
        self._random.shuffle(kills)
        part = self._messages // (len(kills) + 2)
        for number, kill in enumerate(kills, 1):
            await self._wait_worked(number * part)
            await kill()

    async def _kill_member(self) -> None:
        place = self._random.randrange(MEMBERS)
        await _kill(self._members[place])
        self._members[place] = await self._start_member()

    async def _kill_hub(self) -> None:
        workers = workers_of(self._hub.pid)
        self._hub.signal(signal.SIGKILL)
        await self._hub.kill()
        while any(map(_runs, workers)):  # noqa: ASYNC110 -- they end with their core, and hold its port until then
            await asyncio.sleep(_LOOK_S)
        await self._start_hub()

    async def _kill_worker(self) -> None:
        async with asyncio.timeout(DONE_S):
            while not (running := workers_of(self._hub.pid)):  # noqa: ASYNC110 -- another process tells nobody
                await asyncio.sleep(_LOOK_S)
        with suppress(ProcessLookupError):
            os.kill(self._random.choice(sorted(running)), signal.SIGKILL)

    async def _wait_worked(self, lines: int) -> None:
        async with asyncio.timeout(DONE_S):
            while self._worked() < lines:  # noqa: ASYNC110 -- a file tells nobody
                await asyncio.sleep(_LOOK_S)

    def _worked(self) -> int:
        with self._log.open("rb") as log:
            log.seek(self._counted_bytes)
            news = log.read()
        self._counted_bytes += len(news)
        self._lines += news.count(b"\n")
        return self._lines

    async def _wait_done(self) -> None:
        async with asyncio.timeout(DONE_S):
            while self._worked() < self._messages or not await self._is_done():  # noqa: ASYNC110 -- another process tells nobody
                await asyncio.sleep(_LOOK_S)

    async def _is_done(self) -> bool:
        with suppress(ConnectionLostError):
            async with connect(self._url, reconnect=False) as client:
                (row,) = await client.request("$hub/consumers", None)
                self._counted = row["counters"]["redelivered_total"]
                return bool(row["position"] >= self._messages)
        return False

    def _check(self) -> Outcome:
        following = [0] * KEYS
        worked = again = redelivered = 0
        for line in self._log.read_text().splitlines():
            key, number, deliveries = map(int, line.split())
            worked += 1
            redelivered += deliveries > 1
            assert number <= following[key], f"key {key}: {number} before {following[key]}"
            again += number < following[key]
            following[key] = max(following[key], number + 1)
        assert following == [len(range(key, self._messages, KEYS)) for key in range(KEYS)]
        assert worked == self._messages + again
        return Outcome(worked, again, redelivered, self._counted)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def _kill(member: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        member.kill()
    await member.wait()
