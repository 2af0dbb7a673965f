"""Counts what each topic has in a journal, from its blocks.

Cost: about 0.2 µs a record; memory for each distinct topic.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from hub.journal.block import Block
from peers.cli.journal.bar import shown_bar
from peers.cli.journal.damages import Damages
from peers.cli.journal.reading import pieces, span_of
from peers.journal.history import History

__all__ = ["Tally", "tallies"]


@dataclass(slots=True)
class Tally:
    """What one topic has.

    Attributes:
        messages: How many there are.
        size_bytes: Size of their values, as they were published.
        first_us: When the first of them came, µs since 1970 UTC.
        last_us: When the last of them came.
    """

    messages: int
    size_bytes: int
    first_us: int
    last_us: int


def tallies(history: History, damages: Damages) -> dict[str, Tally]:
    """Read all of a journal, and count; a bar shows how far it is.

    Args:
        history: The journal.
        damages: Takes what could not be read.

    Raises:
        StorageError: It cannot be read, for another reason than damage in some place.
    """
    counted: dict[str, Tally] = {}
    span = span_of(history)
    with shown_bar() as tell:
        for piece in pieces(history, span):
            if piece.damage is not None:
                damages.add(piece.damage)
            for block in piece.blocks:
                _add(counted, block)
            tell(f"{len(counted):,} topics", piece.next - span.start, span.end - span.start)
    return counted


def _add(counted: dict[str, Tally], block: Block) -> None:
    numbers, times = block.topic_nos, block.times
    sizes = [0] * len(block.topics)
    for number, (start, end) in zip(numbers, pairwise(block.value_ends), strict=True):
        sizes[number] += end - start
    first = dict(zip(reversed(numbers), reversed(times), strict=True))
    last = dict(zip(numbers, times, strict=True))
    for number, messages in Counter(numbers).items():
        tally = counted.get(block.topics[number])
        if tally is None:
            counted[block.topics[number]] = Tally(messages, sizes[number], first[number], last[number])
        else:
            tally.messages += messages
            tally.size_bytes += sizes[number]
            tally.last_us = last[number]
