"""`State`: how a hub does, in figures and in one sentence for people, the same wherever it is shown.

    3 of 214 subscribers are slow, 12,400 messages were dropped in the last minute, all by `sensor-7`.

Whoever subscribes to something, and has had messages waiting at two looks in a row, a second apart, or has lost some in
the last minute, is slow.

Pure functions; no state. States of several processes of one hub are put together by `plus`. Not here: who looks
(`peers.node.pulse`), what was lost (`hub.losses`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hub.losses import Losers
from hub.topics import printable

__all__ = ["DROPPERS_TOLD", "SLOW_TOLD", "State", "droppers_of", "sentence"]

SLOW_TOLD: Final = 1_000
"""Most ids of slow ones in a state: a table of all connections marks them."""

DROPPERS_TOLD: Final = 16
"""Most labels of those that have lost something."""


class State(NamedTuple):
    """How a hub does at one moment."""

    connections: int = 0
    """Clients, links to other hubs, and Zeeks; those between the processes of one hub do not count."""
    subscribers: int = 0
    """How many of them subscribe to a prefix."""
    slow: int = 0
    dropped_messages: int = 0
    """How many messages were lost in the last minute."""
    dropped_by: tuple[tuple[str, int], ...] = ()
    """Who has lost them, by what people call them, with how many each; those with most first."""
    droppers: int = 0
    """How many have: those that are not in `dropped_by`, too, as far as they are told apart."""
    slow_ids: tuple[int, ...] = ()
    """The numbers of the slow ones, at most `SLOW_TOLD`."""
    troubles: tuple[str, ...] = ()
    """What is wrong with the hub itself, each a clause of a sentence."""

    def plus(self, other: State) -> State:
        """Return the state of both together."""
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
        """Return it as it is told, with the sentence as `text`."""
        return {"text": sentence(self), **self._asdict(), "dropped_by": [list(one) for one in self.dropped_by]}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> State:
        """Return the state that was told by `fields`."""
        known = {name: fields[name] for name in cls._fields}
        known["dropped_by"] = tuple((label, messages) for label, messages in fields["dropped_by"])
        return cls(**known | {"slow_ids": tuple(fields["slow_ids"]), "troubles": tuple(fields["troubles"])})


def droppers_of(losers: Losers) -> tuple[tuple[tuple[str, int], ...], int]:
    """Return who has lost what, by label, those with most first; and how many they are."""
    by: dict[str, int] = {}
    for number, messages in losers.named.items():
        label = losers.labels[number]
        by[label] = by.get(label, 0) + messages
    return _most(by), len(losers.named) + (1 if losers.others else 0)


def sentence(state: State) -> str:
    """Say how a hub does: what is wrong with itself first, then who is slow, and what was lost."""
    clauses = [*(_capitalised(trouble) for trouble in state.troubles), f"{_slow(state)}, {_dropped(state)}"]
    return ". ".join(clauses) + "."


def _slow(state: State) -> str:
    if not state.subscribers:
        return "Nobody subscribes to anything"
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
