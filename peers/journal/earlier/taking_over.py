"""Taking over a journal of an earlier version: copied block by block, compared, and put in its place as a whole.

```
OLD (a file) ─▶ NEW.taking (a folder) ─ compared with OLD ─▶ NEW
```

Id and offsets stay, so that readers go on where they were. The old file is not changed. What is interrupted leaves
nothing but `NEW.taking`, which the next attempt deletes. Cost: reading twice, writing once.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block
from peers.journal.damage import Damage
from peers.journal.earlier.database import Database
from peers.journal.segments.folder import translated
from peers.journal.store import Retention, Store
from peers.journal.view import View

__all__ = ["Taken", "take_over"]

_TAKING = ".taking"
"""Behind the name of the folder while it is made."""

_COMMIT_BYTES = 32 * 1024 * 1024
"""Copied with one commit."""

_EVERYTHING = Retention(bytes=1 << 60, age_us=1 << 61)

Tell = Callable[[str, int | None, int | None], object]


class Taken(NamedTuple):
    """What was taken over."""

    first: int
    next: int
    records: int
    damages: list[Damage]
    """What of the old journal could not be read."""


def take_over(old: str, new: str, *, skips_damaged: bool, tell: Tell) -> Taken:
    """Make a journal of today of one of an earlier version.

    Args:
        old: Path of the file.
        new: Path of the folder, which must not be there, or be empty.
        skips_damaged: Whether to go on behind what cannot be read; it is missing then.
        tell: Is told how far it is.

    Raises:
        JournalCorruptError: The old one is none, or damaged.
        JournalUnavailableError: A hub has it, or something cannot be read or written.
    """
    making = f"{new}{_TAKING}"
    _check_free(new)
    with closing(Database(old)) as database:
        with translated(making):
            shutil.rmtree(making, ignore_errors=True)
            Store.make(making, database.id, database.extent[0])
        taken = _copy(database, making, tell, skips_damaged=skips_damaged)
        _compare(database, making, tell)
        with translated(new):
            if Path(new).is_dir():
                Path(new).rmdir()
            os.rename(making, new)  # noqa: PTH104
    return taken


def _check_free(new: str) -> None:
    place = Path(new)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise JournalUnavailableError(f"{new}: there is something already; name a folder that is not there yet")


def _copy(database: Database, making: str, tell: Tell, *, skips_damaged: bool) -> Taken:
    """Copy all blocks, and what writers have committed."""
    first, end = database.extent
    damages: list[Damage] = []
    records = size = 0
    with closing(Store(making, full_sync=False, retention=_EVERYTHING, tidies=False)) as store:
        for one in database.blocks():
            if isinstance(one, Damage):
                if not skips_damaged:
                    raise JournalCorruptError(f"{database.path}: {one}; --skip-damaged goes on behind them")
                damages.append(one)
                store.commit(now_us=_now_us())
                store.skip(one.next or end)
                continue
            store.add_block(bytes(one.data))
            records += one.count
            size += len(one.data)
            if size >= _COMMIT_BYTES:
                store.commit(now_us=_now_us())
                size = 0
            tell("copying", one.next - first, end - first)
        store.commit(database.writes(), now_us=_now_us())
    return Taken(first, end, records, damages)


def _now_us() -> int:
    return time.time_ns() // 1000


def _compare(database: Database, making: str, tell: Tell) -> None:
    """Read what was written, and compare it with what it was made of.

    Raises:
        JournalCorruptError: It is something else.
    """
    first, end = database.extent
    sound = (one for one in database.blocks() if isinstance(one, Block))
    with closing(View(making)) as view:
        copies = _blocks_of(view)
        for one, copy in zip(sound, chain(copies, [None]), strict=False):
            if copy is None or one.data != copy.data:
                raise JournalCorruptError(f"{making}: offset {one.first}: the copy is not what was copied; try again")
            tell("comparing", one.next - first, end - first)
        if next(copies, None) is not None or view.writes != database.writes():
            raise JournalCorruptError(f"{making}: the copy holds more than what was copied; try again")


def _blocks_of(view: View) -> Iterator[Block]:
    """Yield all blocks, over gaps as well."""
    for number in range(len(view.catalog.firsts)):
        for row in view.rows_of(number):
            yield view.block(row)
