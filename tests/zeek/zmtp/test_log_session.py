"""The side of a logger: log batches become runs of records, a few at a time."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import value_ends
from hub.frame import iterate_frames
from hub.stretch import Run
from hub.tags.envelope import Envelope
from peers.values.conversion import json_of
from peers.wire.scanner import NEED_DATA
from peers.zeek.zmtp.events import NoEvent
from peers.zeek.zmtp.frames import Command, encode_command, encode_message
from peers.zeek.zmtp.logs import RECORDS_AT_ONCE, LogSession
from peers.zeek.zmtp.session import Ended, Greeting, Ready, encode_properties
from tests.zeek.zmtp.test_events import Table
from tests.zeek.zmtp.test_log_batch import batch, recorded, text, value

FOLDER = Path(__file__).with_name("recordings")
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
