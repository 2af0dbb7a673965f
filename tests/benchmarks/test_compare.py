"""A load generator must see every loss, repetition, exchange and damage, however the bytes are cut."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from tests.benchmarks.brokers import Dialect, HubDialect, NatsDialect, WrongBytesError
from tests.benchmarks.generate import Receiver, Stream, payload

PERIOD = 64
TOPIC = ("bench", "stream")
DIALECTS = {
    "hub": HubDialect(0),
    "hub-batch": HubDialect(0, batched_bytes=16_000),
    "nats": NatsDialect(0),
}
FAULTS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "lost": lambda units: units[:20] + units[21:],
    "repeated": lambda units: units[:20] + units[19:],
    "exchanged": lambda units: [*units[:20], units[21], units[20], *units[22:]],
    "damaged": lambda units: [*units[:20], units[20].replace(b".", b"!", 1), *units[21:]],
}


def units_of(dialect: Dialect, publisher: int = 0) -> list[bytes]:
    count = dialect.unit_messages
    payloads = [payload(number, publisher, 40) for number in range(PERIOD * count)]
    several = [payloads[start : start + count] for start in range(0, PERIOD * count, count)]
    return [dialect.delivery(TOPIC, one, 0) for one in several]


Feed = Callable[..., Receiver]


@pytest.fixture
def feed() -> Iterator[Feed]:
    left, right = socket.socketpair()

    def feed(dialect: Dialect, units: list[bytes], piece: int, publishers: int = 1, counts: int = -1) -> Receiver:
        expected = [units_of(dialect, publisher) for publisher in range(publishers)]
        streams = [Stream(one, dialect.unit_messages) for one in expected]
        receiver = Receiver(right, streams, dialect, expected[0][0].index(b"00000000"))
        data = b"".join(units)
        try:
            for start in range(0, len(data), piece):
                receiver.feed(data[start : start + piece])
        finally:
            assert counts < 0 or receiver.messages(0) == counts * dialect.unit_messages
        return receiver

    with left, right:
        yield feed


@pytest.mark.parametrize("piece", [5, 100_000])
@pytest.mark.parametrize("name", DIALECTS)
def test_every_byte_is_compared_however_it_is_cut(feed: Feed, name: str, piece: int) -> None:
    dialect = DIALECTS[name]
    feed(dialect, units_of(dialect) * 3, piece, counts=3 * PERIOD)
    for fault in FAULTS.values():
        with pytest.raises(WrongBytesError):
            feed(dialect, fault(units_of(dialect)), piece, counts=20)


@pytest.mark.parametrize("piece", [1, 5, 100_000])
def test_only_a_ping_may_stand_between_messages(feed: Feed, piece: int) -> None:
    for name, control in (("nats", b"PING\r\n"), ("nats", b'INFO {"x":1}\r\n'), ("hub", b"\0\0\0\x02\x07\0\0\0ab")):
        units = units_of(DIALECTS[name])
        receiver = feed(DIALECTS[name], [*units[:9], control, *units[9:], control, control], piece, counts=PERIOD)
        with pytest.raises(WrongBytesError):
            receiver.feed(b"\0\0\0\x01\x09\0\0\0\x80")


@pytest.mark.parametrize("stretch", [1, 3, 32])
def test_interleaved_publishers_are_each_checked(feed: Feed, stretch: int) -> None:
    def mixed(each: list[list[bytes]]) -> list[bytes]:
        return [b"".join(units[start : start + stretch]) for start in range(0, 4 * PERIOD, stretch) for units in each]

    each = [units_of(NatsDialect(0), publisher) * 4 for publisher in range(3)]
    receiver = feed(NatsDialect(0), [*mixed(each), b"PING\r\n"], 3000, 3)
    assert [receiver.messages(publisher) for publisher in range(3)] == [4 * PERIOD] * 3
    for fault in FAULTS.values():
        with pytest.raises(WrongBytesError):
            feed(NatsDialect(0), mixed([each[0], fault(each[1]), each[2]]), 3000, 3)
