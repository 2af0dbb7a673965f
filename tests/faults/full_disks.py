"""Disks on which a journal has no room any more, until it is given some."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from hub.errors import CloseCode, RejectedError
from peers.client import MessageStream, QueueWish
from peers.client.client import Client
from tests.faults.kills import DEADLINE_S, NOWHERE, Ledger, RunningHub, frames_of, running_hub, topic_of, value_of

_SMALL = "16m"
_FILE_BYTES = 4 * 1024 * 1024
_BLOCK = bytes(64 * 1024)


class NotPermittedError(Exception):
    """This process may not mount anything; the text says why."""


class FillableDisk:
    """A tmpfs, which something else fills, and is removed."""

    reason = "the disk is full"
    """What the hub says when there is no room."""

    def __init__(self, mount: Path, holder: int) -> None:
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        self.wrap = ("nsenter", f"--target={holder}", *user, "--mount", "--")
        """A command that starts the hub where it sees the disk."""
        self.journal = f"{mount}/journal"
        """Path of the journal, as the hub sees it."""
        self.outside = Path(f"/proc/{holder}/root{mount}")
        """The disk, as this process sees it."""

    def take_room(self) -> None:
        with suppress(OSError), (self.outside / "filler").open("wb", buffering=0) as filler:
            while filler.write(_BLOCK) == len(_BLOCK):
                pass

    def free_room(self, pid: int = 0) -> None:  # noqa: ARG002 -- as of `LimitedFiles`
        (self.outside / "filler").unlink()

    def fetch(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.outside / "journal", folder / "fetched"))


class LimitedFiles:
    """The hub may write files of a few mebibytes only, an error without any privileges: the journal takes the room."""

    reason = "File too large"
    wrap = ("prlimit", f"--fsize={_FILE_BYTES}:", "--")

    def __init__(self, folder: Path) -> None:
        self.journal = f"{folder}/journal"

    def take_room(self) -> None:
        pass

    def free_room(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE))

    def fetch(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.journal, folder / "fetched"))


ScarceDisk = FillableDisk | LimitedFiles
"""Where a journal is kept."""


@asynccontextmanager
async def small_disk(mount: Path, size: str = _SMALL) -> AsyncIterator[FillableDisk]:
    """Mount a small disk, of a size as `mount` has it, on a folder, for those alone who enter its namespace."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    script = f'mount -t tmpfs -o size={size} topichub "$1" && echo ready && exec cat'
    command = ("unshare", *user, "--mount", "sh", "-c", script, "sh", str(mount))
    pipe = asyncio.subprocess.PIPE
    try:
        holder = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    except FileNotFoundError as error:
        raise NotPermittedError(str(error)) from error
    try:
        assert holder.stdout is not None
        ready = await asyncio.wait_for(holder.stdout.readline(), DEADLINE_S)
        if ready != b"ready\n":
            _, text = await holder.communicate()
            raise NotPermittedError(text.decode().strip())
        yield FillableDisk(mount, holder.pid)
    finally:
        if holder.returncode is None:
            await holder.communicate(b"")  # its input ends, and so does it


_ROOMY = QueueWish(1_000_000, 256 * 1024 * 1024)
_NAME = "some"
_QUERY = "query"
_ROUND_MESSAGES = 500
_EACH_CONFIRMED = 5
"""One of so many messages is published with confirmation."""

_BATCH_MESSAGES = 1_000


class Shortage(NamedTuple):
    """What one has cost."""

    recorded: int
    lost: int
    """Messages that are not recorded."""
    back_s: float
    """From when there was room until the hub was ready."""


class Traffic:
    """A publisher whose messages are confirmed now and then, and a subscriber who must get all of them."""

    def __init__(self, client: Client, ledger: Ledger) -> None:
        self._client = client
        self._ledger = ledger
        self.refusals: list[RejectedError] = []
        """Of the last round."""

    async def round(self) -> None:
        ledger, client = self._ledger, self._client
        numbers = range(ledger.sent[_NAME], ledger.sent[_NAME] + _ROUND_MESSAGES)
        ledger.sent[_NAME] += _ROUND_MESSAGES
        asked: dict[int, asyncio.Task[int]] = {}
        for number in numbers:
            topic, value = topic_of(_NAME, number), value_of(_NAME, number)
            if number % _EACH_CONFIRMED:
                await client.publish(topic, value)
            else:
                asked[number] = asyncio.create_task(client.publish_confirmed(topic, value))
                await asyncio.sleep(0)  # so that it is published in its turn
        self.refusals = []
        for number, task in asked.items():
            try:
                ledger.confirmed[_NAME, number] = await task
            except RejectedError as error:
                self.refusals.append(error)

    async def commit_in_vain(self) -> RejectedError:
        try:
            await self.commit()
        except RejectedError as error:
            return error
        raise AssertionError("the batch was committed")

    async def commit(self) -> None:
        self._ledger.sent[_QUERY] = _BATCH_MESSAGES
        await self._client.stage("t", 0, frames_of(_QUERY, range(_BATCH_MESSAGES)))
        committed = await self._client.commit("t", [0], query=_QUERY, batch=0)
        assert (committed.messages, committed.again) == (_BATCH_MESSAGES, False)
        self._ledger.confirmed[_QUERY, 0] = committed.first


