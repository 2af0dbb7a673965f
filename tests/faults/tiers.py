"""Tiers that can be spoiled, each in its own ways, and healed again.

```
FolderTier    a folder: moved away; files may not become longer in the process that copies
DiskTier      a folder on a small disk of its own, which something else fills
BucketTier    hub ─▶ proxy ─▶ server of S3: refuses, answers 503, late, or never; cuts connections in the midst
```

Each also has its copying process killed. What the test itself reads does not go through what was spoiled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Protocol

from peers.journal.tier.place import Place, place_at
from tests.faults.full_disks import FillableDisk, small_disk

__all__ = ["BucketTier", "DiskTier", "FolderTier", "Proxy", "SpoiledTier", "tier_of"]

_FULL_BYTES = 16 * 1024
"""Longest file in a folder that is full: manifests are shorter, files of records are not."""

_DISK = "128m"
"""How large a small disk is: more than what is copied there in a soak."""

_LATE_S = 0.3
"""How late each piece of an answer comes where the server is slow, seconds."""

_CUT_BYTES = 200_000
"""After fewer bytes than this a connection is cut where they are cut."""

_PIECE_BYTES = 64 * 1024

_UNAVAILABLE = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: 77\r\n\r\n"
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>x</Message></Error>"
)


class SpoiledTier(Protocol):
    troubles: tuple[str, ...]
    """What `spoil` can do."""
    address: str
    """As the hub is told it."""
    wrap: tuple[str, ...]
    """A command that starts the hub where it sees the tier."""
    place: Place
    """As the test sees it, whatever was spoiled."""

    def spoil(self, trouble: str, pid: int) -> None:
        pass

    def heal(self) -> None:
        pass


class FolderTier:
    troubles = ("killed", "away", "full")
    wrap: tuple[str, ...] = ()

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


class DiskTier:
    """A folder on a disk of its own.

    Args:
        disk: It.
        mount: Where the hub sees it.
    """

    troubles = ("no room",)

    def __init__(self, disk: FillableDisk, mount: Path) -> None:
        self._disk = disk
        self._is_full = False
        self.wrap = disk.wrap
        self.address = f"{mount}/tier"
        outside = disk.outside / "tier"
        outside.mkdir()
        self.place = place_at(str(outside))

    def spoil(self, trouble: str, pid: int) -> None:  # noqa: ARG002 -- as `SpoiledTier`
        self._disk.take_room()
        self._is_full = True

    def heal(self) -> None:
        if self._is_full:
            self._disk.free_room()
            self._is_full = False


class Proxy:
    """Stands between hub and server, byte for byte, unless it is told otherwise.

    Args:
        port: Of the server, on this machine.
        random: Decides where connections are cut.
    """

    def __init__(self, port: int, random: Random) -> None:
        self._server_port = port
        self._random = random
        self._mode = ""
        self._open: set[asyncio.StreamWriter] = set()
        self.refused = 0
        """How many connections were refused, answered 503, not answered, or cut."""

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
        """Be `away`, `failing`, `silent`, `slow` or `cut` from now on; empty: be well. What is connected is cut."""
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
        self.refused += is_spoiled or mode == "cut"
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
        late_s = _LATE_S if mode == "slow" else 0.0
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._open.add(to_server)
        try:
            both = [
                asyncio.create_task(_pass(reader, to_server, left, 0.0)),
                asyncio.create_task(_pass(from_server, writer, left, late_s)),
            ]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        finally:
            self._open.discard(to_server)
            to_server.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int], late_s: float) -> None:
    """Hand on what comes, until one side has ended, or no bytes are left that both directions may take."""
    with contextlib.suppress(OSError):
        while left[0] > 0 and (piece := await reader.read(min(_PIECE_BYTES, left[0]))):
            left[0] -= len(piece)
            if late_s:
                await asyncio.sleep(late_s)
            writer.write(piece)
            await writer.drain()


class BucketTier:
    """A bucket behind a proxy.

    Args:
        proxy: What stands between.
        port: Of the proxy.
        name: Of the bucket.
        region: The same.
        server_port: Of the server.
    """

    troubles = ("killed", "away", "failing", "silent", "slow", "cut")
    wrap: tuple[str, ...] = ()

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


@asynccontextmanager
async def tier_of(kind: str, folder: Path, random: Random) -> AsyncIterator[SpoiledTier]:
    """Make a tier for as long as the block lasts.

    Args:
        kind: `folder`, `disk` or `bucket`.
        folder: Where it may stand.
        random: Decides what it does.

    Raises:
        NotPermittedError: `disk`: this process may not mount one.
    """
    if kind == "folder":
        yield FolderTier(folder)
    elif kind == "disk":
        mount = folder / "disk"
        mount.mkdir()
        async with small_disk(FillableDisk, mount, _DISK) as disk:
            assert isinstance(disk, FillableDisk)
            yield DiskTier(disk, mount)
    else:
        from tests.journal.tier.servers import REGION, Bucket

        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            os.environ.setdefault(name, "test")
        bucket = await asyncio.to_thread(Bucket)
        try:
            proxy = Proxy(bucket.port, random)
            async with proxy.serve() as port:
                yield BucketTier(proxy, port, bucket.name, REGION, bucket.port)
        finally:
            await asyncio.to_thread(bucket.server.stop)
