"""Copies the sealed segments of a journal to its tier, each record exactly once, and verified.

    python -m peers.journal.tier.copier ORDER DESCRIPTOR

ORDER is JSON (`Order`). The process writes `Told` to the socket whenever that changes, and ends with the socket. A step
makes a file, reads it back, lists it in the manifest, and notes that in `tier.json`. After a crash before the manifest
a range is copied again. Damaged and absent records become holes in the manifest. Files are ranges of offsets, not
segments. Memory: 0.3 GiB. Cost: 1 µs a record of 100 bytes.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from select import select as ready
from typing import NamedTuple

import msgspec

from hub.errors import JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal.block import Block, select
from hub.journal.layout import OFFSET_LIMIT
from peers.journal.tier.files import TierFiles
from peers.journal.tier.parquet import FileMaker
from peers.journal.tier.place import Place, place_at
from peers.journal.tier.tiering import Copied, Order, Ownership, Progress, Told
from peers.journal.view import View


class TierRetention(NamedTuple):
    """How much the tier keeps; 0: no limit."""

    bytes: int
    age_us: int


class Copier:
    """Copies one journal. Raises `JournalUnavailableError` if another process does, or `JournalCorruptError`."""

    def __init__(self, path: str, place: Place, retention: TierRetention) -> None:
        self._path = path
        self._place = place
        self._retention = retention
        self._ownership = Ownership(path)
        try:
            self._view = View(path)
        except BaseException:
            self._ownership.release()
            raise
        self._held: TierFiles | None = None  # the files of the tier; None until they were read, and after any error

    def close(self) -> None:
        self._view.close()
        self._ownership.release()

    def step(self, now_us: int) -> bool:
        """Copy one file, if there is enough for one; return whether there was. Raises `StorageError`."""
        held = self._held or self._looked_at()
        self._held = None  # look at it again in any case
        self._view.refresh()
        self._check(held)
        copied = self._copy(held)
        self._retire(held, now_us)
        self._held = held
        return copied

    def progress(self) -> Progress | None:
        held = self._held
        if held is None:
            return None
        start = self._start(held)
        if not held.known:
            return Progress(start, start, 0, 0, 0)
        copied = sum(entry.next - entry.first for entry in held.known)
        first, following = held.known[0].first, held.known[-1].next
        sizes = sum(entry.size_bytes for entry in held.known)
        return Progress(first, start, len(held.known), sizes, following - first - copied)

    def _looked_at(self) -> TierFiles:
        """Read the manifest; rebuild a lost one, otherwise delete leftovers of a crash."""
        held = TierFiles(self._place, self._view.id)
        held.refresh()
        known = self._known(held)
        # Without a note of deliberate deletions there were none.
        first = (None if known is None else known.first) or 0
        is_new = held.rebuild(first, OFFSET_LIMIT if known is None else known.next)
        self._check(held)
        if not is_new:
            held.sweep(min(first, held.first or 0))
        return held

    def _known(self, held: TierFiles) -> Copied | None:
        """Return how far this journal was copied to this tier; None if unknown."""
        known = self._ownership.read()
        is_it = known is not None and (known.tier, known.journal) == (self._place.address, held.journal.hex())
        return known if is_it else None

    def _note(self, held: TierFiles, first: int | None) -> None:
        self._ownership.write(Copied(self._place.address, held.journal.hex(), held.next or 0, first))

    def _check(self, held: TierFiles) -> None:
        end = held.next or 0
        following = self._view.extent.next
        if end > following:
            text = (
                f"{self._place.address}: holds offsets up to {end}, the journal ends at {following}: it is an older "
                "copy; start it in a new folder"
            )
            raise JournalCorruptError(text)
        known = self._known(held)
        if known is not None and known.next > end:
            text = (
                f"{self._place.address}: holds offsets up to {end}, {known.next} were copied: it is not the tier that "
                "it was; mount or restore it"
            )
            raise JournalCorruptError(text)

    def _start(self, held: TierFiles) -> int:
        end = held.next
        return self._view.extent.first if end is None else max(end, self._view.extent.first)

    def _copy(self, held: TierFiles) -> bool:
        start, end = self._start(held), self._view.firsts[-1]
        if start >= end:
            return False
        maker = FileMaker(held.journal, start)
        while maker.next < end and not maker.is_full:
            self._add_some(maker, end)
        data, entry = maker.finish()
        held.put(data, entry)
        self._note(held, held.first)
        return True

    def _add_some(self, maker: FileMaker, end: int) -> None:
        """Add blocks until the file is full, or up to the next damage, which becomes a hole."""
        try:
            for row in self._view.rows(maker.next):
                if row.first >= end or maker.is_full:
                    return
                block, first, following = self._view.block(row), maker.next, min(row.next, end)
                if (first, following) != (row.first, row.next):
                    block = Block.parse(select(bytes(block.data), first, following), verify=False)
                maker.add(block)
        except JournalCorruptError as error:
            self._view.refresh()  # segments may have been joined meanwhile
            damage = self._view.damage_at(maker.next)
            if damage is None:
                raise JournalUnavailableError(f"the journal has changed while it was copied: {error}") from error
            maker.pass_over(end if damage.next is None else min(damage.next, end), damage.cause)

    def _retire(self, held: TierFiles, now_us: int) -> None:
        """Drop files that are too old or too many; the newest file stays."""
        size_bytes = sum(entry.size_bytes for entry in held.known)
        before = None
        for entry in held.entries()[:-1]:
            is_too_much = self._retention.bytes and size_bytes > self._retention.bytes
            is_old = self._retention.age_us and entry.latest_us < now_us - self._retention.age_us
            if not is_too_much and not is_old:
                break
            size_bytes -= entry.size_bytes
            before = entry.next
        if before is not None:
            self._note(held, before)
            held.drop(before)


# The process.

_FIRST_RETRY_S = 1.0
_LAST_RETRY_S = 60.0  # longest pause after a failure
_NICENESS = 10  # by how much it gives way to hub and readers, as `nice` has it
_POLL_S = 1.0  # how often it looks for sealed segments, seconds

Wait = Callable[[socket.socket, float], bool]  # waits so many seconds; returns whether the other side has closed


def _wait_for_end(connection: socket.socket, wait_s: float) -> bool:
    return bool(ready([connection], [], [], wait_s)[0])


def copy(order: Order, connection: socket.socket, wait: Wait = _wait_for_end) -> None:
    """Copy until the other side closes the connection; failures are retried with growing pauses."""
    copier: Copier | None = None
    told = Told()
    retry_s = pause_s = 0.0
    while not wait(connection, pause_s):
        try:
            if copier is None:
                copier = Copier(order.path, place_at(order.tier), TierRetention(order.keep_bytes, order.keep_us))
            pause_s = 0.0 if copier.step(time.time_ns() // 1000) else _POLL_S
            retry_s = 0.0
            progress = copier.progress()
            now = told if progress is None else Told(progress, told.failures)
        except Exception as error:  # noqa: BLE001 -- an unforeseen one would end process after process
            pause_s = retry_s = min(max(_FIRST_RETRY_S, 2 * retry_s), _LAST_RETRY_S)
            now = msgspec.structs.replace(told, error=_text_of(error), failures=told.failures + 1)
        if now != told:
            told = now
            connection.sendall(msgspec.json.encode(told) + b"\n")
    if copier is not None:
        copier.close()


def _text_of(error: Exception) -> str:
    """Return an error in one line; an unforeseen one with its place in the code."""
    text = " ".join(str(error).split())
    if isinstance(error, StorageError):
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {place.filename}:{place.lineno}: {text}"


def main() -> None:
    order, descriptor = sys.argv[1:]
    os.nice(_NICENESS)
    with socket.socket(fileno=int(descriptor)) as connection:
        try:
            copy(msgspec.json.decode(order, type=Order), connection)
        except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
            return


if __name__ == "__main__":
    main()
