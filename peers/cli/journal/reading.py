"""Reads a range of a journal piece by piece, as a hub does for its clients: checked, and while the hub writes.

What is not here any more is read from the tier (`peers.journal.history`), and nothing here knows which is which. What
the hub deletes while it is read, because it is too old or too much, is told as such; what is damaged, too, and reading
goes on behind it. Not here: all damage that there is (`peers.cli.journal.survey`); here is what is met.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from hub.errors import GoneError, JournalUnavailableError, StorageError, UsageError
from hub.journal.block import Block
from peers.cli.flag_values import FlagError, time_us_of
from peers.cli.journal.older import NO_TIER, older, tier_of
from peers.journal.damage import Damage
from peers.journal.history import History
from peers.journal.tier.place import PATIENT, TierUnavailableError
from peers.journal.view import BlockRow, Fetched, View

__all__ = ["JournalPath", "Piece", "Span", "index", "opened", "opened_history", "pieces", "span_of"]

_PIECE_BYTES = 1024 * 1024
"""How much is read at once: about a block, so that the bar moves, and Ctrl-C is heard, tens of times a second."""

JournalPath = Annotated[str, Parameter(help="Folder of the journal.")]


class Span(NamedTuple):
    """A range of offsets: the first, and the one behind the last."""

    start: int
    end: int


class Piece(NamedTuple):
    """What was found where the reading stood: blocks, or why there are none."""

    blocks: list[Block]
    next: int
    """The offset at which reading goes on."""
    deleted: Span | None = None
    """The records that the hub has deleted before they were read; None if there are none."""
    damage: Damage | None = None
    """What cannot be read; None if nothing is damaged here."""


@contextmanager
def opened(path: str) -> Iterator[View]:
    """Open a journal for as long as the block lasts.

    Raises:
        JournalCorruptError: It is no journal.
        JournalUnavailableError: There is none, or it cannot be read.
    """
    with closing(View(path)) as view:
        yield view


@contextmanager
def opened_history(path: str, tier: str | None) -> Iterator[History]:
    """Open a journal and its tier for as long as the block lasts.

    Args:
        path: Path of the journal.
        tier: What `--tier` was given; None if it was not.

    Raises:
        JournalCorruptError: It is no journal.
        JournalUnavailableError: There is none, or it cannot be read, or its tier cannot.
        UsageError: The tier's address is none, or what it needs is not installed.
    """
    with opened(path) as view:
        address = tier_of(view, tier)
    with closing(History(path, address, PATIENT)) as history:
        try:
            yield history
        except TierUnavailableError as error:
            text = f"{error}; --tier {NO_TIER} leaves out what is not in the folder"
            raise JournalUnavailableError(text) from error


def span_of(history: History, start: str | None = None, end: str | None = None) -> Span:
    """Return the range that two flags name.

    Args:
        history: The journal.
        start: An offset or a time; None: the oldest record.
        end: The same, of what is not wanted any more; None: what is committed now.

    Raises:
        UsageError: They cannot be understood, or it is not in the journal.
        JournalCorruptError, JournalUnavailableError: The journal cannot be read.
    """
    here = history.view.extent
    span = Span(
        history.extent.first if start is None else _offset(history, "--start", start),
        here.next if end is None else min(here.next, _offset(history, "--end", end)),
    )
    # Who begins with what is here does not wait for the tier.
    extent = here if here.first <= span.start <= here.next else history.extent
    if not extent.first <= span.start <= extent.next:
        held = f"has offsets {extent.first} to {extent.next - 1}" if extent.first < extent.next else "is empty"
        elsewhere = older(history.view) if span.start < extent.first and not history.address else ""
        raise UsageError(f"--start {start}: the journal {held}" + (f"; {elsewhere}" if elsewhere else ""))
    if span.end < span.start:
        raise FlagError(f"--end {end}: that is before --start")
    return span


def _offset(history: History, flag: str, text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    return history.offset_at(time_us_of(flag, text))


def pieces(history: History, span: Span, prefixes: tuple[str, ...] = ("",)) -> Iterator[Piece]:
    """Yield what is in a range, in order, with what is missing in it.

    Raises:
        StorageError: It cannot be read, for another reason than damage in some place.
    """
    position = span.start
    doubted = -1
    while position < span.end:
        try:
            piece = _piece(history.fetch(position, span.end, prefixes, _PIECE_BYTES))
        except GoneError as error:
            deleted = Span(position, min(error.first, span.end))
            piece = Piece([], deleted.end, deleted=deleted)
        except StorageError:
            history.refresh()
            damage = history.damage_at(position)
            if damage is None:  # a hub that writes may have deleted it, or written it anew
                if doubted == position:
                    raise
                doubted = position
                continue
            following = span.end if damage.next is None else min(damage.next, span.end)
            piece = Piece([], following, damage=damage._replace(next=damage.next and following))
        yield piece
        position = piece.next


def _piece(fetched: Fetched) -> Piece:
    return Piece([Block.parse(block, verify=False) for block in fetched.blocks], fetched.next)


def index(view: View) -> Iterator[BlockRow | Damage]:
    """Yield what is known of each block, and where nothing is, why, of one state of the journal.

    Raises:
        StorageError: It cannot be read, for another reason than damage in some place.
    """
    position, end = view.extent
    while position < end:
        with suppress(StorageError):
            for row in view.rows(position):
                yield row
                position = row.next
        if position < end:
            damage = view.damage_at(position) or Damage(position, None, "the index cannot be read")
            yield damage
            position = end if damage.next is None else damage.next
