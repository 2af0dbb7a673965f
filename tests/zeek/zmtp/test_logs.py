"""Zeek's log batches: the recordings, every type, and what cannot be one."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.labels.envelope import Envelope
from hub.messages.batch import value_ends
from hub.messages.frame import iterate_frames
from hub.messages.stretch import Run
from peers.values import ext_hook
from peers.values.conversion import json_of, untyped_extension
from peers.wire.scanner import NEED_DATA
from peers.zeek.zmtp.events import NoEvent
from peers.zeek.zmtp.frames import Command, encode_command, encode_message
from peers.zeek.zmtp.logs import FIELDS_LIMIT, RECORDS_AT_ONCE, LogBatch, LogBatchError, LogSession
from peers.zeek.zmtp.session import Ended, Greeting, Ready, encode_properties
from tests.zeek.zmtp.test_events import Table

FOLDER = Path(__file__).with_name("recorded")

UNIT = bytes.fromhex(
    "0000000c" + b"Log::UNKNOWN".hex() + "00000010" + b"Log::WRITER_NONE".hex() + "00000007" + b"default".hex()
    + "00000007" + b"my-path".hex() + "00000001" + "00" + "00000002" + b"ts".hex() + "000000050000001600"
    + "00000002" + "0000000500000016013ff0000000000000" + "0000000500000016014000000000000000"
)  # fmt: skip
"""The batch in Zeek's own unit test."""


def recorded() -> list[bytes]:
    lines = (FOLDER / "z03-log-batches.jsonl").read_text().splitlines()
    return [bytes.fromhex(json.loads(line)["parts"][3]) for line in lines]


def batch(kind: int, *values: bytes, element: int = 0) -> bytes:
    head = b"".join(struct.pack(">I", len(text)) + text for text in (b"S::LOG", b"W", b"default", b"s"))
    field = b"\0\0\0\0\1f" + struct.pack(">IIB", kind, element, 1)
    return head + b"\0\0\0\1" + field + struct.pack(">I", len(values)) + b"".join(values)


def value(kind: int, data: bytes | None) -> bytes:
    return struct.pack(">IIB", kind, 0, data is not None) + (data or b"")


