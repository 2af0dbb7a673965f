"""Replay: an archive back to a hub, in the order of the offsets, at a pace. It needs no Spark.

Values are not decoded; one that is no msgpack is skipped and counted, for within a batch it would spoil its neighbours.
A replay that ends early reports the offset to continue from: nothing behind it was sent; messages before it are in the
hub, but for those on their way when the connection was lost. Cost: about 1 µs a message.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hub.errors import InvalidTopicError, PeerError, RejectedError, UsageError
from peers.client import Client, connect
from peers.spark.archiving.folders import EVERYTHING, Selection, decoded_state, files_of, microseconds
from peers.spark.connector.options import Access
from peers.values.conversion import is_value

# Limits of a window; two are held at a time.
_WINDOW_MESSAGES = 500_000
_WINDOW_BYTES = 64 * 1024 * 1024

# Messages that are due within this time are sent together.
_TICK_S = 0.01

# How often a long pause looks whether to stop.
_LOOK_S = 0.2

# How far a replay may fall behind its schedule and still catch up; a longer stall is forgotten.
_CATCH_UP_S = 1.0

# Progress is reported after so many messages.
_REPORTED_MESSAGES = 10_000

_US = 1_000_000
_COLUMNS = ["offset", "timestamp", "topic", "value"]


class Pace:
    """When messages are due, in seconds since the replay began; at once without `speed` and `rate`.

    A hub's clock may have been set back: messages that seem older than those before follow without a pause.
    """

    def __init__(self, *, speed: float | None = None, rate: float | None = None, max_pause_s: float = 60.0) -> None:
        self._speed = speed
        self._rate = rate
        self._max_pause_s = max_pause_s
        self._count = 0
        self._latest_us: int | None = None
        self._due_s = 0.0

    def due_s(self, times_us: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return when the next messages are due that were recorded at these times, ascending."""
        if self._rate is not None:
            numbers = np.arange(self._count, self._count + len(times_us))
            self._count += len(times_us)
            return numbers / self._rate
        if self._speed is None or not len(times_us):
            return np.zeros(len(times_us))
        first = int(times_us[0]) if self._latest_us is None else self._latest_us
        latest = np.maximum.accumulate(np.concatenate([[first], times_us]))
        pauses = np.minimum(np.diff(latest) / _US / self._speed, self._max_pause_s)
        due = self._due_s + np.cumsum(pauses)
        self._latest_us, self._due_s = int(latest[-1]), float(due[-1])
        return due


@dataclass
class Replay:
    """How far a replay is, or has come."""

    first: int = 0
    last: int = -1
    next: int = 0
    messages: int = 0
    bytes: int = 0
    skipped: int = 0
    """No msgpack."""
    rejected: int = 0
    """Too large for the hub, of a topic of its own, or refused by it."""
    elapsed_s: float = 0.0
    ending: str = ""
    """Why it is not all; empty if it is."""


class _StoppedError(Exception):
    pass


def replay(  # noqa: PLR0913 -- the parts of a replay
    access: Access,
    path: str,
    selection: Selection = EVERYTHING,
    *,
    from_offset: int = 0,
    pace: Pace | None = None,
    every: Callable[[Replay], object] = lambda _: None,
    stop: threading.Event | None = None,
) -> Replay:
    """Publish an archive from an offset on, until `stop` is set; `every` is called now and then.

    Raises:
        UsageError: There is no such archive, or it is a decoded one.
        PeerError: The hub cannot be reached.
    """
    if decoded_state(path) is not None:
        raise UsageError(f"{path} was archived with --decode: its messages are not there as they came")
    groups = [group for group in _groups(files_of(path, selection)) if group.next > from_offset]
    begin, end = min((one.first for one in groups), default=0), max((one.next for one in groups), default=0)
    begin = max(begin, from_offset) if groups else begin
    done = Replay(begin, end - 1, begin)
    begun_s = time.monotonic()
    asyncio.run(_Publishing(done, pace or Pace(), every, stop or threading.Event()).run(access, groups, selection))
    done.elapsed_s = time.monotonic() - begun_s
    return done


class _Group(NamedTuple):
    first: int
    next: int
    rows: int
    size_bytes: int
    path: str
    number: int


def _groups(paths: Sequence[str]) -> Iterator[_Group]:
    for path in paths:
        metadata = pq.read_metadata(path)
        column = metadata.schema.to_arrow_schema().get_field_index("offset")
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            found = group.column(column).statistics
            yield _Group(found.min, found.max + 1, group.num_rows, group.total_byte_size, path, number)


