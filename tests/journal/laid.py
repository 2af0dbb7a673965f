"""Journals whose sealed segments are laid anew, as the process does it, at once."""

from __future__ import annotations

import random
from pathlib import Path

from hub.journal.segment.entry import read_head
from peers.journal.segments.codec import Compressor
from peers.journal.segments.laying import check_laid, lay_anew
from peers.journal.segments.segment import Segment
from peers.journal.store import Store
from peers.journal.view import View
from tests.journal.files import ALL, AT_US, frames, place_of, segments

__all__ = ["codecs", "lay", "lay_all", "mixed", "untidied"]

TOPICS = 12


def lay(folder: Path, file: Path, *, compresses: bool = True) -> None:
    """Lay a segment anew, and put it in its place."""
    segment = Segment(str(folder), int(file.stem))
    made = file.with_suffix(".seg.new")
    try:
        lay_anew(segment, str(made), Compressor(is_on=compresses, is_patient=True), lambda: None)
        check_laid(segment, str(made), lambda: None)
    finally:
        segment.close()
    made.rename(file)


def lay_all(folder: Path, *, compresses: bool = True) -> None:
    """Lay all sealed segments anew."""
    for file in segments(folder)[:-1]:
        lay(folder, file, compresses=compresses)


def untidied(path: Path) -> Store:
    """A store that leaves sealed segments as they are."""
    return Store(str(path), full_sync=False, retention=ALL, tidies=False, compresses=False)


def mixed(store: Store, *counts: int, seed: int = 1) -> None:
    """Commit so many records each time, of some topics in no order, of all lengths and encodings."""
    draw = random.Random(seed)  # noqa: S311 -- the same every time
    for count in counts:
        parts = []
        for number in range(store.next, store.next + count):
            topic = f"/zeek/site/{draw.randrange(TOPICS)}"
            value = draw.choice([number, {"a": number}, "text" * draw.randrange(9), draw.randbytes(draw.randrange(99))])
            parts.append((AT_US + number * 1000, frames(topic, value)))
        store.add(parts)
        store.commit(now_us=AT_US + store.next * 1000)


def codecs(folder: Path) -> list[int]:
    """How each block is stored."""
    view = View(str(folder))
    try:
        found = []
        for row in view.rows():
            file, place = place_of(folder, row.first)
            found.append(read_head(file.read_bytes(), place).codec)
        return found
    finally:
        view.close()
