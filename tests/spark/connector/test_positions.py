"""Where a query begins and ends, with a journal that is told of."""

from __future__ import annotations

import pytest

from peers.client.journal import JournalState
from peers.spark.connector.connection import Connection
from peers.spark.connector.options import EARLIEST, LATEST, Access, DataLostError, OptionError, Position
from peers.spark.connector.source import resolve_end, resolve_start

STATE = JournalState(bytes(16), 10, 20)


class Told(Connection):
    def offset_at(self, time_ms: int) -> int:
        return max(STATE.first, min(time_ms, STATE.head + 5))


HUB = Told(Access("tcp://127.0.0.1:1"))


@pytest.mark.parametrize(
    ("position", "start"),
    [
        (EARLIEST, 10),
        (LATEST, 20),
        (Position("offset", 15), 15),
        (Position("offset", 20), 20),
        (Position("time", 12), 12),
        (Position("time", 0), 10),
        (Position("time", 99), 20),
    ],
)
def test_what_is_there(position: Position, start: int) -> None:
    """Words, offsets and times; nothing behind the state that was asked for once."""
    assert resolve_start(position, STATE, HUB, lossy=False) == start
    assert resolve_end(position, STATE, HUB) == start


def test_what_is_not_there_yet() -> None:
    with pytest.raises(OptionError, match="startingOffsets: 21 is behind the end of the journal, which is 20"):
        resolve_start(Position("offset", 21), STATE, HUB, lossy=True)
    with pytest.raises(OptionError, match="endingOffsets: 21 is behind the end"):
        resolve_end(Position("offset", 21), STATE, HUB)


def test_what_is_no_longer_there() -> None:
    with pytest.raises(DataLostError, match="the records 3 to 9 were deleted"):
        resolve_start(Position("offset", 3), STATE, HUB, lossy=False)
    assert resolve_start(Position("offset", 3), STATE, HUB, lossy=True) == 10
    assert resolve_end(Position("offset", 3), STATE, HUB) == 3
