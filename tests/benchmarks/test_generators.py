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


def feed(checker: Checker, units: list[bytes], piece: int) -> None:
    data = b"".join(units)
    for start in range(0, len(data), piece):
        checker.feed(data[start : start + piece])


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


def damaged(unit: bytes) -> bytes:
    return unit[:-3] + bytes([unit[-3] ^ 1]) + unit[-2:]


FAULTS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "lost": lambda units: units[:20] + units[21:],
    "repeated": lambda units: units[:20] + units[19:],
    "exchanged": lambda units: [*units[:20], units[21], units[20], *units[22:]],
    "damaged": lambda units: [*units[:20], damaged(units[20]), *units[21:]],
}


@pytest.mark.parametrize("piece", [1, 64, 100_000])
def test_the_right_bytes_are_counted_however_they_are_cut(dialect: Dialect, piece: int) -> None:
    checker = Checker(stream_of(dialect), dialect)
    feed(checker, units_of(dialect) * 3, piece)
    assert checker.messages == 3 * PERIOD * dialect.unit_messages


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("piece", [5, 100_000])
def test_a_fault_is_an_error(dialect: Dialect, fault: str, piece: int) -> None:
    checker = Checker(stream_of(dialect), dialect)
    with pytest.raises(WrongBytesError):
        feed(checker, FAULTS[fault](units_of(dialect)), piece)
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
    units = units_of(made)
    checker = Checker(stream_of(made), made)
    feed(checker, [*units[:9], control, *units[9:], control, control], piece)
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
    ends: tuple[socket.socket, socket.socket], stretch: int, fault: str | None
) -> None:
    made = NatsDialect(0)
    each = [units_of(made, publisher) * 4 for publisher in range(3)]
    if fault is not None:
        each[1] = FAULTS[fault](each[1])
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
    fault: str | None,
) -> None:
    made = maker(0, 0)
    values = units_of(made)
    receiver = WebSocketReceiver(ends[1], stream_of(made), made)
    if fault is not None:
        values = FAULTS[fault](values)

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
