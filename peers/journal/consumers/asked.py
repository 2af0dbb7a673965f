"""What clients ask of named consumers under `$hub/consumers/`, as it comes over the wire. Values; no owner.

Invariant: whatever is no such map is refused with a text that says what is expected. Bounds: those of the types.
Not here: who may ask, and what is done about it (`peers.journal.consumers.service`).
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from hub.errors import UsageError

__all__ = ["Acknowledge", "Commit", "InProgress", "Join", "Leave", "Nak", "Remove", "Take", "read"]

_WAIT_LIMIT_MS = 60_000

_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Offsets = Annotated[tuple[_Offset, ...], msgspec.Meta(max_length=100_000)]
_Number = Annotated[int, msgspec.Meta(ge=1)]
_Asked = TypeVar("_Asked", bound=msgspec.Struct)


class Join(msgspec.Struct, forbid_unknown_fields=True):
    """A client wants to share a consumer."""

    name: _Name
    terms: dict[str, Any] | None = None
    """Some of `Terms`, the prefixes among them: what is left out is as it is, or as it is by default for a new one. Of
    one that is there, prefixes and key must be the same. None takes it as it is."""
    start: _Offset | None = None
    """Where a new one begins; None for what is recorded from now on. One that is there goes on where it is."""
    time_us: _Offset | None = None
    """A time in µs since 1970, in place of `start`: a new one begins with the first record that is not older."""
    messages: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 256
    """How many messages this member may have."""
    bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] = 4 * 1024 * 1024
    """How much it may have, bytes; a single message is never too much."""
    instead: int = 0
    """The membership of this connection that ends by that, if there is one: nothing of it has failed."""


class Take(msgspec.Struct, forbid_unknown_fields=True):
    """A member wants messages."""

    member: _Number
    bytes: Annotated[int, msgspec.Meta(ge=1)] = 256 * 1024
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=_WAIT_LIMIT_MS)] = 0
    values: bool = False
    """Whether messages are to have their values in place of encoding and body: for who reads JSON alone."""
    got: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How many messages have come since it has joined. Where the last answer did not come, as a queue was full, it is
    given again: else what stood behind it would come first. None does not say."""


class Acknowledge(msgspec.Struct, forbid_unknown_fields=True):
    """A member is done with messages."""

    member: _Number
    offsets: _Offsets


class Nak(msgspec.Struct, forbid_unknown_fields=True):
    """A member cannot do messages now."""

    member: _Number
    offsets: _Offsets
    delay_s: Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)] = 0.0
    """How long it takes until they, and what stands behind them of their keys, are delivered again, seconds."""


class InProgress(msgspec.Struct, forbid_unknown_fields=True):
    """A member needs more time for messages."""

    member: _Number
    offsets: _Offsets


class Leave(msgspec.Struct, forbid_unknown_fields=True):
    """A member goes."""

    member: _Number
    seen: _Offsets = ()
    """What it has looked at and not acknowledged; nothing else that it was given has failed."""


class Commit(msgspec.Struct, forbid_unknown_fields=True):
    """A query that reads the journal by itself tells how far it is."""

    name: _Name
    prefixes: tuple[str, ...]
    """Of the topics that it reads."""
    position: _Offset
    """It is done with everything before this offset."""


class Remove(msgspec.Struct, forbid_unknown_fields=True):
    """A consumer is not needed any more."""

    name: _Name


def read(value: Any, kind: type[_Asked]) -> _Asked:
    """Return what is asked.

    Raises:
        UsageError: It is no such map.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"expected a map like {', '.join(kind.__struct_fields__)}: {error}") from error
