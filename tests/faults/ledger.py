"""`Ledger`: what was published, what the hub has said of it, and whether the journal agrees.

Each publisher has a name of its own and numbers its messages from 0; topic and value follow from both, so that a record
tells whose it is and whether a byte of it has changed. A hub takes the messages of one connection in order and drops
none for the journal, so that of each publisher a beginning must be recorded, each message once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgpack

from hub.journal.block import Block
from peers.journal.view import View

__all__ = ["NOWHERE", "Ledger", "topic_of", "value_of"]

_RUN_MESSAGES = 50
"""So many in a row have one topic, so that some leave as batches."""


def topic_of(name: str, number: int) -> str:
    """Return the topic of a message."""
    return f"/load/{name}/{number // _RUN_MESSAGES % 3}"


def value_of(name: str, number: int) -> list[Any]:
    """Return its value: up to 300 bytes."""
    return [name, number, bytes([number % 251]) * (number * 37 % 300)]


NOWHERE = -1
"""In place of an offset, where a message is not recorded."""


class Ledger:
    """What is known of a journal under load.

    Args:
        may_lose: Whether messages may be missing between others, because the disk was full.
    """

    def __init__(self, *, may_lose: bool = False) -> None:
        self._may_lose = may_lose
        self.sent: defaultdict[str, int] = defaultdict(int)
        """How many messages each publisher has handed over, at least in part."""
        self.confirmed: dict[tuple[str, int], int] = {}
        """Publisher and number: the offset that the hub has told. Since the last `check_confirmed`."""
        self.confirmed_total = 0
        self.offsets: defaultdict[str, list[int]] = defaultdict(list)
        """Where the messages of each publisher were found."""
        self.position = 0
        """Everything before this offset was looked at."""

    def read(self, path: Path) -> None:
        """Look at the records of a file that were not looked at yet.

        Raises:
            AssertionError: It holds what it must not, or does not hold what it must.
            JournalCorruptError, JournalUnavailableError: It cannot be read.
        """
        with closing(View(str(path))) as view:
            extent = view.extent
            assert extent.first == 0
            assert extent.next >= self.position, f"{self.position} offsets were there, now {extent.next}"
            for block in _blocks(view, self.position):
                self.take(block)
            assert self.position == extent.next

    def take(self, block: Block) -> None:
        """Look at the records of a block that were not looked at yet."""
        for offset, _, topic, _, body in block.records():
            if offset < self.position:
                continue
            assert offset == self.position, f"a gap: {offset} follows {self.position - 1}"
            value = msgpack.unpackb(body)
            name, number = value[:2]
            found = self.offsets[name]
            if self._may_lose:
                found += [NOWHERE] * (number - len(found))
            assert number == len(found), f"offset {offset}: number {number} of {name}, {len(found)} were there before"
            assert number < self.sent[name], f"offset {offset}: number {number} of {name} was never sent"
            assert (topic, value) == (topic_of(name, number), value_of(name, number)), f"offset {offset}: changed"
            found.append(offset)
            self.position += 1

    def check_confirmed(self) -> None:
        """Compare what was confirmed with what was found.

        Raises:
            AssertionError: Something is missing, or stands elsewhere.
        """
        for (name, number), offset in self.confirmed.items():
            found = self.offsets.get(name, [])
            assert number < len(found), f"number {number} of {name} was confirmed at {offset} and is gone"
            assert found[number] == offset, f"number {number} of {name}: confirmed {offset}, found {found[number]}"
        self.confirmed_total += len(self.confirmed)
        self.confirmed.clear()

    def recorded(self, name: str) -> int:
        """How many messages of a publisher were found."""
        return len(self.offsets.get(name, ()))


def _blocks(view: View, start: int) -> Iterator[Block]:
    for row in view.rows(start):
        yield view.block(row)
