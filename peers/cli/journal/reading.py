"""A range of a journal, piece by piece, as a hub reads it for its clients: checked, and while the hub writes.

What the hub deletes while it is read, because it is too old or too much, is counted and passed over. Not here: damage;
it is an error, and `peers.cli.journal.survey` finds all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from hub.errors import GoneError, UsageError
from hub.journal.block import Block
from peers.cli.journal.moments import time_us_of
from peers.journal.view import View

__all__ = ["JournalPath", "Piece", "Span", "opened", "pieces", "span_of"]

_PIECE_BYTES = 1024 * 1024
"""Read at once: about a block, so that the bar moves, and Ctrl-C is heard, tens of times a second."""

JournalPath = Annotated[str, Parameter(help="File of the journal.")]


class Span(NamedTuple):
    """Offsets: the first, and the one behind the last."""

    start: int
    end: int


class Piece(NamedTuple):
    """What one look has brought."""

    blocks: list[Block]
    next: int
    """How far it goes."""
    deleted: Span | None
    """What was no longer there before it."""


@contextmanager
def opened(path: str) -> Iterator[View]:
    """Open a journal for as long as the block lasts.

    Raises:
        JournalCorruptError: The file is no journal, or damaged.
        JournalUnavailableError: There is none, or it cannot be read.
    """
    with closing(View(path)) as view:
        yield view


def span_of(view: View, start: str | None = None, end: str | None = None) -> Span:
    """Return the range that two flags name.

    Args:
        view: The journal.
        start: An offset or a time; None: the oldest record.
        end: The same, of what is not wanted any more; None: what is committed now.

    Raises:
        UsageError: They cannot be understood, or it is not in the journal.
        JournalCorruptError, JournalUnavailableError: The journal cannot be read.
    """
    extent = view.extent
    span = Span(
        extent.first if start is None else _offset(view, "--start", start),
        extent.next if end is None else min(extent.next, _offset(view, "--end", end)),
    )
    if not extent.first <= span.start <= extent.next:
        held = f"has offsets {extent.first} to {extent.next - 1}" if extent.first < extent.next else "is empty"
        raise UsageError(f"--start {start}: the journal {held}")
    if span.end < span.start:
        raise UsageError(f"--end {end}: that is before --start")
    return span


def _offset(view: View, flag: str, text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    return view.offset_at(time_us_of(flag, text))


def pieces(view: View, span: Span, prefixes: tuple[str, ...] = ("",)) -> Iterator[Piece]:
    """Yield what is in a range, in order.

    Raises:
        JournalCorruptError, JournalUnavailableError: It cannot be read.
    """
    position = span.start
    while position < span.end:
        deleted = None
        try:
            fetched = view.fetch(position, span.end, prefixes, _PIECE_BYTES)
        except GoneError as error:
            deleted = Span(position, min(error.first, span.end))
            yield Piece([], deleted.end, deleted)
            position = deleted.end
            continue
        position = fetched.next
        yield Piece([Block.parse(block, verify=False) for block in fetched.blocks], position, None)
