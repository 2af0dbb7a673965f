"""What the tests of laying anew share: a journal, and who owns its folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peers.journal.segments.segment import Segment
from peers.journal.store import Store
from tests.journal.files import AT_US, frames, segments
from tests.journal.laid import untidied

TOPICS = 5


def journal(path: Path, sealed: int = 3, *, size: int = 8_000) -> Path:
    """A journal with so many sealed segments, of values of so many bytes under some topics, and one that is not."""
    store = untidied(path)
    for number in range(sealed + 1):
        parts = [(AT_US, frames(f"/t/{one}", [store.next, one, "." * size])) for one in range(TOPICS)] * 2
        store.add(parts)
        store.commit(now_us=AT_US)
        if number < sealed:
            store.skip(store.next)
    store.close()
    return path


@contextmanager
def owned(path: Path) -> Iterator[Store]:
    """The folder, taken by its owner."""
    store = untidied(path)
    try:
        yield store
    finally:
        store.close()


def forms(path: Path) -> list[int]:
    """What the header of each segment says of how it is laid."""
    found = []
    for file in segments(path):
        segment = Segment(str(path), int(file.stem))
        assert segment.header is not None
        found.append(segment.header.form)
        segment.close()
    return found


def left_over(path: Path) -> list[str]:
    """Files of the folder that are being made."""
    return [file.name for file in path.iterdir() if file.name.endswith(".new")]