async def _received(stream: MessageStream, name: str, numbers: range) -> None:
    """See that a subscriber gets exactly these, next and in order."""
    async with asyncio.timeout(DEADLINE_S):
        for number in numbers:
            message = await anext(stream)
            assert (message.topic, message.value) == (topic_of(name, number), value_of(name, number))


async def _announced(stream: MessageStream, state: str) -> Any:
    """Return what the hub says of its journal next."""
    async with asyncio.timeout(DEADLINE_S):
        message = await anext(stream)
    assert message.value["state"] == state
    return message.value


async def wait_ready(hub: RunningHub) -> None:
    """Wait until the hub says that it is."""
    async with asyncio.timeout(DEADLINE_S):
        while (await hub.get("/readyz"))[0] != HTTPStatus.OK:
            pass


class _Scene:
    """A hub on a scarce disk, with who publishes, who subscribes and who keeps the books."""

    def __init__(self, disk: ScarceDisk) -> None:
        self.disk = disk
        self.ledger = Ledger(may_lose=True)
        self.hub: RunningHub
        self.traffic: Traffic
        self._reader: Client
        self._live: MessageStream
        self._news: MessageStream

    async def open(self, stack: AsyncExitStack) -> None:
        enter = stack.enter_async_context
        self.hub = await enter(running_hub(self.disk.journal, "--journal-compression", "none", wrap=self.disk.wrap))
        self.traffic = Traffic(await enter(self.hub.connect()), self.ledger)
        self._reader = await enter(self.hub.connect(_ROOMY))
        self._live = await enter(self._reader.subscribe("/load/", buffer_bytes=_ROOMY.bytes))
        self._news = await enter(self._reader.subscribe("$hub/journal"))

    async def fill(self) -> None:
        await self.traffic.round()
        assert not self.traffic.refusals
        assert (await self.hub.get("/readyz"))[0] == HTTPStatus.OK
        self.disk.take_room()
        async with asyncio.timeout(DEADLINE_S):
            while not self.traffic.refusals:
                await self.traffic.round()

    async def check_refusals(self) -> None:
        reason = self.disk.reason
        await self.traffic.round()
        assert len(self.traffic.refusals) == _ROUND_MESSAGES // _EACH_CONFIRMED
        for refusal in self.traffic.refusals:
            assert refusal.code == CloseCode.JOURNAL_FAILED
            assert reason in refusal.text
        status, text = await self.hub.get("/readyz")
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        assert reason in text
        assert reason in (await _announced(self._news, "failed"))["reason"]
        refusal = await self.traffic.commit_in_vain()
        assert reason in refusal.text

    async def check_service(self) -> None:
        sent = self.ledger.sent[_NAME]
        await _received(self._live, _NAME, range(sent))
        head = (await self._reader.journal()).head
        assert await self.hub.counter("hub_journal_lost_total") == sent - head
        assert len([record async for record in self._reader.read()]) == head

    async def make_room(self) -> float:
        self.disk.free_room(self.hub.process.pid)
        began_s = time.perf_counter()
        await wait_ready(self.hub)
        return time.perf_counter() - began_s

    async def check_recovery(self) -> int:
        sent = self.ledger.sent[_NAME]
        lost = await self.hub.counter("hub_journal_lost_total")
        recovered = await _announced(self._news, "recovered")
        assert (recovered["lost"], recovered["offset"]) == (lost, sent - lost)
        await self.traffic.round()
        assert not self.traffic.refusals
        await self.traffic.commit()
        await _received(self._live, _NAME, range(sent, sent + _ROUND_MESSAGES))
        await _received(self._live, _QUERY, range(_BATCH_MESSAGES))
        assert await self.hub.counter("hub_journal_lost_total") == lost
        return lost

    def check_file(self, path: Path, lost: int) -> None:
        ledger = self.ledger
        ledger.read(path)
        ledger.check_confirmed()
        assert ledger.offsets[_NAME].count(NOWHERE) == lost
        assert ledger.position == ledger.sent[_NAME] - lost + _BATCH_MESSAGES


async def go_through(disk: ScarceDisk, folder: Path) -> Shortage:
    """Play all of it."""
    scene = _Scene(disk)
    async with AsyncExitStack() as stack:
        await scene.open(stack)
        await scene.fill()
        await scene.check_refusals()
        await scene.check_service()
        back_s = await scene.make_room()
        lost = await scene.check_recovery()
        await scene.hub.stop()
        scene.check_file(disk.fetch(folder), lost)
    return Shortage(scene.ledger.position, lost, back_s)
