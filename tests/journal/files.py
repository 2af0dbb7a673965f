"""What the tests of the journal share: files with records whose content tells their place, and ways to hurt them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hub.journal.block import Block, Record
from hub.journal.segment import read_head
from hub.messages.batch import Batch
from peers.journal import active
from peers.journal.folder import segment_path
from peers.journal.store import Retention, Segmenting, Store
from peers.journal.view import View

ALL = Retention(bytes=1 << 50, age_us=1 << 60)  # everything is kept
AT_US = 1_700_000_000_000_000  # a time, µs since 1970


def frames(topic: str, *values: Any) -> bytes:
    return Batch.of(topic, values).frames


def numbered(numbers: Sequence[int], *, topics: int = 3, padding: int = 0) -> bytes:
    return b"".join(frames(f"/t/{number % topics}", [number, b"." * padding]) for number in numbers)


def fill(journal: Store, *counts: int, padding: int = 0) -> None:
    for count in counts:
        first = journal.next
        at_us = AT_US + first * 1_000_000
        journal.add([(at_us, numbered(range(first, first + count), padding=padding))])
        journal.commit(now_us=at_us)


def opened(
    path: Path,
    *,
    retention: Retention = ALL,
    full_sync: bool = False,
    segment_bytes: int = 1 << 30,
    compresses: bool = False,
) -> Store:
    segmenting = Segmenting(segment_bytes, 1 << 60)
    store = Store(str(path), full_sync=full_sync, retention=retention, segmenting=segmenting, compresses=compresses)
    _opened.append(store)
    return store


_opened: list[Store] = []


def close_stores() -> None:
    while _opened:
        _opened.pop().close()


def records(blocks: Sequence[bytes]) -> list[Record]:
    return [record for block in blocks for record in Block.parse(block).records()]


def everything(path: Path, *prefixes: str) -> list[Record]:
    with closing(View(str(path))) as view:
        found: list[Record] = []
        extent = view.extent
        start = extent.first
        while start < extent.next:
            piece = view.fetch(start, None, prefixes or ("",), 1 << 20)
            found += records(piece.blocks)
            assert piece.next > start
            start = piece.next
        return found


def damaged_by(path: Path, *hurts: tuple[str, int]) -> Path:
    """Damage a journal in some places: the block, or the head of its entry, that holds an offset."""
    for what, offset in hurts:
        (hurt_block if what == "block" else hurt_head)(path, offset)
    return path


def block_rows(path: Path) -> list[tuple[int, int]]:
    with closing(View(str(path))) as view:
        return [(row.first, row.next) for row in view.rows()]


def crashed(path: Path, to: Path) -> Path:
    shutil.copytree(path, to)
    return to


def lose_power(path: Path, written_bytes: int) -> None:
    """Leave of the newest segment what stood there when it was so long, as a power loss may with `sync = "normal"`."""
    os.truncate(segments(path)[-1], written_bytes)


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("*.seg"))


def place_of(path: Path, offset: int) -> tuple[Path, int]:
    with closing(View(str(path))) as view:
        row = next(iter(view.rows(offset)))
        return Path(segment_path(str(path), max(first for first in view.firsts if first <= offset))), row.place


def flip(file: Path, place: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(place)
        byte = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([byte ^ 1]))


def hurt_block(path: Path, offset: int) -> None:
    file, place = place_of(path, offset)
    flip(file, place + read_head(file.read_bytes(), place).payload_from + 20)


def hurt_head(path: Path, offset: int) -> None:
    file, place = place_of(path, offset)
    flip(file, place + 12)


@contextmanager
def small_blocks(monkeypatch: pytest.MonkeyPatch, *, records: int = 16, size: int = 2000) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(active, "BLOCK_RECORDS", records)
        patch.setattr(active, "BLOCK_BYTES", size)
        yield


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, call: str, *, at: int = 1, error: OSError | None = None) -> Iterator[None]:
    """Have a call of `os` fail while the block lasts: the one with the number `at`."""
    true = getattr(os, call)
    left = at

    def fail(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if not left:
            raise error or OSError(errno.ENOSPC, "No space left on device")
        return true(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        yield