def _cuts(groups: Sequence[_Group], start: int) -> list[int]:
    """Return the offsets between which windows are, taking the messages of a group for evenly spread."""
    changes: defaultdict[int, float] = defaultdict(float)
    for group in groups:
        load = max(group.rows / _WINDOW_MESSAGES, group.size_bytes / _WINDOW_BYTES) / (group.next - group.first)
        changes[group.first] += load
        changes[group.next] -= load
    cuts: list[int] = []
    load = filled = 0.0
    for begin, end in pairwise(sorted(changes)):
        load += changes[begin]
        at = begin
        while filled + load * (end - at) > 1:
            at = min(end, at + max(1, int((1 - filled) / load)))
            cuts.append(at)
            filled = 0.0
        filled += load * (end - at)
    ends = [start, *(cut for cut in cuts if cut > start), max((group.next for group in groups), default=start)]
    return sorted(set(ends))


def _windows(groups: Sequence[_Group], selection: Selection, start: int) -> Iterator[pa.Table]:
    """Yield the selected messages in windows, each sorted by offset."""
    for begin, end in pairwise(_cuts(groups, start)):
        tables = [_read(group, selection, begin, end) for group in groups if group.first < end and group.next > begin]
        if tables:
            yield pa.concat_tables(tables).sort_by("offset")


def _read(group: _Group, selection: Selection, begin: int, end: int) -> pa.Table:
    with pq.ParquetFile(group.path) as file:
        table = file.read_row_group(group.number, columns=_COLUMNS)
    wanted = (pc.field("offset") >= begin) & (pc.field("offset") < end)
    for bound, is_start in ((selection.start, True), (selection.end, False)):
        if bound is not None:
            time_us = pc.scalar(microseconds(bound)).cast(pa.timestamp("us", "UTC"))
            wanted &= pc.field("timestamp") >= time_us if is_start else pc.field("timestamp") < time_us
    if selection.prefixes:
        begins = [pc.starts_with(pc.field("topic"), pattern=prefix) for prefix in selection.prefixes]
        any_of = begins[0]
        for one in begins[1:]:
            any_of |= one
        wanted &= any_of
    return table.filter(wanted)


async def _ahead(tables: Iterator[pa.Table]) -> AsyncIterator[pa.Table]:
    """Yield windows; the next one is read in a thread while the last one is published."""
    loop = asyncio.get_running_loop()
    ahead: Any = loop.run_in_executor(None, next, tables, None)
    while (table := await ahead) is not None:
        ahead = loop.run_in_executor(None, next, tables, None)
        yield table


class _Publishing:
    def __init__(self, done: Replay, pace: Pace, every: Callable[[Replay], object], stop: threading.Event) -> None:
        self._done = done
        self._pace = pace
        self._every = every
        self._stop = stop
        self._begun_s: float | None = None

    async def run(self, access: Access, groups: Sequence[_Group], selection: Selection) -> None:
        done = self._done
        async with connect(access.url, name="hub spark replay", **access.client_options()) as client:
            try:
                async for window in _ahead(_windows(groups, selection, done.first)):
                    await self._publish(client, window)
                await client.drain()
            except _StoppedError:
                done.ending = "stopped"
            except (PeerError, OSError, pa.ArrowException) as error:  # a file may be gone: small ones are merged
                done.ending = " ".join(str(error).split())
        done.rejected += client.statistics().rejected_messages

    async def _publish(self, client: Client, window: pa.Table) -> None:
        due_s = self._pace.due_s(window["timestamp"].cast("int64").to_numpy())
        topics, values = window["topic"].to_pylist(), window["value"].to_pylist()
        offsets = window["offset"].to_numpy()
        start = 0
        while start < len(topics):
            end = min(await self._wait_due(due_s, start), start + _REPORTED_MESSAGES)
            await self._send(client, topics[start:end], values[start:end])
            self._done.next = int(offsets[end - 1]) + 1
            self._every(self._done)
            start = end

    async def _wait_due(self, due_s: npt.NDArray[np.float64], start: int) -> int:
        """Wait until the message at `start` is due; return the first that is not."""
        clock_s = asyncio.get_running_loop().time
        if self._begun_s is None:
            self._begun_s = clock_s()
        while (wait_s := self._begun_s + float(due_s[start]) - clock_s()) > 0:
            await asyncio.sleep(min(wait_s, _LOOK_S))
            self._check_stop()
        self._check_stop()
        self._begun_s += max(0.0, -wait_s - _CATCH_UP_S)
        return int(np.searchsorted(due_s, clock_s() - self._begun_s + _TICK_S, side="right"))

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise _StoppedError

    async def _send(self, client: Client, topics: list[str], values: list[bytes | None]) -> None:
        """Publish messages, and wait until the operating system has them."""
        done = self._done
        for topic, value in zip(topics, values, strict=True):
            if value is None or not is_value(value):
                done.skipped += 1
                continue
            try:
                await client.publish_packed(topic, value)
            except (InvalidTopicError, RejectedError):
                if client.ended:
                    raise
                done.rejected += 1
            else:
                done.messages += 1
                done.bytes += len(value)
        await asyncio.sleep(0)  # a connection that is lost is noticed
        await client.drain()
