"""`hub store export`: all entries of a store as JSON lines, which `hub store import` reads.

Entries are read in pages while others write: one that is there all the time is among them, once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated

from cyclopts import Parameter

from hub.errors import UsageError
from peers.cli.lines import STDIN
from peers.cli.notices import Notices
from peers.cli.output import Output
from peers.cli.progress import Progress, shown_progress
from peers.cli.store.entry import line_of, now
from peers.cli.store.opening import opened_store
from peers.cli.texts import escaped_lines
from peers.cli.url import HubFlags

__all__ = ["export"]

_PIECE_BYTES = 64 * 1024
"""So much is written at once."""


def export(
    name: Annotated[str, Parameter(help="What the store is called.")],
    path: Annotated[
        str, Parameter(help="A file, which is written anew; - for standard output.", allow_leading_hyphen=True)
    ] = STDIN,
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    prefix: Annotated[str, Parameter(help="Only keys that are text and begin like that.")] = "",
) -> None:
    """Write the entries of a store as JSON lines: key, value, version, expires.

    Shows how far it is, where standard error is a terminal and the lines go elsewhere.
    """
    with _target(path) as descriptor:
        written = asyncio.run(_export(name, prefix, hub, descriptor))
    if path != STDIN:
        print(f"{written:,} of {name} written to {path}")


async def _export(name: str, prefix: str, hub: HubFlags, descriptor: int) -> int:
    output = Output(descriptor)
    escape = escaped_lines if os.isatty(descriptor) else bytes
    piece = bytearray()
    written = 0
    async with opened_store(name, hub, Notices("store export")) as store:
        total = None if prefix else (await store.state()).entries

        def progress() -> Progress:
            return Progress(f"{written:,} written", written, total)

        # A bar would stand among the lines.
        async with nullcontext() if os.isatty(descriptor) else shown_progress(progress):
            async for entry in store.entries(prefix):
                piece += line_of(entry, now())
                written += 1
                if len(piece) >= _PIECE_BYTES:
                    await output.write(escape(bytes(piece)))
                    piece.clear()
    await output.write(escape(bytes(piece)))
    await output.flush()
    return written


@contextmanager
def _target(path: str) -> Iterator[int]:
    """Have a file open for as long as the block lasts.

    Raises:
        UsageError: It cannot be opened, or not be written.
    """
    if path == STDIN:
        sys.stdout.flush()
        yield sys.stdout.fileno()
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)
