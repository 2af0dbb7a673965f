"""The compiled loops of `peers.zeek.zmtp` and their twins in Python: the same answer to everything."""

from __future__ import annotations

import importlib
import importlib.util
import re
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ProtocolError
from hub.messages import runs
from peers.values import Count, Enum, Port, Set, Table, Timespan, Timestamp, binary
from peers.values.event import Event
from peers.zeek.zmtp import events as zeek_events
from peers.zeek.zmtp import frames, logs
from peers.zeek.zmtp.events import EVENT_BEGINNING, EventHead, is_event
from peers.zeek.zmtp.frames import encode_message
from peers.zeek.zmtp.logs import LogBatch, LogBatchError
from tests.zeek.zmtp.test_events import events
from tests.zeek.zmtp.test_logs import recorded

if importlib.util.find_spec("peers.zeek.zmtp._zmtp") is None:
    pytest.skip("the compiled twin is NOT BUILT here (no C compiler?)", allow_module_level=True)

compiled: Any = importlib.import_module("peers.zeek.zmtp._zmtp")

SOURCE = (Path(__file__).parents[3] / "peers" / "zeek" / "zmtp" / "_zmtp.pyx").read_text()


def test_limits_are_those_of_python() -> None:
    found = {name: int(value) for name, value in re.findall(r"^    ([A-Z_]+_LIMIT) = (\d+)", SOURCE, re.MULTILINE)}
    modules = (frames, runs, binary, logs)
    of_python = {name.lstrip("_"): value for module in modules for name, value in vars(module).items()}
    assert found == {name: of_python[name] for name in found}
    assert len(found) == 5


def records_of(take_records: Any, data: bytes, count: int) -> tuple[bytes, int] | None:
    try:
        batch = LogBatch(data)
    except LogBatchError:
        return None
    try:
        found: tuple[bytes, int] = take_records(data, batch._position, batch._columns, min(count, batch.left))
    except ValueError as error:
        _, position = error.args
        return None if position <= len(data) else (b"", -1)
    return found


@given(st.integers(0, 3), st.integers(0, 5000), st.binary(max_size=9), st.integers(0, 5))
def test_records(number: int, place: int, junk: bytes, count: int) -> None:
    data = bytearray(recorded()[number % len(recorded())])
    place %= len(data)
    data[place : place + len(junk)] = junk
    assert records_of(compiled.take_records, bytes(data), count) == records_of(
        logs.take_records_in_python, bytes(data), count
    )


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-70_000, 70_000))
def test_integers(number: int) -> None:
    data = b"\0\0\0\2\0\0\0\0\1" + number.to_bytes(8, "big", signed=True)
    columns = [(b"\xa1i", 2)]
    assert compiled.take_records(data, 0, columns, 1) == logs.take_records_in_python(data, 0, columns, 1)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("kind", [7, 9])
@pytest.mark.parametrize("letter", [b"a", b"\xff"])
def test_lengths(size: int, kind: int, letter: bytes) -> None:
    text = kind.to_bytes(4, "big") + b"\0\0\0\0\1" + size.to_bytes(4, "big") + letter * size
    of_set = b"\0\0\0\x0e\0\0\0\0\1" + (1).to_bytes(8, "big") + text
    for data, expected in ((text, kind), (of_set, 14)):
        columns = [(b"\xa1t", expected)]
        assert compiled.take_records(data, 0, columns, 1) == logs.take_records_in_python(data, 0, columns, 1)


def test_many_elements_and_many_fields() -> None:
    one = b"\0\0\0\1\0\0\0\0\1" + (1).to_bytes(8, "big")
    for count in (0, 1, 15, 16, 65_535, 65_536):
        data = b"\0\0\0\x13\0\0\0\0\1" + count.to_bytes(8, "big") + one * count
        assert compiled.take_records(data, 0, [(b"\xa1v", 19)], 1) == logs.take_records_in_python(
            data, 0, [(b"\xa1v", 19)], 1
        )
    for count in (0, 15, 16, 17, 1000):
        columns = [(b"\xa1f", 1)] * count
        assert compiled.take_records(one * count, 0, columns, 1) == logs.take_records_in_python(
            one * count, 0, columns, 1
        )


