"""`hub journal verify`: read everything, and tell what is damaged and what can still be read around it.

| exit code | meaning |
|---|---|
| 0 | all is what was written |
| 3 | something is damaged |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from enum import IntEnum

import apsw

from hub.errors import JournalCorruptError
from peers.cli.journal.bar import Tell, shown_bar
from peers.cli.journal.reading import JournalPath
from peers.cli.journal.survey import Stretch, stray_blocks, survey
from peers.cli.journal.tables import amount, show
from peers.journal.checked import stored_writes
from peers.journal.damage import UNREADABLE
from peers.journal.schema import APPLICATION_ID, check_format, check_is_file, plain, translated

__all__ = ["Soundness", "verify"]

_BUSY_MS = 1_000
"""How long to wait for a process that holds the file for a moment."""

_PROBLEMS_LIMIT = 20
"""Most problems that SQLite tells of the file, before it stops looking."""

_SHOWN_ROWS = 100
"""Most rows of each table."""

_STEPS = 100_000
"""How many steps SQLite does between two chances for Ctrl-C to be heard: a few milliseconds."""


class Soundness(IntEnum):
    """How a journal is; the number is the exit code."""

    SOUND = 0
    DAMAGED = 3


def verify(path: JournalPath, /) -> int:
    """Read everything in a journal and look for damage: exit code 0 if there is none, 3 if there is."""
    with _opened(path) as connection, translated(path), shown_bar() as tell:
        stretches = list(_surveyed(connection, tell))
        tell("looking at the file as a whole", None, None)
        troubles = list(_troubles(connection, path))
        flawed = [one for one in stretches if one.flaw] + list(stray_blocks(connection))
    sound = [one for one in stretches if not one.flaw]
    readable = _joined(sound)
    if not flawed and not troubles:
        print(_sound_line(readable, len(sound)))
        return Soundness.SOUND
    _show_damage(flawed, troubles)
    print()
    _show_rows(("readable offsets", "records"), [(_offsets(one), _records(one)) for one in readable])
    return Soundness.DAMAGED


@contextmanager
def _opened(path: str) -> Iterator[apsw.Connection]:
    """Open a journal that may be damaged.

    Raises:
        JournalUnavailableError: There is none, or it is of another format, or cannot be read.
        JournalCorruptError: It is none.
    """
    check_is_file(path)
    with translated(path), closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.set_busy_timeout(_BUSY_MS)
        connection.set_progress_handler(lambda: False, _STEPS)
        if connection.pragma("application_id") != APPLICATION_ID:
            check_format(connection, path)
        yield connection


def _surveyed(connection: apsw.Connection, tell: Tell) -> Iterator[Stretch]:
    newest = None
    with suppress(*UNREADABLE):  # the survey says where
        newest = connection.execute("SELECT max(first) FROM blocks NOT INDEXED").get
    begin = None
    for stretch in survey(connection):
        begin = stretch.first if begin is None else begin
        tell(f"offset {stretch.first:,}", stretch.first - begin, newest and newest - begin)
        yield stretch


def _troubles(connection: apsw.Connection, path: str) -> Iterator[str]:
    """Yield what is wrong beside the blocks."""
    try:
        check_format(connection, path)
    except JournalCorruptError:
        yield "the id of the journal is missing or damaged"
    except UNREADABLE as error:
        yield f"the id of the journal cannot be read: {plain(error)}"
    try:
        stored_writes(connection, path)
    except JournalCorruptError:
        yield "what writers have committed is damaged"
    except UNREADABLE as error:
        yield f"what writers have committed cannot be read: {plain(error)}"
    for check in (f"quick_check({_PROBLEMS_LIMIT})", "integrity_check(blocks)"):
        try:
            for (text,) in connection.execute(f"PRAGMA {check}"):
                if text != "ok":
                    yield " ".join(text.split())
        except UNREADABLE as error:
            yield f"the database cannot be checked: {plain(error)}"


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return ranges without gaps, each as long as it goes."""
    joined: list[Stretch] = []
    for one in stretches:
        if joined and joined[-1].next is not None and one.first <= joined[-1].next:
            joined[-1] = joined[-1]._replace(next=max(joined[-1].next, one.next or 0))
        else:
            joined.append(one)
    return joined


def _sound_line(readable: list[Stretch], blocks: int) -> str:
    if not readable:
        return "sound: no records"
    first, following = readable[0].first, readable[-1].next or 0
    records = sum((one.next or 0) - one.first for one in readable)  # a hub may have deleted some in between
    return f"sound: {records:,} records in {blocks:,} blocks, offsets {first} to {following - 1}"


def _show_damage(flawed: list[Stretch], troubles: list[str]) -> None:
    rows = [(_offsets(one), _records(one), one.flaw) for one in flawed]
    rows += [("", "", text) for text in troubles]
    _show_rows(("damaged offsets", "records", "what"), rows)


def _show_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    show(heads, rows[:_SHOWN_ROWS], text_columns=(0, 2))
    if len(rows) > _SHOWN_ROWS:
        print(f"and {len(rows) - _SHOWN_ROWS:,} more")


def _offsets(stretch: Stretch) -> str:
    return f"{stretch.first} to {'?' if stretch.next is None else stretch.next - 1}"


def _records(stretch: Stretch) -> str:
    return "?" if stretch.next is None else amount(stretch.next - stretch.first)