def text(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def taken(data: bytes, at_once: int = 3) -> list[bytes]:
    batch, found = LogBatch(data), []
    while batch.left:
        values, records = batch.take(at_once)
        unpacker = msgpack.Unpacker(strict_map_key=False)
        unpacker.feed(values)
        starts = [0]
        for _ in range(records):
            unpacker.skip()
            starts.append(unpacker.tell())
        assert starts[-1] == len(values)
        found += [values[start:end] for start, end in pairwise(starts)]
    return found


def decoded(data: bytes, hook: Any = ext_hook) -> list[Any]:
    return [msgpack.unpackb(record, ext_hook=hook) for record in taken(data)]


def test_logs_of_a_real_cluster() -> None:
    """Each record of each writer is what Zeek's own JSON writer has written at its logger.

    The logger's own records, in `cluster` and `reporter`, were sent to nobody.
    """
    expected: dict[str, list[Any]] = {}
    for line in (FOLDER / "z06-zeek-logs.expected.ndjson").read_text().splitlines():
        one = json.loads(line)
        expected.setdefault(one["path"], []).append(json.loads(one["record"]))
    found: dict[str, list[Any]] = {}
    for line in (FOLDER / "z06-zeek-logs.jsonl").read_text().splitlines():
        data = bytes.fromhex(json.loads(line)["parts"][3])
        found.setdefault(LogBatch(data).path, []).extend(decoded(data, untyped_extension))
    assert found.keys() == expected.keys()
    assert {"conn", "dns", "files", "http", "live", "ssl"} < found.keys()
    for path, records in found.items():
        if path in {"cluster", "reporter"}:
            assert all(record in expected[path] for record in records)
        else:
            assert records == expected[path]


def test_zeeks_own_unit_test() -> None:
    assert decoded(UNIT) == [{"ts": 1.0}, {"ts": 2.0}]


@pytest.mark.parametrize(
    ("kind", "data", "shown"),
    [
        (1, b"\0" * 7 + b"\1", True),
        (2, b"\xff" * 8, -1),
        (3, b"\xff" * 8, 2**64 - 1),
        (4, struct.pack(">d", 0.5), 0.5),
        (6, struct.pack(">d", 1.5), 1.5),
        (7, text(b"\xff"), "\\xff"),
        (9, text(b"tcp"), "tcp"),
        (10, struct.pack(">QI", 53, 2), 53),
        (10, struct.pack(">QI", 200, 1), 200),
        (10, struct.pack(">QI", 33936, 1), 33936),
        (11, b"\4\n\0\0\1", "10.0.0.1"),
        (12, b"\x70\4\n\1\0\0", "10.1.0.0/16"),
        (12, b"\x20\6\x20\1\x0d\xb8" + bytes(12), "2001:db8::/32"),
        (14, struct.pack(">q", 1) + value(7, text(b"x")), ["x"]),
        (14, struct.pack(">q", 2) + 2 * value(10, struct.pack(">QI", 53, 2)), [53, 53]),
        (17, text(b"f"), "f"),
        (18, text(b"F"), "F"),
        (19, struct.pack(">q", 2) + value(7, None) + value(7, text(b"x")), [None, "x"]),
    ],
)
def test_types(kind: int, data: bytes, shown: Any) -> None:
    assert decoded(batch(kind, value(kind, data), value(kind, None)), untyped_extension) == [{"f": shown}, {}]


@pytest.mark.parametrize(
    ("data", "text_"),
    [
        (b"", "byte 0 of 0"),
        (UNIT[:-1], "requires a buffer|bytes are said to follow"),
        (UNIT + b"x", "1 bytes follow the last record"),
        (batch(5, value(7, text(b"x"))), "a value of type 7 in a field of type 5"),
        (batch(8, value(8, b"")), "a value of type 8, which no log has"),
        (batch(10, value(10, struct.pack(">QI", 65536, 1))), "port 65536 of protocol 1"),
        (batch(11, value(11, b"\5")), "an address of the family 5"),
        (batch(12, value(12, b"\x5f\4\n\1\0\0")), "a subnet with a length of -1"),
        (batch(14, value(14, b"\x7f" + b"\xff" * 7)), "elements are said to follow, in 0 bytes"),
        (batch(14, value(14, b"\xff" * 8)), "-1 elements"),
        (batch(5)[:-4] + b"\xff\xff\xff\xff", "4294967295 elements are said to follow"),
        (batch(7, value(7, b"\xff\xff\xff\xff")), "4294967295 bytes are said to follow, and 0 do"),
    ],
)
def test_what_cannot_be_one(data: bytes, text_: str) -> None:
    with pytest.raises(LogBatchError, match=text_):
        taken(data)


def test_limits() -> None:
    nested = value(7, text(b"x"))
    for _ in range(9):
        nested = value(19, struct.pack(">q", 1) + nested)
    with pytest.raises(LogBatchError, match="more than 8 sets and vectors in each other"):
        taken(batch(19, nested))
    head, field = batch(7)[: -4 - 4 - 15], batch(7)[-4 - 15 : -4]
    with pytest.raises(LogBatchError, match="a name of 257 bytes, the limit is 256"):
        taken(head + b"\0\0\0\1\0" + text(b"x" * 257) + bytes(13))
    many = FIELDS_LIMIT + 1
    with pytest.raises(LogBatchError, match="1001 fields, the limit is 1000"):
        taken(head + struct.pack(">I", many) + field * many + bytes(4))


EXPECTED = [json.loads(line) for line in (FOLDER / "z03-log-batches.expected.ndjson").read_text().splitlines()]
HANDSHAKE = Greeting("NULL").encode() + encode_command(Command(b"READY", encode_properties({"Socket-Type": b"PUSH"})))


def opened() -> LogSession[bytes]:
    session = LogSession(1 << 20, Table())
    session.feed(HANDSHAKE)
    assert session.next_event() is None
    assert isinstance(session.next_event(), Ready)
    return session


def drain(session: LogSession[bytes]) -> list[Any]:
    found = []
    while (event := session.next_event()) is not NEED_DATA:
        if event is not None:
            found.append(event)
    return found


def written(data: bytes, node: bytes = b"worker-1") -> bytes:
    return encode_message([b"log-write", node, b"zeek-bin-serializer", data])


def values(run: Run[bytes]) -> list[bytes]:
    (frame,) = iterate_frames(run.frames)
    ends = value_ends(frame)
    assert ends is not None
    return [frame.body[start:end] for start, end in pairwise([4, *ends])]


@given(st.lists(st.integers(1, 3000), max_size=10))
def test_records_are_what_zeeks_json_writer_writes(cuts: list[int]) -> None:
    wire, session, runs = b"".join(map(written, recorded())), opened(), []
    for size in [*cuts, len(wire)]:
        session.feed(wire[:size])
        runs += drain(session)
        wire = wire[size:]
    assert [json.loads(json_of(record) or b"") for run in runs for record in values(run)] == EXPECTED
    assert not session.held_bytes


def test_a_large_batch_is_read_in_steps() -> None:
    records = 2 * RECORDS_AT_ONCE + 1
    session = opened()
    session.feed(written(batch(7, *[value(7, text(b"%d" % number)) for number in range(records)])))
    runs = []
    while session.has_more:
        event = session.next_event()
        if event is not None:
            runs.append(event)
    assert [run.messages for run in runs] == [RECORDS_AT_ONCE, RECORDS_AT_ONCE, 1]
    assert [json.loads(json_of(record) or b"")["f"] for run in runs for record in values(run)] == [
        str(number) for number in range(records)
    ]
    (frame,) = iterate_frames(runs[0].frames)
    assert Envelope.decode(frame.key) == Envelope("/zeek/LOG/s", ("zeek-node=worker-1",))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (encode_message([b"log-write"]), "no log batch: 1 parts"),
        (encode_message([b"log-read", b"", b"zeek-bin-serializer", b""]), "log-read"),
        (written(b""), "byte 0 of 0"),
        (written(batch(7), b"\n"), "control character"),
        (written(batch(7)[:4] + b"\n" * 8), "cannot be read"),
    ],
)
def test_what_is_none(message: bytes, reason: str) -> None:
    session = opened()
    session.feed(message + written(batch(7, value(7, text(b"x")))))
    refused, run = drain(session)
    assert isinstance(refused, NoEvent)
    assert reason in refused.reason
    assert session.rejected_messages == run.messages == 1


@given(st.binary(max_size=200))
def test_garbage(garbage: bytes) -> None:
    session = opened()
    session.feed(garbage)
    assert all(isinstance(event, NoEvent | Ended) for event in drain(session))


@given(st.integers(0, 5000), st.binary(min_size=1, max_size=9))
def test_damaged_batches(place: int, junk: bytes) -> None:
    data = bytearray(recorded()[0])
    place %= len(data)
    data[place : place + len(junk)] = junk
    session = opened()
    session.feed(written(bytes(data)))
    assert all(isinstance(event, NoEvent | Run) for event in drain(session))
