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

import pytest

from hub.errors import CloseCode, RejectedError
from peers.client import QueueWish
from peers.client.client import Client
from tests.faults.kills import DEADLINE_S, NOWHERE, Ledger, RunningHub, frames_of, running_hub, topic_of, value_of

_SMALL = "16m"
_FILE_BYTES = 4 * 1024 * 1024
_BLOCK = bytes(64 * 1024)


class NotPermittedError(Exception):
    """This process may not mount anything; the text says why."""


class FillableDisk:
    reason = "the disk is full"  # what the hub says when there is no room

    def __init__(self, mount: Path, holder: int) -> None:
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        self.wrap = ("nsenter", f"--target={holder}", *user, "--mount", "--")
        """A command that starts the hub where it sees the disk."""
        self.journal = f"{mount}/journal"  # path of the journal, as the hub sees it
        self.outside = Path(f"/proc/{holder}/root{mount}")  # the disk, as this process sees it

    def take_room(self) -> None:
        with suppress(OSError), (self.outside / "filler").open("wb", buffering=0) as filler:
            while filler.write(_BLOCK) == len(_BLOCK):
                pass

    def free_room(self, pid: int = 0) -> None:  # noqa: ARG002 -- as of `LimitedFiles`
        (self.outside / "filler").unlink()

    def fetch(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.outside / "journal", folder / "fetched"))


class LimitedFiles:
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


ScarceDisk = FillableDisk | LimitedFiles  # where a journal is kept


@asynccontextmanager
async def small_disk(mount: Path, size: str = _SMALL) -> AsyncIterator[FillableDisk]:
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
_EACH_CONFIRMED = 5  # one of so many messages is published with confirmation
_BATCH_MESSAGES = 1_000


class Shortage(NamedTuple):
    recorded: int
    lost: int  # messages that are not recorded
    back_s: float  # from when there was room until the hub was ready


class Traffic:
    def __init__(self, client: Client, ledger: Ledger) -> None:
        self._client = client
        self._ledger = ledger
        self.refusals: list[RejectedError] = []  # of the last round

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

    async def commit(self) -> None:
        self._ledger.sent[_QUERY] = _BATCH_MESSAGES
        await self._client.stage("t", 0, frames_of(_QUERY, range(_BATCH_MESSAGES)))
        committed = await self._client.commit("t", [0], query=_QUERY, batch=0)
        assert (committed.messages, committed.again) == (_BATCH_MESSAGES, False)
        self._ledger.confirmed[_QUERY, 0] = committed.first


async def wait_ready(hub: RunningHub) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while (await hub.get("/readyz"))[0] != HTTPStatus.OK:
            pass


async def go_through(disk: ScarceDisk, folder: Path) -> Shortage:  # noqa: PLR0915 -- it is one story
    ledger = Ledger(may_lose=True)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        hub = await enter(running_hub(disk.journal, "--journal-compression", "none", wrap=disk.wrap))
        traffic = Traffic(await enter(hub.connect()), ledger)
        reader = await enter(hub.connect(_ROOMY))
        live = await enter(reader.subscribe("/load/", buffer_bytes=_ROOMY.bytes))
        news = await enter(reader.subscribe("$hub/journal"))

        async def received(name: str, numbers: range) -> None:
            async with asyncio.timeout(DEADLINE_S):
                for number in numbers:
                    message = await anext(live)
                    assert (message.topic, message.value) == (topic_of(name, number), value_of(name, number))

        async def announced(state: str) -> Any:
            async with asyncio.timeout(DEADLINE_S):
                message = await anext(news)
            assert message.value["state"] == state
            return message.value

        await traffic.round()
        assert not traffic.refusals
        assert (await hub.get("/readyz"))[0] == HTTPStatus.OK
        disk.take_room()
        async with asyncio.timeout(DEADLINE_S):
            while not traffic.refusals:
                await traffic.round()
        # Each confirmation is refused, with the reason, which is told everywhere.
        await traffic.round()
        assert len(traffic.refusals) == _ROUND_MESSAGES // _EACH_CONFIRMED
        assert {refusal.code for refusal in traffic.refusals} == {CloseCode.JOURNAL_FAILED}
        status, text = await hub.get("/readyz")
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        told = [refusal.text for refusal in traffic.refusals]
        with pytest.raises(RejectedError) as refused:
            await traffic.commit()
        told += [text, (await announced("failed"))["reason"], refused.value.text]
        assert all(disk.reason in each for each in told)
        # Messages go on; what is missing in the journal is counted.
        sent = ledger.sent[_NAME]
        await received(_NAME, range(sent))
        head = (await reader.journal()).head
        assert await hub.counter("hub_journal_lost_total") == sent - head
        assert len([record async for record in reader.read()]) == head
        disk.free_room(hub.process.pid)
        began_s = time.perf_counter()
        await wait_ready(hub)
        back_s = time.perf_counter() - began_s
        # All is as before.
        lost = await hub.counter("hub_journal_lost_total")
        recovered = await announced("recovered")
        assert (recovered["lost"], recovered["offset"]) == (lost, sent - lost)
        await traffic.round()
        assert not traffic.refusals
        await traffic.commit()
        await received(_NAME, range(sent, sent + _ROUND_MESSAGES))
        await received(_QUERY, range(_BATCH_MESSAGES))
        assert await hub.counter("hub_journal_lost_total") == lost
        await hub.stop()
    ledger.read(disk.fetch(folder))
    ledger.check_confirmed()
    assert ledger.offsets[_NAME].count(NOWHERE) == lost
    assert ledger.position == ledger.sent[_NAME] - lost + _BATCH_MESSAGES
    return Shortage(ledger.position, lost, back_s)