def one_by_one(
    wire: bytearray, heads: dict[bytes, bytes], table: dict[bytes, bytes], limit_bytes: int
) -> tuple[bytes, tuple[list[bytes], list[int], list[int]], int]:
    """Return the same as `find_events`, for as long as whole events with known heads of short frames come."""
    incoming = frames.Incoming(limit_bytes)
    incoming.feed(bytes(wire))
    out, routes, ends, counts, end = b"", list[bytes](), list[int](), list[int](), 0
    with suppress(ProtocolError):
        while isinstance(message := incoming.next_message(), frames.Message) and len(message.ends) == 4:
            key = heads.get(message.frames[: message.ends[2]])
            payload = message.parts[3]
            if key is None or max(map(len, message.parts[:3])) > frames.SHORT_LIMIT or not is_event(payload):
                break
            if not routes or table[key] is not routes[-1]:
                routes.append(table[key])
                ends.append(0)
                counts.append(0)
            out += len(payload).to_bytes(4) + key + payload
            ends[-1], counts[-1], end = len(out), counts[-1] + 1, end + len(message.frames)
    return out, (routes, ends, counts), end


@given(st.lists(events | st.binary(max_size=20)), st.integers(0, 400), st.sampled_from([100, 500, 1 << 20]))
def test_events(parts: list[Any], cut: int, limit_bytes: int) -> None:
    wire = bytearray()
    heads: dict[bytes, bytes] = {}
    for part in parts:
        if isinstance(part, bytes):
            wire += part
            continue
        topic, sender, payload = part
        head = EventHead(topic, sender)
        if sender != b"worker-2" or topic != b"zeek.b":
            heads[head.encode()] = head.routing_key
        wire += encode_message([topic, sender, b"broker-bin-v1", payload])
    del wire[max(0, len(wire) - cut) :]
    table = {key: key for key in heads.values()}
    found = compiled.find_events(wire, 0, heads, table, limit_bytes, EVENT_BEGINNING, is_event)
    assert found == one_by_one(wire, heads, table, limit_bytes)


def deep(levels: int) -> bytes:
    return Event("e").encode()[:-2] + b"\x0e\x01" * (levels + 1) + b"\x00"


values_ = st.recursive(
    st.sampled_from([None, True, 1, 1.5, "x", "x" * 200, b"\xff", Count(1), Enum("A::B"), Port(53, "udp")])
    | st.sampled_from([IPv4Address("192.0.2.1"), IPv6Network("2001:db8::/32"), Timespan(1), Timestamp(1)]),
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | inner.map(lambda one: Table({one: one}))
        | st.lists(inner, max_size=4).map(Set)
    ),
    max_leaves=12,
)
special = (
    [deep(levels) for levels in (0, 11, 12, 13, 96, 97, 98, 99, 1000, 600_000)]
    + [
        *(Event("e", set(range(members))).encode() for members in (0, 31, 32, 33, 300)),
        *(Event("e", dict.fromkeys(range(members), "x")).encode() for members in (0, 31, 32, 33, 300)),
        Event("e").encode()[:-2] + bytes.fromhex("0e01 0d02 0100 00 0100 00"),  # a table with one key twice
        Event("e").encode()[:-2] + bytes.fromhex("0e01 0c0f"),
        Event("e").encode()[:-2] + bytes.fromhex("0e01 0c02 0100 0100"),  # a set of the same twice
        Event("e").encode()[:-2] + bytes.fromhex("0e01 080035 04"),  # a port of no protocol
        Event("e").encode()[:-2] + bytes.fromhex("0e01 07") + bytes(16) + b"\x81",
        Event("e").encode()[:-2] + bytes.fromhex("0e01 0f"),
        Event("e").encode()[:-2] + bytes.fromhex("0e01 05 8080808000"),  # an empty string with a long length
        Event("e").encode()[:-2] + bytes.fromhex("0e01 05 ffffffffffffffffff01"),
        Event("e", tuple([None] * 65_530)).encode(),
        Event("e").encode()[:-2] + b"\x0e\x01\x0e\x80\x80\x04" + bytes(65_536),
        EVENT_BEGINNING,
        EVENT_BEGINNING + b"\x00",
        EVENT_BEGINNING + b"\x01\x05\x01e",
        EVENT_BEGINNING + b"\x02\x05\x01e\x05\x01e",
        EVENT_BEGINNING + b"\x02\x0e\x00\x0e\x00",
        EVENT_BEGINNING + b"\x03\x05\x01e\x0e\x00\x00",
        EVENT_BEGINNING + b"\x03\x05\x01e\x0e\x00\x00\x00",
    ]
)


def taken(payload: bytes) -> bool:
    head = EventHead(b"zeek.a", b"x")
    wire = bytearray(encode_message([*head, payload]))
    heads = {head.encode(): head.routing_key}
    frames_, _, end = compiled.find_events(wire, 0, heads, {head.routing_key: 1}, 1 << 24, EVENT_BEGINNING, is_event)
    assert (end == len(wire)) == bool(frames_)
    data, start = b"before" + payload + b"behind", len(b"before")
    found = compiled.is_event_at(data, start, start + len(payload), is_event)
    assert found == zeek_events.is_event_at_in_python(data, start, start + len(payload), is_event) == bool(frames_)
    return bool(frames_)


