"""`replay`: an archive back to a hub.

Order: that of the offsets. How often: at most once, as publishing is. A replay that is broken off tells the offset to
go on from, behind which nothing was sent; what was sent before it has reached the hub, but for what was on its way when
the connection was lost.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from hub.errors import PeerError, UsageError
from peers.client import connect
from peers.client.token_source import read_token
from peers.spark.archive_files import decoded_state, read_archive
from peers.spark.replaying.pace import FullSpeed, Pace
from peers.spark.replaying.publishing import Published, Publishing, StoppedError, Watching
from peers.spark.replaying.windows import Extent, extent_of, windows
from peers.spark.selection import EVERYTHING, Selection

if TYPE_CHECKING:
    import pyarrow as pa

    from peers.spark.session import Job

__all__ = ["ReplayOrder", "Replayed", "replay"]


@dataclass(frozen=True, kw_only=True)
class ReplayOrder:
    """What is to be replayed, and how."""

    url: str
    path: str
    selection: Selection = EVERYTHING
    from_offset: int = 0
    pace: Pace = field(default_factory=FullSpeed)
    name: str = "hub spark replay"
    token: str = field(default="", repr=False)
    token_file: str = ""
    """In place of the token: the path of a file with it."""
    ca: str = ""
    certificate: str = ""
    key: str = ""


@dataclass(frozen=True)
class Replayed:
    """What was done."""

    extent: Extent
    published: Published
    rejected: int
    """Messages that were sent and that the hub refused."""
    elapsed_s: float
    ending: str
    """Why it is not all; empty if it is."""


def replay(
    job: Job,
    order: ReplayOrder,
    every: Callable[[Published, Extent], object] = lambda _, __: None,
    stop: threading.Event | None = None,
) -> Replayed:
    """Publish an archive.

    Args:
        job: Where it is read.
        order: What is to be done.
        every: Called with how far it is, now and then.
        stop: Set when it is to end.

    Raises:
        UsageError: There is no such archive, or it is a decoded one.
        PeerError: There is no connection to the hub.
        PySparkException: Spark gave up.
    """
    if decoded_state(order.path) is not None:
        raise UsageError(f"{order.path} was archived with --decode: its messages are not there as they came")
    frame = read_archive(job.spark, order.path, order.selection).where(F.col("offset") >= order.from_offset)
    job.progress.tell("counting")
    extent = extent_of(frame)
    done = Published(next=extent.first)
    job.progress.tell("publishing")
    begun_s = time.monotonic()
    told = Watching(lambda: every(done, extent), stop or threading.Event())
    ending, rejected = asyncio.run(_publish(order, windows(frame, extent), done, told))
    return Replayed(extent, done, rejected, time.monotonic() - begun_s, ending)


async def _publish(
    order: ReplayOrder, tables: Iterator[pa.Table], done: Published, watching: Watching
) -> tuple[str, int]:
    """Return why it is not all, and how many messages were refused."""
    ending = ""
    async with connect(
        order.url,
        name=order.name,
        token=partial(read_token, order.token_file) if order.token_file else order.token,
        ca=order.ca,
        certificate=order.certificate,
        key=order.key,
        reconnect=False,
    ) as client:
        publishing = Publishing(client, order.pace, done, watching)
        try:
            async for table in _ahead(tables):
                await publishing.publish(table)
            await client.drain()
        except StoppedError:
            ending = "stopped"
        except PeerError as error:
            ending = str(error)
    return ending, client.statistics().rejected_messages


async def _ahead(tables: Iterator[pa.Table]) -> AsyncIterator[pa.Table]:
    """Yield windows without keeping the loop from reading and answering."""
    loop = asyncio.get_running_loop()
    while (table := await loop.run_in_executor(None, next, tables, None)) is not None:
        yield table
