"""Disks on which a journal has no room any more, until it is given some.

```
SmallDisk     a tmpfs in a mount namespace of its own: grows by a remount, or by removing what else fills it
LimitedFiles  a process that may not write larger files: an I/O error, without any privileges
```
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from tests.faults.hubs import DEADLINE_S

__all__ = ["FillableDisk", "GrowingDisk", "LimitedFiles", "NotPermittedError", "ScarceDisk", "small_disk"]

_SMALL = "16m"
_LARGE = "64m"
_FILE_BYTES = 4 * 1024 * 1024
_BLOCK = bytes(64 * 1024)


class NotPermittedError(Exception):
    """This process may not mount anything; the text says why."""


class ScarceDisk(Protocol):
    """Where a journal is kept."""

    reason: str
    """What the hub says when there is no room."""

    @property
    def wrap(self) -> tuple[str, ...]:
        """A command that starts the hub where it sees the disk."""

    @property
    def journal(self) -> str:
        """Path of the journal, as the hub sees it."""

    async def fill(self) -> None:
        """Take the room, as far as the journal will not take it itself."""

    async def make_room(self, pid: int) -> None:
        """Give the hub more room."""

    def fetch(self, folder: Path) -> Path:
        """Copy the journal, of a hub that has stopped, into a folder; return its path."""


class _SmallDisk:
    """A tmpfs; `holder` keeps its namespace alive."""

    reason = "the disk is full"

    def __init__(self, mount: Path, holder: int) -> None:
        self._mount = mount
        self._holder = holder

    @property
    def wrap(self) -> tuple[str, ...]:
        """Enter the namespace."""
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        return ("nsenter", f"--target={self._holder}", *user, "--mount", "--")

    @property
    def journal(self) -> str:
        """Path of the journal, as the hub sees it."""
        return f"{self._mount}/journal"

    @property
    def outside(self) -> Path:
        """The disk, as this process sees it."""
        return Path(f"/proc/{self._holder}/root{self._mount}")

    def fetch(self, folder: Path) -> Path:
        """Copy the journal."""
        return Path(shutil.copytree(self.outside / "journal", folder / "fetched"))


class GrowingDisk(_SmallDisk):
    """The journal itself fills it; it is made larger."""

    async def fill(self) -> None:
        """Leave that to the journal."""

    async def make_room(self, pid: int) -> None:  # noqa: ARG002 -- as `ScarceDisk`
        """Mount it again, larger."""
        command = (*self.wrap, "mount", "-o", f"remount,size={_LARGE}", str(self._mount))
        process = await asyncio.create_subprocess_exec(*command)
        assert await process.wait() == 0


class FillableDisk(_SmallDisk):
    """Something else fills it, and is removed."""

    async def fill(self) -> None:
        """Write a file until there is no room."""
        self.take_room()

    def take_room(self) -> None:
        """The same, for who cannot wait."""
        with suppress(OSError), (self.outside / "filler").open("wb", buffering=0) as filler:
            while filler.write(_BLOCK) == len(_BLOCK):
                pass

    async def make_room(self, pid: int) -> None:  # noqa: ARG002 -- as `ScarceDisk`
        """Remove that file."""
        self.free_room()

    def free_room(self) -> None:
        """The same, for who cannot wait."""
        (self.outside / "filler").unlink()


class LimitedFiles:
    """The hub may write files of a few mebibytes only.

    Args:
        folder: Of the journal.
    """

    reason = "File too large"
    wrap = ("prlimit", f"--fsize={_FILE_BYTES}:", "--")

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def journal(self) -> str:
        """Path of the journal."""
        return str(self._folder / "journal")

    async def fill(self) -> None:
        """Leave that to the journal."""

    async def make_room(self, pid: int) -> None:
        """Allow the hub what this process may."""
        resource.prlimit(pid, resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE))

    def fetch(self, folder: Path) -> Path:
        """Copy the journal."""
        return Path(shutil.copytree(self.journal, folder / "fetched"))


@asynccontextmanager
async def small_disk(
    kind: type[GrowingDisk | FillableDisk], mount: Path, size: str = _SMALL
) -> AsyncIterator[GrowingDisk | FillableDisk]:
    """Mount a small disk on a folder, for those alone who enter its namespace.

    Args:
        kind: How it gets more room.
        mount: The folder.
        size: How large it is, as `mount` has it.

    Raises:
        NotPermittedError: That is not allowed here.
    """
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
        yield kind(mount, holder.pid)
    finally:
        if holder.returncode is None:
            await holder.communicate(b"")  # its input ends, and so does it