@pytest.mark.parametrize("payload", special, ids=lambda payload: f"{payload[21:34].hex()}-{len(payload)}")
def test_payloads_that_need_a_further_look(payload: bytes) -> None:
    assert taken(payload) == is_event(payload)


@given(st.lists(values_, max_size=4), st.data())
def test_payloads(args: list[Any], data: Any) -> None:
    payload = Event("Demo::e", *args).encode()
    assert taken(payload)
    damaged = bytearray(payload)
    place = data.draw(st.integers(len(EVENT_BEGINNING), len(payload) - 1))
    damaged[place] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(len(EVENT_BEGINNING), len(payload)))])
    for one in (bytes(damaged), cut):
        assert taken(one) == is_event(one)


def test_plain_events_are_not_looked_at_in_python() -> None:
    head = EventHead(b"zeek.a", b"x")
    ports = {Port(53, "udp"), Port(53, "tcp")}
    record = (
        None,
        ports,
        {"x": 1, "y": 2},
        "x" * 300,
        IPv4Address("192.0.2.1"),
        IPv6Network("2001:db8::/32"),
        Port(53, "udp"),
        (1, True, 1.5),
    )
    payload = Event("Demo::e", record, Enum("A::B"), Timestamp(1), timestamp=Timestamp(2)).encode()
    wire = bytearray(encode_message([*head, payload]))
    heads = {head.encode(): head.routing_key}
    asked: list[bytes] = []
    compiled.find_events(wire, 0, heads, {head.routing_key: 1}, 1 << 24, EVENT_BEGINNING, asked.append)
    assert asked == []


frames_ = st.lists(
    st.builds(
        frames.encode_frame,
        st.binary(max_size=300) | st.sampled_from([222, 223, 255, 256, 70_000]).map(bytes),
        st.sampled_from([0, frames.MORE, frames.COMMAND]),
    ),
    max_size=6,
)


@given(frames_, st.integers(0, 2**64 - 7), st.binary(min_size=32, max_size=32))
def test_boxes(whole: list[bytes], number: int, key: bytes) -> None:
    traffic = pytest.importorskip("peers.zeek.zmtp.curve", reason="part of the extra `test`")
    arguments = (b"".join(whole), number, b"CurveZMQMESSAGES", key, traffic._SEALER)
    sealed, last = compiled.seal_frames(*arguments)
    assert (sealed, last) == traffic.seal_in_python(*arguments)
    assert last == number + len(whole)


@given(frames_, st.integers(0, 2**63), st.integers(0, 1 << 20), st.integers(0, 255))
def test_opening(whole: list[bytes], number: int, place: int, byte: int) -> None:
    traffic = pytest.importorskip("peers.zeek.zmtp.curve", reason="part of the extra `test`")
    key, prefix = bytes(32), b"CurveZMQMESSAGES"
    sealed, last = traffic.seal_in_python(b"".join(whole), number, prefix, key, 0)
    further = 1 << 20, number, prefix, key, traffic._OPENER
    read = bytearray(b"xx" + sealed)
    assert compiled.open_frames(read, 2, 64, *further) == (b"".join(whole), len(read), last)
    half = len(whole) // 2
    assert compiled.open_frames(read, 2, half, *further)[0] == b"".join(whole[:half])
    assert compiled.open_frames(read[:-1], 2, 64, *further)[0] == b"".join(whole[:-1])
    if whole:
        read[2 + place % len(sealed)] = byte
        opened, end, came = compiled.open_frames(read, 2, 64, *further)
        count = came - number
        assert opened == b"".join(whole[:count])
        assert end == 2 + len(traffic.seal_in_python(opened, number, prefix, key, 0)[0])
    assert compiled.open_frames(bytearray(sealed), 0, 64, 1 << 20, last, prefix, key, traffic._OPENER)[0] == b""


def test_no_number_is_used_twice() -> None:
    traffic = pytest.importorskip("peers.zeek.zmtp.curve", reason="part of the extra `test`")
    for data, number, error in (
        (b"\0\0", 2**64 - 1, OverflowError),
        (b"\0\2x", 0, ValueError),
        (b"\2" + b"\xff" * 8, 0, ValueError),
        (b"\0", 0, ValueError),
    ):
        with pytest.raises(error):
            compiled.seal_frames(data, number, b"CurveZMQMESSAGES", bytes(32), traffic._SEALER)
