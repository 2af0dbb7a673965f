"""A load generator must see every loss, repetition, exchange and damage, however the bytes are cut."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from tests.benchmarks.channels import Dialect, Interest
from tests.benchmarks.dialects import (
    HubDialect,
    HubJsonDialect,
    HubWebSocketDialect,
    MqttDialect,
    NatsDialect,
    RedisDialect,
)
from tests.benchmarks.streams import (
    Checker,
    InterleavedReceiver,
    PlainReceiver,
    Stream,
    WebSocketReceiver,
    WrongBytesError,
    payload,
    payload_number,
)

PERIOD = 64
TOPIC = ("bench", "stream")

DIALECTS: list[Callable[[], Dialect]] = [
    lambda: HubDialect(0),
    lambda: HubDialect(0, batched_bytes=16_000),
    lambda: NatsDialect(0),
    lambda: RedisDialect(0),
    lambda: MqttDialect(0),
]


def units_of(dialect: Dialect, publisher: int = 0) -> list[bytes]:
    count = dialect.unit_messages
    return [
        dialect.delivery(
            TOPIC, [payload(place * count + one, publisher, 40) for one in range(count)], Interest(TOPIC), 0
        )
        for place in range(PERIOD)
    ]


def stream_of(dialect: Dialect, publisher: int = 0) -> Stream:
    units = units_of(dialect, publisher)
    return Stream(units, dialect.unit_messages, units[0].index(b"00000000"))


def websocket_frame(content: bytes) -> bytes:
    return b"\x82\x7e" + len(content).to_bytes(2, "big") + content


@pytest.fixture(params=DIALECTS, ids=["hub", "hub-batch", "nats", "redis", "mqtt"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    made: Dialect = request.param()
    return made


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.mark.parametrize("piece", [1, 7, 64, 1000, 100_000])
def test_the_right_bytes_are_counted_however_they_are_cut(dialect: Dialect, piece: int) -> None:
    """Three periods, cut into pieces of any size, are three periods of messages."""
    checker = Checker(stream_of(dialect), dialect)
    data = b"".join(units_of(dialect) * 3)
    for start in range(0, len(data), piece):
        checker.feed(data[start : start + piece])
    assert checker.messages == 3 * PERIOD * dialect.unit_messages


def lost(units: list[bytes]) -> list[bytes]:
    return units[:20] + units[21:]


def repeated(units: list[bytes]) -> list[bytes]:
    return units[:20] + units[19:]


def exchanged(units: list[bytes]) -> list[bytes]:
    return [*units[:20], units[21], units[20], *units[22:]]


def damaged(units: list[bytes]) -> list[bytes]:
    unit = bytearray(units[20])
    unit[-3] ^= 1
    return [*units[:20], bytes(unit), *units[21:]]


FAULTS = [lost, repeated, exchanged, damaged]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("piece", [5, 100_000])
def test_a_fault_is_an_error(dialect: Dialect, fault: Callable[[list[bytes]], list[bytes]], piece: int) -> None:
    """Loss, repetition, exchange and damage are errors, behind the messages that were right."""
    checker = Checker(stream_of(dialect), dialect)
    data = b"".join(fault(units_of(dialect)))

    def feed() -> None:
        for start in range(0, len(data), piece):
            checker.feed(data[start : start + piece])

    with pytest.raises(WrongBytesError):
        feed()
    assert checker.messages == 20 * dialect.unit_messages


@pytest.mark.parametrize("piece", [1, 5, 100_000])
@pytest.mark.parametrize(
    ("made", "control"),
    [
        (NatsDialect(0), b"PING\r\n"),
        (NatsDialect(0), b'INFO {"x":1}\r\n'),
        (HubDialect(0), b"\0\0\0\x02\x07\0\0\0ab"),
    ],
)
def test_a_ping_between_messages_is_passed_over(made: Dialect, control: bytes, piece: int) -> None:
    """What a broker may say at any time is no fault, also when it arrives in pieces."""
    units = units_of(made)
    data = b"".join([*units[:9], control, *units[9:], control, control])
    checker = Checker(stream_of(made), made)
    for start in range(0, len(data), piece):
        checker.feed(data[start : start + piece])
    assert checker.messages == PERIOD


def test_a_notice_of_lost_messages_is_an_error() -> None:
    made = HubDialect(0)
    checker = Checker(stream_of(made), made)
    with pytest.raises(WrongBytesError):
        checker.feed(b"".join(units_of(made)[:3]) + b"\0\0\0\x01\x09\0\0\0\x80")


def test_a_closed_connection_is_an_error(ends: tuple[socket.socket, socket.socket]) -> None:
    made = MqttDialect(0)
    ends[0].close()
    with pytest.raises(ConnectionError):
        PlainReceiver(ends[1], stream_of(made), made).receive()


@pytest.mark.parametrize("stretch", [1, 3, 32])
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_interleaved_publishers_are_each_checked(
    ends: tuple[socket.socket, socket.socket], stretch: int, fault: Callable[[list[bytes]], list[bytes]] | None
) -> None:
    """Messages of several publishers, in stretches of any length, pass if each one's own order is right."""
    made = NatsDialect(0)
    each = [units_of(made, publisher) * 4 for publisher in range(3)]
    if fault is not None:
        each[1] = fault(each[1])
    data = b"".join(
        b"".join(units[start : start + stretch]) for start in range(0, 4 * PERIOD, stretch) for units in each
    )
    receiver = InterleavedReceiver(ends[1], [stream_of(made, publisher) for publisher in range(3)], made)

    def receive() -> None:
        for start in range(0, len(data), 3000):
            ends[0].sendall(data[start : start + 3000] + (b"PING\r\n" if start + 3000 >= len(data) else b""))
            receiver.receive()

    if fault is None:
        receive()
        assert [receiver.messages(publisher) for publisher in range(3)] == [4 * PERIOD] * 3
    else:
        with pytest.raises(WrongBytesError):
            receive()


@pytest.mark.parametrize("maker", [HubWebSocketDialect, HubJsonDialect])
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_values_merged_by_the_hub_are_each_checked(
    ends: tuple[socket.socket, socket.socket],
    maker: type[HubWebSocketDialect],
    fault: Callable[[list[bytes]], list[bytes]] | None,
) -> None:
    """However many values the hub puts into one message, each is checked."""
    made = maker(0, 0)
    values = units_of(made)
    receiver = WebSocketReceiver(ends[1], stream_of(made), made)
    if fault is not None:
        values = fault(values)

    def receive() -> None:
        place = 0
        for count in (1, 15, 16, 30, 2):
            chosen = values[place : place + count]
            place += count
            if maker is HubJsonDialect:
                content = b'{"type":"messages","topic":"/bench/stream","values":[' + b"".join(chosen)[:-1] + b"]}"
            else:
                head = bytes((0x90 | count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
                content = b"\x83\xa4type\xa8messages\xa5topic\xad/bench/stream\xa6values" + head + b"".join(chosen)
            frame = websocket_frame(content)
            ends[0].sendall(frame[:5])
            receiver.receive()
            ends[0].sendall(frame[5:])
            receiver.receive()

    if fault is None:
        receive()
        assert receiver.messages(0) == PERIOD
    else:
        with pytest.raises(WrongBytesError):
            receive()


def test_a_payload_tells_its_number() -> None:
    """The sequence number of a payload can be read back, and is missing where there is none."""
    assert payload_number(b"xx" + payload(4711, 3, 16), 2) == 4711
    assert payload_number(b"no number", 0) is None
    assert len(payload(1, 2, 100)) == 100
