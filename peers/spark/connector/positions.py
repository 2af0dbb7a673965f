"""Where a query begins and ends: from what its options say to offsets of the hub's journal."""

from __future__ import annotations

from typing import assert_never

from peers.client.journal import JournalState
from peers.spark.connector.connection import Connection, beyond_loss
from peers.spark.connector.errors import OptionError
from peers.spark.connector.options import Position


def resolve_start(position: Position, state: JournalState, connection: Connection, *, lossy: bool) -> int:
    """Return the first offset that is to be read.

    Args:
        position: What was asked for.
        state: Of the journal.
        connection: To the hub.
        lossy: Whether to begin behind what was deleted.

    Raises:
        DataLostError: It was deleted.
        OptionError: It is not there yet.
    """
    offset = _offset(position, state, connection)
    if offset > state.head:
        raise OptionError(f"startingOffsets: {offset} is behind the end of the journal, which is {state.head}")
    return beyond_loss(offset, state.first, lossy=lossy) if offset < state.first else offset


def resolve_end(position: Position, state: JournalState, connection: Connection) -> int:
    """Return the offset behind the last that is to be read.

    Raises:
        OptionError: It is not there yet.
    """
    offset = _offset(position, state, connection)
    if offset > state.head:
        raise OptionError(f"endingOffsets: {offset} is behind the end of the journal, which is {state.head}")
    return offset


def _offset(position: Position, state: JournalState, connection: Connection) -> int:
    match position.kind:
        case "earliest":
            return state.first
        case "latest":
            return state.head
        case "offset":
            return position.number
        case "time":
            return min(connection.offset_at(position.number), state.head)
    assert_never(position.kind)
