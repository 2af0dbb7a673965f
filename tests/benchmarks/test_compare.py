"""A load generator must see every loss, repetition, exchange and damage, however the bytes are cut."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from tests.benchmarks.dialects import (
    Dialect,
    HubDialect,
    Interest,
    MqttDialect,
    NatsDialect,
    RedisDialect,
    WrongBytesError,
)
from tests.benchmarks.generate import Receiver, Stream, payload

PERIOD = 64
TOPIC = ("bench", "stream")

DIALECTS = {
    "hub": HubDialect(0),
    "hub-batch": HubDialect(0, batched_bytes=16_000),
    "nats": NatsDialect(0),
    "redis": RedisDialect(0),
    "mqtt": MqttDialect(0),
}


def units_of(dialect: Dialect, publisher: int = 0) -> list[bytes]:
    count = dialect.unit_messages
    return [
        dialect.delivery(
            TOPIC, [payload(place * count + one, publisher, 40) for one in range(count)], Interest(TOPIC), 0
        )
        for place in range(PERIOD)
    ]


def receiver_of(dialect: Dialect, connection: socket.socket, publishers: int = 1) -> Receiver:
    units = [units_of(dialect, publisher) for publisher in range(publishers)]
    streams = [Stream(one, dialect.unit_messages) for one in units]
    return Receiver(connection, streams, dialect, units[0][0].index(b"00000000"))


def feed(receiver: Receiver, units: list[bytes], piece: int) -> None:
    data = b"".join(units)
    for start in range(0, len(data), piece):
        receiver.feed(data[start : start + piece])


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return DIALECTS[request.param]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def damaged(unit: bytes) -> bytes:
    return unit[:-3] + bytes([unit[-3] ^ 1]) + unit[-2:]


FAULTS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "lost": lambda units: units[:20] + units[21:],
    "repeated": lambda units: units[:20] + units[19:],
    "exchanged": lambda units: [*units[:20], units[21], units[20], *units[22:]],
    "damaged": lambda units: [*units[:20], damaged(units[20]), *units[21:]],
}


@pytest.mark.parametrize("piece", [5, 100_000])
def test_every_byte_is_compared_however_it_is_cut(
    dialect: Dialect, piece: int, ends: tuple[socket.socket, socket.socket]
) -> None:
    receiver = receiver_of(dialect, ends[1])
    feed(receiver, units_of(dialect) * 3, piece)
    assert receiver.messages(0) == 3 * PERIOD * dialect.unit_messages
    for fault in FAULTS.values():
        receiver = receiver_of(dialect, ends[1])
        with pytest.raises(WrongBytesError):
            feed(receiver, fault(units_of(dialect)), piece)
        assert receiver.messages(0) == 20 * dialect.unit_messages


@pytest.mark.parametrize("piece", [1, 5, 100_000])
@pytest.mark.parametrize(
    ("name", "control"), [("nats", b"PING\r\n"), ("nats", b'INFO {"x":1}\r\n'), ("hub", b"\0\0\0\x02\x07\0\0\0ab")]
)
def test_only_a_ping_may_stand_between_messages(
    name: str, control: bytes, piece: int, ends: tuple[socket.socket, socket.socket]
) -> None:
    made = DIALECTS[name]
    units = units_of(made)
    receiver = receiver_of(made, ends[1])
    feed(receiver, [*units[:9], control, *units[9:], control, control], piece)
    assert receiver.messages(0) == PERIOD
    lost_notice = b"\0\0\0\x01\x09\0\0\0\x80"
    with pytest.raises(WrongBytesError):
        feed(receiver, [lost_notice], piece)


@pytest.mark.parametrize("stretch", [1, 3, 32])
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_interleaved_publishers_are_each_checked(
    ends: tuple[socket.socket, socket.socket], stretch: int, fault: str | None
) -> None:
    made = NatsDialect(0)
    each = [units_of(made, publisher) * 4 for publisher in range(3)]
    if fault is not None:
        each[1] = FAULTS[fault](each[1])
    data = [b"".join(units[start : start + stretch]) for start in range(0, 4 * PERIOD, stretch) for units in each]
    receiver = receiver_of(made, ends[1], publishers=3)
    if fault is None:
        feed(receiver, [*data, b"PING\r\n"], 3000)
        assert [receiver.messages(publisher) for publisher in range(3)] == [4 * PERIOD] * 3
    else:
        with pytest.raises(WrongBytesError):
            feed(receiver, data, 3000)
