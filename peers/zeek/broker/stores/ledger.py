"""`Ledger`: how the changes of a store are numbered for its clones, so that a hub that starts again goes on counting.

```
store   change 7   change 8              change 9
channel        8          9  an answer 10       11      number = 1 + change + answers before it
```

A clone of C++ Broker knows its master by an entity and what it has by a number, for as long as it lives: it takes
nothing from another entity, no second snapshot, and nothing but the very next number. So what is told after a restart
must go on where it stopped, and whatever a clone lacks must be said again under the numbers that it has not seen.

Every change of the store has a number of its own, which is kept with it. Answers to `PutUnique` are no changes of the
store, but take a number each: how many there were is noted beside the store. What stands under a number that nobody
holds any more follows from the store: the entry whose version it is, as it is now, or nothing if there has been a later
change of that key. What no entry tells is noted, too: what was erased, has expired or was cleared, and the answers.
Likewise how far each clone that writes has come: a wish and its number are kept in one transaction, so that it is
granted once.

A store in memory begins empty, and has numbers that clones cannot go on with. Where the master is known again
nevertheless (`began`), as its hub is the same endpoint, its numbers go on behind all that were told before: what stands
under those that were not told is nothing, and under the last of them that everything is gone. Then all that the store
has ever had in this life follows, under numbers that are remembered as those of other stores are.

Owner: the store that a master serves. Invariant: what `note` and `note_changes` return is kept together with the
changes that they are called for. Limits: `records`, `record_bytes` of what is noted; older numbers are forgotten, and
`first` is where memory begins. Cost: 1 µs a change, 3 µs an erasure. No I/O, no clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, NamedTuple, cast

from peers.zeek.broker.stores.command import (
    NIL_ENTITY,
    Action,
    Clear,
    Command,
    Erase,
    Expire,
    PutUniqueResult,
    decode_command,
    encode_command,
)

__all__ = ["By", "Ledger", "LedgerLimits"]

_STATE = Struct(">QQQQ")
"""Number of the master's entity, answers, first number, number of the store's last change."""

_POSITION = Struct(">QQ")
"""Number of the last wish, and of the channel when it was granted."""

_DROPPED_AT_ONCE: Final = 1_024
"""How many records are forgotten where there is no room."""


class LedgerLimits(NamedTuple):
    """How much one ledger remembers."""

    records: int = 65_536
    """Erasures, expiries, clears and answers."""
    record_bytes: int = 16 * 1024 * 1024
    writers: int = 1_000
    """Clones that have written."""


class By(NamedTuple):
    """Who wishes something: a clone that writes, and the number of the wish in its channel."""

    writer: bytes
    number: int


class Ledger:
    """Of one master.

    Args:
        name: Under which clones know the store.
        notes: What was noted beside the store.
        number: Returns the number of the last change of the store.
        new_object: The number of the master's entity, if the ledger begins anew.
        is_certain: Whether clones cannot have heard of changes that are not in the store; otherwise it begins anew.
        began: Of a store that begins empty, behind whose channel numbers it does; above all that were ever told.
        limits: Of what is remembered.
    """

    __slots__ = (
        "_answer_numbers",
        "_answers",
        "_began",
        "_gone",
        "_limits",
        "_number",
        "_positions",
        "_prefix",
        "_record_bytes",
        "_records",
        "_shift",
        "first",
        "object",
    )

    def __init__(  # noqa: PLR0913 -- each is another thing
        self,
        name: str,
        notes: Mapping[str, bytes],
        number: Callable[[], int],
        new_object: int,
        *,
        is_certain: bool = True,
        began: int | None = None,
        limits: LedgerLimits | None = None,
    ) -> None:
        self._limits = limits or LedgerLimits()
        self._number = number
        self._began = began
        self._shift = 0 if began is None else number() - began
        """What the store's numbers are ahead of those of the channel, but for answers."""
        self._prefix = f"zeek master {name} "
        self._answers = 0
        """How many there were since the store was made."""
        self.object = new_object
        """The number of the master's entity."""
        self._records: dict[int, bytes] = {}
        """What no entry tells, by number, in ascending order."""
        self._record_bytes = 0
        self._answer_numbers: list[int] = []
        """Those of the records that are answers."""
        self._positions: dict[bytes, int] = {}
        """The last wish of each clone that writes; who has written last is last."""
        self._gone: list[str] = []
        """Notes of a ledger that is over, until they are taken away."""
        state = notes.get(self._prefix + "state")
        if state is None or not is_certain:
            self._gone = [each for each in notes if each.startswith(self._prefix)]
            self.first = self.last
            """What stands under this number and those before is not known any more."""
        else:
            self._restore(notes, state)

    def _restore(self, notes: Mapping[str, bytes], state: bytes) -> None:
        self.object, self._answers, self.first, number = _STATE.unpack(state)
        told, written = self._prefix + "told ", self._prefix + "writer "
        for name in sorted(each for each in notes if each.startswith(told)):
            record = notes[name]
            content = decode_command(record).content
            self._record(int(name.removeprefix(told), 16), record, is_answer=isinstance(content, PutUniqueResult))
        positions = {each: _POSITION.unpack(notes[each]) for each in notes if each.startswith(written)}
        for name in sorted(positions, key=lambda each: positions[each][1]):
            self._positions[bytes.fromhex(name.removeprefix(written))] = positions[name][0]
        if number != self._number():  # the store was changed while nobody noted it
            self.first = self.last

    # What is noted.

    @property
    def last(self) -> int:
        """The number of the last change or answer, whether it was told or not."""
        return 1 + self._number() - self._shift + self._answers

    def begin(self) -> dict[str, bytes | None]:
        """Return what is to be kept before anybody is told of the master."""
        gone, self._gone = self._gone, []
        return {**dict.fromkeys(gone), **self._state()}

    def note_changes(self, changes: Mapping[int, Erase | Expire | Clear | None]) -> dict[str, bytes | None]:
        """Return what is to be kept beside changes.

        Args:
            changes: Numbers of the store, with what clones are told; None where the entry tells it.
        """
        notes: dict[str, bytes | None] = {}
        for number, content in changes.items():
            if content is not None:
                notes |= self._remember(1 + number - self._shift + self._answers, content)
        return {**notes, **self._state()}

    def note(self, by: By | None, answer: PutUniqueResult | None) -> tuple[dict[str, bytes | None], int]:
        """Return what is to be kept beside what a wish has led to, and the number of the answer (0 for none)."""
        notes: dict[str, bytes | None] = {}
        number = 0
        if answer is not None:
            self._answers += 1
            number = self.last
            notes = {**self._remember(number, answer), **self._state()}
        if by is not None:
            self._positions.pop(by.writer, None)
            if len(self._positions) >= self._limits.writers:
                oldest = next(iter(self._positions))
                del self._positions[oldest]
                notes[self._writer_name(oldest)] = None
            self._positions[by.writer] = by.number
            notes[self._writer_name(by.writer)] = _POSITION.pack(by.number, self.last)
        return notes, number

    def position(self, writer: bytes) -> int | None:
        """Return the number of a clone's last wish that was granted; None if it is not known."""
        return self._positions.get(writer)

    def _state(self) -> dict[str, bytes]:
        state = _STATE.pack(self.object, self._answers, self.first, self._number())
        return {self._prefix + "state": state}

    def _writer_name(self, writer: bytes) -> str:
        return f"{self._prefix}writer {writer.hex()}"

    def _remember(self, number: int, content: Action) -> dict[str, bytes | None]:
        notes: dict[str, bytes | None] = {}
        if len(self._records) >= self._limits.records or self._record_bytes >= self._limits.record_bytes:
            notes = self._forget()
        record = encode_command(Command(number, NIL_ENTITY, NIL_ENTITY, content))
        self._record(number, record, is_answer=isinstance(content, PutUniqueResult))
        notes[self._told_name(number)] = record
        return notes

    def _told_name(self, number: int) -> str:
        return f"{self._prefix}told {number:016x}"

    def _record(self, number: int, record: bytes, *, is_answer: bool) -> None:
        self._records[number] = record
        self._record_bytes += len(record)
        if is_answer:
            self._answer_numbers.append(number)

    def _forget(self) -> dict[str, bytes | None]:
        numbers = list(self._records)[:_DROPPED_AT_ONCE]
        for number in numbers:
            self._record_bytes -= len(self._records.pop(number))
        self.first = max(self.first, numbers[-1])
        del self._answer_numbers[: bisect_right(self._answer_numbers, self.first)]
        return dict.fromkeys(map(self._told_name, numbers))

    # What stands under which number.

    def number_of(self, version: int) -> int:
        """Return the number under which clones are told of a change of the store that was noted."""
        answers = self._answers
        version -= self._shift
        for number in reversed(self._answer_numbers):
            if number - 1 - answers < version:
                break
            answers -= 1
        return 1 + version + answers

    def remembers(self, number: int) -> bool:
        """Return whether it is known what stands under a number."""
        return self.first < number <= self.last or (self._is_whole and 0 < number <= self.first)

    @property
    def _is_whole(self) -> bool:
        """Whether all is remembered since the store was empty."""
        return self._began is not None and self.first == 1 + self._began

    def record(self, number: int) -> Action | None:
        """Return what was noted under a number; None if an entry tells it."""
        record = self._records.get(number)
        return None if record is None else cast("Action", decode_command(record).content)

    def version_of(self, number: int) -> int:
        """Return which change of the store stands under a number that has no record."""
        later = len(self._answer_numbers) - bisect_right(self._answer_numbers, number)
        return number - 1 - (self._answers - later) + self._shift
