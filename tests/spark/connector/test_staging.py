"""What one task brings to the hub, with a real hub."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hub.errors import RejectedError
from peers.spark.connector.connection import Connection
from peers.spark.connector.options import Access
from peers.spark.connector.sink import IN_FLIGHT, PIECE_BYTES, StagedPart
from tests.spark.hubs import HubWithJournal, message


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def connection(hub: HubWithJournal, pauses: list[float]) -> Connection:
    return Connection(Access(hub.url, num_retries=2, timeout_s=10), pauses.append)


def numbered(numbers: range) -> Iterator[tuple[bytes, int]]:
    for number in numbers:
        yield message("/n", [number, "x" * (PIECE_BYTES // 4)]), 1


def committed(hub: HubWithJournal, connection: Connection, part: StagedPart) -> list[int]:
    connection.client().commit("t", part.numbers)
    return [value[0] for _, value in hub.records()]


def test_pieces_come_in_order(hub: HubWithJournal, connection: Connection) -> None:
    part = StagedPart(connection, "t", 7)
    part.add(numbered(range(30)))
    part.finish()
    assert len(part.numbers) > IN_FLIGHT
    assert sorted(set(part.numbers)) == part.numbers
    assert part.messages == 30
    assert committed(hub, connection, part) == list(range(30))


def test_a_lost_connection_loses_and_doubles_nothing(
    hub: HubWithJournal, connection: Connection, pauses: list[float]
) -> None:
    part = StagedPart(connection, "t", 7)
    part.add(numbered(range(20)))
    client = connection.client()
    assert client._client._exchange.connection is not None
    client._thread.loop.call_soon_threadsafe(client._client._exchange.connection.abort)
    part.add(numbered(range(20, 40)))
    part.finish()
    assert pauses
    assert committed(hub, connection, part) == list(range(40))


def test_attempts_do_not_mix(hub: HubWithJournal, connection: Connection) -> None:
    first, second = StagedPart(connection, "t", 7), StagedPart(connection, "t", 8)
    first.add(numbered(range(10)))
    second.add(numbered(range(20)))
    first.finish()
    second.finish()
    assert not set(first.numbers) & set(second.numbers)
    assert committed(hub, connection, second) == list(range(20))


def test_nothing_is_staged_for_nothing(connection: Connection) -> None:
    part = StagedPart(connection, "t", 7)
    part.finish()
    assert part.numbers == []


def test_what_the_hub_refuses_is_raised(hub: HubWithJournal, connection: Connection) -> None:
    hub.arguments = ("--journal-topics", "/n", "--journal-staged-bytes", "1MiB")
    hub.restart()
    part = StagedPart(connection, "t", 7)
    part.add([(message("/other", 1), 1)])
    with pytest.raises(RejectedError, match="not recorded here"):
        part.finish()
    part = StagedPart(connection, "t", 8)
    with pytest.raises(Exception, match=r"raise journal\.staged_bytes"):  # noqa: PT012 -- whichever piece it is
        part.add(numbered(range(40)))
        part.finish()
