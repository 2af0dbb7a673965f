"""`Losses`: handlers that lost messages in the last minute, and the latest losses; `State`: the hub in one sentence.

```
add(second, id, label, messages) ─▶ slots of 5 s: 12 of [id → messages] ─▶ `minute`: sums, largest first
                                └─▶ log: the last `KEPT` losses, one for each handler and second ─▶ `last`
```

Seconds are arguments. At most `NAMED` handlers a slot, those beyond are counted together: about 0.5 MB where thousands
lose all the time, and next to nothing where there are no losses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hub.handlers.handler import Handler
from hub.statistics.events import Event, overflow, unreadable
from hub.topics import printable


class _Told(NamedTuple):
    dropped_messages: int = 0  # How many were lost in all, for either reason
    unreadable_messages: int = 0  # Of these, messages that the far side's encoding cannot express


class Drops:
    """The losses of all handlers."""

    def __init__(self) -> None:
        # Handlers that have lost something since the last report.
        self._dropping: dict[Handler, None] = {}
        # Handler → counts already reported; from its first report until it has left.
        self._told: dict[Handler, _Told] = {}

    def note(self, handler: Handler) -> None:
        self._dropping[handler] = None

    def forget(self, handler: Handler) -> None:
        """Note that a handler has left. Its losses since the last report are still reported."""
        if handler not in self._dropping:
            self._told.pop(handler, None)

    def report(self) -> list[Event]:
        """Return an event for each handler whose queue was full, and one for each that could not read messages."""
        dropping, self._dropping = self._dropping, {}
        events = []
        for handler in dropping:
            before, now = self._told.get(handler, _Told()), _Told(handler.dropped_messages, handler.unreadable_messages)
            unread = now.unreadable_messages - before.unreadable_messages
            lost = now.dropped_messages - before.dropped_messages - unread
            if handler.closed:
                self._told.pop(handler, None)
            else:
                self._told[handler] = now
            if lost:
                events.append(overflow(handler, lost))
            if unread:
                events.append(unreadable(handler, unread))
        return events


SLOW_TOLD: Final = 1_000  # Most ids of slow ones in a state: a table of all connections marks them

DROPPERS_TOLD: Final = 16  # Most labels of those that have lost something


class State(NamedTuple):
    """The state of a hub at one moment."""

    connections: int = 0  # Clients, links to other hubs, and Zeeks; not the other processes of the hub
    subscribers: int = 0  # How many of them subscribe to a prefix
    slow: int = 0
    dropped_messages: int = 0  # In the last minute
    dropped_by: tuple[tuple[str, int], ...] = ()  # Labels and messages of those that have lost most
    droppers: int = 0  # How many have lost messages, as far as they are counted one by one
    slow_ids: tuple[int, ...] = ()  # At most `SLOW_TOLD`
    troubles: tuple[str, ...] = ()  # Troubles of the hub itself, each a clause of a sentence

    def plus(self, other: State) -> State:
        by = dict(self.dropped_by)
        for label, messages in other.dropped_by:
            by[label] = by.get(label, 0) + messages
        return State(
            self.connections + other.connections,
            self.subscribers + other.subscribers,
            self.slow + other.slow,
            self.dropped_messages + other.dropped_messages,
            _most(by),
            self.droppers + other.droppers,
            (*self.slow_ids, *other.slow_ids)[:SLOW_TOLD],
            tuple(dict.fromkeys((*self.troubles, *other.troubles))),
        )

    def fields(self) -> dict[str, Any]:
        return {"text": sentence(self), **self._asdict(), "dropped_by": [list(one) for one in self.dropped_by]}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> State:
        known = {name: fields[name] for name in cls._fields}
        known["dropped_by"] = tuple((label, messages) for label, messages in fields["dropped_by"])
        return cls(**known | {"slow_ids": tuple(fields["slow_ids"]), "troubles": tuple(fields["troubles"])})


def droppers_of(losers: Losers) -> tuple[tuple[tuple[str, int], ...], int]:
    """Return the losses by label, the largest first, and the number of losers."""
    by: dict[str, int] = {}
    for number, messages in losers.named.items():
        label = losers.labels[number]
        by[label] = by.get(label, 0) + messages
    return _most(by), len(losers.named) + (1 if losers.others else 0)


def sentence(state: State) -> str:
    """Return the state in words: troubles of the hub first, then slow subscribers, then losses."""
    clauses = [*(_capitalised(trouble) for trouble in state.troubles), f"{_slow(state)}, {_dropped(state)}"]
    return ". ".join(clauses) + "."


def _slow(state: State) -> str:
    if not state.subscribers:
        return "There are no subscribers"
    if not state.slow:
        return (
            "The only subscriber keeps up"
            if state.subscribers == 1
            else f"All {state.subscribers:,} subscribers keep up"
        )
    if state.subscribers == 1:
        return "The only subscriber is slow"
    return f"{state.slow:,} of {state.subscribers:,} subscribers {'is' if state.slow == 1 else 'are'} slow"


def _dropped(state: State) -> str:
    messages = state.dropped_messages
    if not messages:
        return "nothing was dropped in the last minute"
    text = f"{messages:,} {'message was' if messages == 1 else 'messages were'} dropped in the last minute"
    if not state.dropped_by:
        return text
    label, most = state.dropped_by[0]
    named = f"`{label if label.isprintable() else printable(label)[1:-1]}`"
    if most == messages:
        return f"{text}, all by {named}" if messages > 1 else f"{text}, by {named}"
    if 2 * most >= messages:
        return f"{text}, most of them by {named}"
    return f"{text} by {state.droppers:,} of them, most by {named}"


def _most(by: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(by.items(), key=lambda one: (-one[1], one[0]))[:DROPPERS_TOLD])


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


MINUTE_S: Final = 60

_SLOT_S: Final = 5
_SLOTS: Final = MINUTE_S // _SLOT_S

# How many handlers are counted one by one in a slot; a sentence names one of them, and a table those that it shows
NAMED: Final = 256

KEPT: Final = 512  # How many losses are remembered one by one


class Loss(NamedTuple):
    """The loss of one handler in one second."""

    second: int
    id: int
    label: str  # Its name, or its address
    messages: int
    why: str  # The overflow policy, or "unreadable"


class Losers(NamedTuple):
    """The losses of the last minute."""

    messages: int
    named: dict[int, int]  # Id of a handler, which may have left → messages
    labels: dict[int, str]
    others: int  # Messages lost by all other handlers


class _Slot:
    __slots__ = ("named", "number", "others")

    def __init__(self, number: int) -> None:
        self.number = number
        self.named: dict[int, int] = {}
        self.others = 0


class Losses:
    """The losses of all handlers."""

    def __init__(self) -> None:
        # The slots of the last minute in which something was lost, oldest first.
        self._slots: deque[_Slot] = deque()
        # Id → label, of those that stand in a slot.
        self._labels: dict[int, str] = {}
        self._log: deque[Loss] = deque(maxlen=KEPT)

    def add(self, loss: Loss) -> None:
        number = loss.second // _SLOT_S
        if not self._slots or self._slots[-1].number < number:
            self._slots.append(_Slot(number))
        slot = self._slots[-1]
        if loss.id in slot.named:
            slot.named[loss.id] += loss.messages
        elif len(slot.named) < NAMED:
            slot.named[loss.id] = loss.messages
            self._labels[loss.id] = loss.label
        else:
            slot.others += loss.messages
        self._log.append(loss)

    def minute(self, second: int) -> Losers:
        """Return the losses in the minute before a second; older slots are dropped."""
        oldest = second // _SLOT_S - _SLOTS + 1
        gone = False
        while self._slots and self._slots[0].number < oldest:
            self._slots.popleft()
            gone = True
        named: dict[int, int] = {}
        others = 0
        for slot in self._slots:
            others += slot.others
            for number, messages in slot.named.items():
                named[number] = named.get(number, 0) + messages
        if gone:
            self._labels = {number: self._labels[number] for number in named}
        return Losers(sum(named.values()) + others, named, dict(self._labels), others)

    def last(self, handler: int | None = None, limit: int = KEPT) -> list[Loss]:
        found = (loss for loss in reversed(self._log) if handler is None or loss.id == handler)
        return [loss for _, loss in zip(range(limit), found, strict=False)]
