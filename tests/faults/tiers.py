"""Tiers that can be spoiled, each in its own ways, and healed again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hub.errors import JournalUnavailableError
from hub.journal.block import Block
from peers.journal.history import History
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.files import TierFiles, data_name
from peers.journal.tier.place import place_at
from peers.journal.view import View
from tests.faults.kills import (
    DEADLINE_S,
    BatchWriter,
    Ledger,
    Moment,
    RunningHub,
    load,
    publish_confirmed,
    read_history,
    read_on,
    running_hub,
)
from tests.journal.tier.made import files_of

_FULL_BYTES = 16 * 1024  # longest file in a folder that is full: manifests are shorter, files of records are not
_CUT_BYTES = 200_000  # after fewer bytes than this a connection is cut where they are cut
_PIECE_BYTES = 64 * 1024

_UNAVAILABLE = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: 77\r\n\r\n"
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>x</Message></Error>"
)


class FolderTier:
    troubles = ("killed", "away", "full")

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tier"
        self._away = folder / "away"
        self._path.mkdir()
        self.address = str(self._path)
        self.place = place_at(self.address)

    def spoil(self, trouble: str, pid: int) -> None:
        if trouble == "killed":
            os.kill(pid, signal.SIGKILL)
        elif trouble == "away":
            self._path.rename(self._away)
        else:
            _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (_FULL_BYTES, most))

    def heal(self) -> None:
        if self._away.exists():
            self._away.rename(self._path)


class Proxy:
    def __init__(self, port: int, random: Random) -> None:
        self._server_port = port
        self._random = random
        self._mode = ""
        self._open: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            self._cut()
            await server.wait_closed()

    def set_mode(self, mode: str) -> None:
        self._mode = mode
        self._cut()

    def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            self._open.add(writer)
            try:
                await self._answer(reader, writer)
            finally:
                self._open.discard(writer)
                writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mode = self._mode
        is_spoiled = mode in {"away", "silent"} or (mode == "failing" and self._random.random() < 2 / 3)
        if is_spoiled:
            while mode == "silent" and await reader.read(_PIECE_BYTES):
                pass
            if mode == "failing" and await reader.read(_PIECE_BYTES):
                writer.write(_UNAVAILABLE)
                await writer.drain()
                writer.write_eof()
                await reader.read()
            return
        left = [self._random.randrange(_CUT_BYTES) if mode == "cut" else 1 << 60]
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._open.add(to_server)
        try:
            both = [
                asyncio.create_task(_pass(reader, to_server, left)),
                asyncio.create_task(_pass(from_server, writer, left)),
            ]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        finally:
            self._open.discard(to_server)
            to_server.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]) -> None:
    with contextlib.suppress(OSError):
        while left[0] > 0 and (piece := await reader.read(min(_PIECE_BYTES, left[0]))):
            left[0] -= len(piece)
            writer.write(piece)
            await writer.drain()


class BucketTier:
    troubles = ("killed", "away", "failing", "silent", "cut")

    def __init__(self, proxy: Proxy, port: int, name: str, region: str, server_port: int) -> None:
        self._proxy = proxy
        self.address = _address(name, region, port)
        self.place = place_at(_address(name, region, server_port))

    def spoil(self, trouble: str, pid: int) -> None:
        if trouble == "killed":
            os.kill(pid, signal.SIGKILL)
        else:
            self._proxy.set_mode(trouble)

    def heal(self) -> None:
        self._proxy.set_mode("")


def _address(name: str, region: str, port: int) -> str:
    return f"s3://{name}/some/prefix?endpoint=http://127.0.0.1:{port}&region={region}"


SpoiledTier = FolderTier | BucketTier


@asynccontextmanager
async def tier_of(kind: str, folder: Path, random: Random) -> AsyncIterator[SpoiledTier]:
    if kind == "folder":
        yield FolderTier(folder)
    else:
        from tests.journal.tier.made import REGION, Bucket

        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            os.environ.setdefault(name, "test")
        bucket = await asyncio.to_thread(Bucket)
        try:
            proxy = Proxy(bucket.port, random)
            async with proxy.serve() as port:
                yield BucketTier(proxy, port, bucket.name, REGION, bucket.port)
        finally:
            await asyncio.to_thread(bucket.server.stop)


STAGES = ("written", "named", "deleted")
"""When it goes wrong: once this life has written a file, named one in the manifest, deleted here what was copied."""

_KEEP = "2MiB"
_COPIES = b"peers.journal.tier.copier"
_LOOK_S = 0.02
_PAUSE_S = 0.3


class _Moments(Moment):
    def __init__(self, before: Moment, messages: int, suits: Callable[[], bool], act: Callable[[], None]) -> None:
        super().__init__(messages, suits, act)
        self._before = before

    def count(self, messages: int) -> None:
        if self._before.has_come:
            super().count(messages)
        else:
            self._before.count(messages)

    async def pause(self) -> None:
        if self._before.is_due:
            await asyncio.sleep(_PAUSE_S)


class TieredLives:
    def __init__(self, folder: Path, tier: SpoiledTier, random: Random, most_messages: int = 30_000) -> None:
        self._most_messages = most_messages
        self._looked_s = 0.0
        self.ledger = Ledger()
        self.path = folder / "journal"
        self.tier = tier
        self._writer = BatchWriter(self.ledger, "query", messages=3_000)
        self._random = random
        self._lives = 0

    async def live(self, trouble: str, stage: str) -> None:
        flags = ("--journal-tier", self.tier.address, "--journal-keep-bytes", _KEEP, "--journal-compression", "none")
        async with running_hub(self.path, *flags) as hub:
            await read_on(hub, self.ledger, f"{self._lives}.first")
            assert self._writer.recorded >= self._writer.next_batch
            await self._load(hub, trouble, stage)
        self.tier.heal()
        self._lives += 1

    async def _load(self, hub: RunningHub, trouble: str, stage: str) -> None:
        ledger, life = self.ledger, self._lives
        confirmed, done = len(ledger.confirmed), self._done(stage)

        def goes() -> bool:
            now_s = time.monotonic()
            if now_s < self._looked_s + _LOOK_S:  # a look at the tier takes longer than a message
                return False
            pid = _copier_of(hub)
            if pid is not None:  # it gives way to whatever else this machine does, for minutes
                with suppress(PermissionError, ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, pid, 0)
            is_so = pid is not None and self._done(stage) > done
            self._looked_s = time.monotonic()
            return is_so

        def suits() -> bool:
            return len(ledger.confirmed) > confirmed

        def spoil() -> None:
            nonlocal confirmed
            confirmed = len(ledger.confirmed)  # from here on some more must be, whatever becomes of the tier
            pid = _copier_of(hub)
            assert pid is not None
            self.tier.spoil(trouble, pid)

        before = Moment(self._random.randrange(1_000, self._most_messages), goes, spoil)
        moment = _Moments(before, self._random.randrange(1_000, self._most_messages), suits, hub.strike)
        work: list[Coroutine[Any, Any, None]] = [
            publish_confirmed(hub, ledger, f"{life}.one", moment, together=1),
            publish_confirmed(hub, ledger, f"{life}.many", moment, together=64),
            self._writer.write(hub, moment),
            read_history(hub, self._random.randrange(ledger.position + 1)),
        ]
        await load(hub, moment, work)

    def _done(self, stage: str) -> str:
        if stage == "deleted":
            return min(path.name for path in self.path.glob("*.seg"))
        place = self.tier.place
        if stage == "written":
            return max((name for journal in place.folders() for name in place.sizes(f"{journal}/data")), default="")
        held = [TierFiles(place, bytes.fromhex(journal)) for journal in place.folders()]
        for one in held:
            one.refresh()
        return max((f"{one.next:020}" for one in held if one.next is not None), default="")

    async def end(self) -> None:
        await self._copy_rest()
        self._read(self.ledger)
        self.ledger.check_confirmed()
        assert self._writer.recorded >= self._writer.next_batch
        again = Ledger()
        again.sent = self.ledger.sent
        self._read(again)
        assert again.offsets == self.ledger.offsets
        self._check_tier()

    async def _copy_rest(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                with suppress(JournalUnavailableError):
                    copier = Copier(str(self.path), self.tier.place, TierRetention(0, 0))
                    break
                await asyncio.sleep(_LOOK_S)
        with closing(copier):
            while copier.step(0):
                pass

    def _read(self, ledger: Ledger) -> None:
        with closing(History(str(self.path), self.tier.place.address)) as history:
            extent = history.fetch(0, None, ("",), 0).extent
            assert extent.first == 0
            while ledger.position < extent.next:
                found = history.fetch(ledger.position, None, ("",), 1 << 22)
                for data in found.blocks:
                    ledger.take(Block.parse(data))
                assert ledger.position == found.next

    def _check_tier(self) -> None:
        with closing(View(str(self.path))) as view:
            journal, sealed = view.id, view.firsts[-1]
            assert view.extent.first > 0, "nothing was deleted here"
        place = self.tier.place
        held = files_of(place, journal)
        entries = list(held.entries())
        assert [entry.first for entry in entries] == [0, *(entry.next for entry in entries[:-1])]
        assert entries[-1].next == sealed
        assert not any(entry.holes or held.flaw_of(entry) for entry in entries)
        names = {data_name(journal, entry) for entry in entries}
        assert {f"{journal.hex()}/data/{name}" for name in place.sizes(f"{journal.hex()}/data")} == names
        read = [pq.read_table(pa.BufferReader(place.read(name)), columns=["offset"]) for name in names]
        offsets = pa.concat_tables(read).column("offset").to_numpy()
        assert np.array_equal(np.sort(offsets), np.arange(sealed))


def _copier_of(hub: RunningHub) -> int | None:
    for children in Path(f"/proc/{hub.process.pid}/task").glob("*/children"):
        for pid in children.read_text().split():
            with suppress(OSError):
                if _COPIES in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return int(pid)
    return None
