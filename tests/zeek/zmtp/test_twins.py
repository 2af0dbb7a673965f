"""The compiled loops of `peers.zeek.zmtp` and their twins in Python: the same answer to everything."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub import runs
from peers.values.event import Event
from peers.values.extensions import Code
from peers.zeek.zmtp import event_scan, frames, log_records
from peers.zeek.zmtp.event_head import EVENT_BEGINNING, EventHead
from peers.zeek.zmtp.frames import encode_message
from peers.zeek.zmtp.log_batch import LogBatch, LogBatchError
from tests.zeek.zmtp.test_events import events
from tests.zeek.zmtp.test_log_batch import recorded

if importlib.util.find_spec("peers.zeek.zmtp._zmtp") is None:
    pytest.skip("the compiled twin is NOT BUILT here (no C compiler?)", allow_module_level=True)

compiled: Any = importlib.import_module("peers.zeek.zmtp._zmtp")

SOURCE = (Path(__file__).parents[3] / "peers" / "zeek" / "zmtp" / "_zmtp.pyx").read_text()

CONSTANTS = {
    "MORE": frames.MORE,
    "LONG": frames.LONG,
    "HEAD_PARTS": event_scan.HEAD_PARTS,
    "SHORT_HEADER_BYTES": event_scan._SHORT_HEADER_BYTES,
    "LONG_HEADER_BYTES": event_scan._LONG_HEADER_BYTES,
    "LENGTH_BYTES": event_scan._LENGTH.size,
    "RUNS_LIMIT": runs.RUNS_LIMIT,
    "VALUE_HEAD_BYTES": log_records.VALUE_HEAD.size,
    "DEPTH_LIMIT": log_records.DEPTH_LIMIT,
    "PROTOCOLS": log_records._PROTOCOLS,
    "PORT_LIMIT": log_records._PORT_LIMIT,
    "V4_MAPPED_BITS": log_records._V4_MAPPED_BITS,
    "CODE_ADDRESS": Code.ADDRESS,
    "CODE_SUBNET": Code.SUBNET,
    "CODE_PORT": Code.PORT,
    "CODE_ENUM": Code.ENUM,
    "CODE_SET": Code.SET,
    "CODE_RAW_STRING": Code.RAW_STRING,
    "EXTENSION_HEAD_BYTES": 6,
}


def test_constants_are_those_of_python() -> None:
    """Each of them, and none is there that is not compared."""
    found = re.findall(r"^    ([A-Z][A-Z0-9_]+) = (\d+)", SOURCE, re.MULTILINE)
    assert {name: int(value) for name, value in found} == CONSTANTS


def records_of(twin: Any, data: bytes, count: int) -> tuple[bytes, int] | None:
    """Records of a batch, if they can be read."""
    try:
        batch = LogBatch(data)
    except LogBatchError:
        return None
    try:
        found: tuple[bytes, int] = twin.take_records(data, batch._position, batch._columns, min(count, batch.left))
    except ValueError as error:
        _, position = error.args
        return None if position <= len(data) else (b"", -1)
    return found


@given(st.integers(0, 3), st.integers(0, 5000), st.binary(max_size=9), st.integers(0, 5))
def test_records(number: int, place: int, junk: bytes, count: int) -> None:
    """Of recorded batches, whole and damaged."""
    data = bytearray(recorded()[number % len(recorded())])
    place %= len(data)
    data[place : place + len(junk)] = junk
    assert records_of(compiled, bytes(data), count) == records_of(log_records, bytes(data), count)


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-70_000, 70_000))
def test_integers(number: int) -> None:
    """In the shortest form."""
    data = b"\0\0\0\2\0\0\0\0\1" + number.to_bytes(8, "big", signed=True)
    columns = [(b"\xa1i", 2)]
    assert compiled.take_records(data, 0, columns, 1) == log_records.take_records(data, 0, columns, 1)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("kind", [7, 9])
@pytest.mark.parametrize("letter", [b"a", b"\xff"])
def test_lengths(size: int, kind: int, letter: bytes) -> None:
    """Of texts, bytes and names of enums, and of sets of so many bytes."""
    text = kind.to_bytes(4, "big") + b"\0\0\0\0\1" + size.to_bytes(4, "big") + letter * size
    of_set = b"\0\0\0\x0e\0\0\0\0\1" + (1).to_bytes(8, "big") + text
    for data, expected in ((text, kind), (of_set, 14)):
        columns = [(b"\xa1t", expected)]
        assert compiled.take_records(data, 0, columns, 1) == log_records.take_records(data, 0, columns, 1)


def test_many_elements_and_many_fields() -> None:
    """Heads of arrays and maps of all lengths."""
    one = b"\0\0\0\1\0\0\0\0\1" + (1).to_bytes(8, "big")
    for count in (0, 1, 15, 16, 65_535, 65_536):
        data = b"\0\0\0\x13\0\0\0\0\1" + count.to_bytes(8, "big") + one * count
        assert compiled.take_records(data, 0, [(b"\xa1v", 19)], 1) == log_records.take_records(
            data, 0, [(b"\xa1v", 19)], 1
        )
    for count in (0, 15, 16, 17, 1000):
        columns = [(b"\xa1f", 1)] * count
        assert compiled.take_records(one * count, 0, columns, 1) == log_records.take_records(one * count, 0, columns, 1)


@given(st.lists(events | st.binary(max_size=20)), st.integers(0, 400), st.sampled_from([100, 500, 1 << 20]))
def test_events(parts: list[Any], cut: int, limit_bytes: int) -> None:
    """Whole, cut short, with what is none between them, and with heads that are not known."""
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
    given_ = wire, 0, heads, table, limit_bytes, EVENT_BEGINNING
    assert compiled.find_events(*given_) == event_scan.find_events(*given_)


@given(st.binary(max_size=100))
def test_garbage(garbage: bytes) -> None:
    """With a head that is known in front."""
    head = EventHead(b"zeek.a", b"x")
    heads = {head.encode(): head.routing_key}
    payload = Event("e").encode()
    wire = bytearray(head.encode() + bytes((0, len(payload))) + payload + head.encode() + garbage)
    given_ = wire, 0, heads, {head.routing_key: 1}, 1 << 20, EVENT_BEGINNING
    assert compiled.find_events(*given_) == event_scan.find_events(*given_)
