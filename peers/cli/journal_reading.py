"""Reads a range of a journal piece by piece, checked, and while the hub writes; older records from the tier.

Records that the hub deletes meanwhile, and damage (`Damages`), are reported, and reading continues after them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from hub.errors import GoneError, JournalUnavailableError, StorageError, UsageError
from hub.journal.block import Block
from hub.journal.segment import Row
from peers.cli.output import shown_bar
from peers.cli.texts import FlagError, escaped, time_us_of
from peers.journal.history import History
from peers.journal.tier.place import PATIENT, TierUnavailableError
from peers.journal.tier.tiering import read_copied
from peers.journal.view import Damage, View

_LINES = 100
"""Most lines that are printed; `hub journal verify` lists more."""


class ExitCode(IntEnum):
    """Exit codes of commands that read a journal."""

    DONE = 0  # All records were read
    INCOMPLETE = 1  # It cannot be read, or records are missing from an export
    DAMAGED = 3  # Something is damaged; the rest was read


class Damages:
    """Collects damage, and prints it at the end of a command."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._texts: list[str] = []
        self._last: Damage | None = None  # the next range may continue it
        self._untold = 0

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.DAMAGED if self._texts or self._last is not None else ExitCode.DONE

    def add(self, damage: Damage) -> None:
        last = self._last
        if last is not None and (last.next, last.cause) == (damage.first, damage.cause):
            self._last = last._replace(next=damage.next)
            return
        self._settle()
        self._last = damage

    def note(self, text: str) -> None:
        self._settle()
        if len(self._texts) < _LINES:
            self._texts.append(text)
        else:
            self._untold += 1

    def _settle(self) -> None:
        """Make a line of the last range, as the next one does not continue it."""
        last, self._last = self._last, None
        if last is not None:
            self.note(f"passed over {last}")

    def tell(self) -> None:
        self._settle()
        for text in self._texts:
            print(escaped(f"hub journal {self._command}: {text}"), file=sys.stderr)
        if self._untold:
            rest = f"and {self._untold:,} damaged places more; see `hub journal verify`"
            print(f"hub journal {self._command}: {rest}", file=sys.stderr)


NO_TIER = "none"

Tier = Annotated[
    str | None,
    Parameter(
        name="--tier",
        help="Tier with older records, as in `journal.tier`; none: read the folder only. "
        "Default: the tier to which the journal was copied.",
    ),
]


def tier_of(view: View, chosen: str | None) -> str:
    """Return the address of the tier: the one given, else where the journal was copied to; empty for none."""
    if chosen is not None:
        return "" if chosen == NO_TIER else chosen
    copied = read_copied(view.path)
    return copied.tier if copied is not None and copied.journal == view.id.hex() else ""


def older(view: View) -> str:
    """Return where records older than the folder are; empty if nowhere."""
    first = view.extent.first
    try:
        tier = tier_of(view, None)
    except StorageError as error:
        return str(error)
    if not first or not tier:
        return ""
    return f"offsets before {first} are in the tier {tier} alone, as far as it keeps them"


def tell_older(command: str, history: History) -> None:
    """Print where older records are, if this command does not read them."""
    text = "" if history.address else older(history.view)
    if text:
        print(escaped(f"hub journal {command}: {text}"), file=sys.stderr)


_PIECE_BYTES = 1024 * 1024
"""About a block, so that the bar moves, and Ctrl-C is heard, tens of times a second."""

JournalPath = Annotated[str, Parameter(help="Folder of the journal.")]


class Span(NamedTuple):
    """A range of offsets, without its end."""

    start: int
    end: int


class Piece(NamedTuple):
    """Blocks, or why there are none."""

    blocks: list[Block]
    next: int
    deleted: Span | None = None
    damage: Damage | None = None


def opened(path: str) -> closing[View]:
    return closing(View(path))


@contextmanager
def opened_history(path: str, tier: str | None) -> Iterator[History]:
    """Open a journal and its tier (`--tier`) while the block lasts."""
    with opened(path) as view:
        address = tier_of(view, tier)
    with closing(History(path, address, PATIENT)) as history:
        try:
            yield history
        except TierUnavailableError as error:
            text = f"{error}; --tier {NO_TIER} reads the folder only"
            raise JournalUnavailableError(text) from error


def span_of(history: History, start: str | None = None, end: str | None = None) -> Span:
    """Return the range of `--start` and `--end`, each an offset or a time; None: the oldest, the end."""
    here = history.view.extent
    span = Span(
        history.extent.first if start is None else _offset(history, "--start", start),
        here.next if end is None else min(here.next, _offset(history, "--end", end)),
    )
    # A range that begins in the folder does not wait for the tier.
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
    """Yield the pieces of a range, in order; raise `StorageError` unless damage explains it."""
    position = span.start
    doubted = -1
    while position < span.end:
        try:
            fetched = history.fetch(position, span.end, prefixes, _PIECE_BYTES)
            piece = Piece([Block.parse(block, verify=False) for block in fetched.blocks], fetched.next)
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


def index(view: View) -> Iterator[Row | Damage]:
    """Yield the row of each block, and damage where there is none, of one state of the journal."""
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


@dataclass(slots=True)
class Tally:
    """Messages of a topic, bytes of their values, and the times of the first and last (µs since 1970 UTC)."""

    messages: int
    size_bytes: int
    first_us: int
    last_us: int


def tallies(history: History, damages: Damages) -> dict[str, Tally]:
    """Read all of a journal, and count by topic; a bar shows the progress."""
    counted: dict[str, Tally] = {}
    span = span_of(history)
    with shown_bar() as tell:
        for piece in pieces(history, span):
            if piece.damage is not None:
                damages.add(piece.damage)
            for block in piece.blocks:
                numbers, times = block.topic_nos, block.times
                sizes = [0] * len(block.topics)
                for number, (start, end) in zip(numbers, pairwise(block.value_ends), strict=True):
                    sizes[number] += end - start
                first = dict(zip(reversed(numbers), reversed(times), strict=True))
                last = dict(zip(numbers, times, strict=True))
                for number, messages in Counter(numbers).items():
                    tally = counted.setdefault(block.topics[number], Tally(0, 0, first[number], 0))
                    tally.messages += messages
                    tally.size_bytes += sizes[number]
                    tally.last_us = last[number]
            tell(f"{len(counted):,} topics", piece.next - span.start, span.end - span.start)
    return counted
