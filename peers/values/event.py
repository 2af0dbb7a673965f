"""`Event`: a Zeek event, as it stands in a Broker value, and as a person reads it.

```
vector [count 1, count 1, vector [name, vector of arguments, vector of metadata]]
        format   "event"                                     [[count 1, timestamp], ...], may be missing
```

Other Zeek messages (logs, identifier updates, batches) have other numbers in the second place. Source: `zeek.hh`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from hub.errors import UsageError
from peers.values import Count, Timestamp, Value, decode, encode, to_msgpack, to_text, value_of

NETWORK_TIMESTAMP = Count(1)  # key of metadata
USER_METADATA = 200  # from here on, keys of metadata are free for users
_FORMAT = _EVENT = Count(1)


class NoEventError(UsageError):
    """A value that is no Zeek event."""


class Event:
    """A Zeek event.

    Args:
        name: Such as `Notice::new`.
        args: Broker values, or values that `peers.values.value_of` converts to them. An `int` is a Zeek `int`; a Zeek
            `count` is a `Count`.
        timestamp: When it happened, a `datetime` with a zone or a `Timestamp`.
        metadata: Further pairs of key and value; users' own keys are `USER_METADATA` or more.
    """

    __slots__ = ("args", "metadata", "name")

    def __init__(
        self,
        name: str,
        *args: Any,
        timestamp: datetime | Timestamp | None = None,
        metadata: Iterable[tuple[int, Any]] = (),
    ) -> None:
        self.name = name
        self.args: tuple[Value, ...] = tuple(map(value_of, args))
        pairs = [(Count(key), value_of(value)) for key, value in metadata]
        if timestamp is not None:
            pairs.insert(0, (NETWORK_TIMESTAMP, value_of(timestamp)))
        self.metadata: tuple[tuple[Count, Value], ...] = tuple(pairs)

    @property
    def timestamp(self) -> Timestamp | None:
        """When the event happened, if its metadata says so."""
        found = dict(self.metadata).get(NETWORK_TIMESTAMP)
        return found if isinstance(found, Timestamp) else None

    @property
    def value(self) -> tuple[Value, ...]:
        """The event as a Broker value."""
        parts: tuple[Value, ...] = (self.name, self.args)
        return (_FORMAT, _EVENT, (*parts, self.metadata) if self.metadata else parts)

    def encode(self) -> bytes:
        """Return its body."""
        return encode(self.value)

    def to_msgpack(self) -> bytes:
        """Return it as msgpack, in which it loses nothing."""
        return to_msgpack(self.encode())

    @classmethod
    def of(cls, value: Any) -> Event:
        """Read the event that a value is; a `NoEventError` says why it is none."""
        match value:
            case (Count(), Count() as kind, (str() as name, tuple() | list() as args, *rest)):
                if kind != _EVENT:
                    raise NoEventError(f"a Zeek message of kind {kind}, an event has kind {_EVENT}")
                return cls(name, *args, metadata=_pairs(rest))
        raise NoEventError(f"not a Zeek event: {to_text(value_of(value))[:80]}")

    @classmethod
    def decode(cls, body: bytes) -> Event:
        """Read the event that a body is; raises `InvalidDataError`, too."""
        return cls.of(decode(body))

    def __eq__(self, other: object) -> bool:
        return encode(self.value) == encode(other.value) if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash(encode(self.value))

    def __repr__(self) -> str:
        return f"Event({', '.join([repr(self.name), *map(repr, self.args)])})"

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(to_text, self.args))})"


def _pairs(rest: list[Any]) -> list[tuple[int, Any]]:
    """Read the metadata behind the arguments; invalid pairs are left out, as by Zeek."""
    if not rest or not isinstance(rest[0], tuple | list):
        return []
    pairs = [pair for pair in rest[0] if isinstance(pair, tuple | list) and len(pair) == 2]
    return [(key, value) for key, value in pairs if isinstance(key, Count)]
