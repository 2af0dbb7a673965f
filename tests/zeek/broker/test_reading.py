"""The reader against a naive one that takes one envelope at a time, for every way to cut the stream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ProtocolError
from hub.messages.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from hub.messages.runs import RUNS_LIMIT
from hub.messages.stretch import Run, Stretch
from peers.wire.scanner import NEED_DATA
from peers.zeek.broker.envelopes import Incoming, Reader, Skipped
from peers.zeek.broker.messages import NIL_ID, TTL, Envelope, EnvelopeType, decode_envelope, encode_envelope
from tests.wire.pair import Table, Way, parts, refusal, runs_in, seen
from tests.zeek.broker.recorded import HIGH, LOW, framed, split

LIMIT_BYTES = 1 << 16
WAYS = {b"/a": "one", b"/b": "one", b"/c": "two"}
STRANGER = bytes(range(16))

DATA = st.builds(
    Envelope,
    sender=st.sampled_from([LOW, LOW, LOW, LOW, STRANGER, NIL_ID, HIGH]),
    receiver=st.sampled_from([NIL_ID, NIL_ID, NIL_ID, HIGH, STRANGER]),
    type=st.sampled_from([EnvelopeType.DATA] * 8 + list(EnvelopeType)),
    topic=st.sampled_from([b"/a", b"/a", b"/b", b"/c", b"/other", b"!no", b""]),
    payload=st.sampled_from([b"\x00", b"\x00", b"\x01\x01", b"x" * 9]),
    ttl=st.sampled_from([TTL, TTL, TTL, 0, 1]),
).map(encode_envelope)

USUAL = st.builds(
    lambda topic, payload: encode_envelope(Envelope(LOW, NIL_ID, EnvelopeType.DATA, topic, payload)),
    st.sampled_from([b"/a", b"/a", b"/b", b"/c"]),
    st.sampled_from([b"\x00", b"\x00", b"\x01\x01"]),
)

STREAMS = st.lists(
    st.one_of(
        st.lists(USUAL, max_size=12).map(b"".join), DATA, st.just(framed(b"")), st.binary(max_size=45).map(framed)
    ),
    max_size=12,
).map(b"".join)


def envelope(topic: bytes = b"/a", payload: bytes = b"\x00", **fields: Any) -> bytes:
    usual = Envelope(LOW, NIL_ID, EnvelopeType.DATA, topic, payload)
    return encode_envelope(usual._replace(**fields))


def reader_of(table: Table, limit_bytes: int = LIMIT_BYTES) -> tuple[Reader[Way], Incoming]:
    incoming = Incoming(limit_bytes)
    return Reader(incoming, table, HIGH, LOW), incoming


def read(pieces: list[bytes]) -> tuple[list[Any], Table]:
    table = Table(WAYS)
    reader, incoming = reader_of(table)
    items: list[Any] = []
    for piece in pieces:
        incoming.feed(piece)
        while (item := reader.next_item()) is not NEED_DATA:
            items.append(item)
        assert incoming.held_bytes <= LIMIT_BYTES + 4
    return list(seen(items)), table


def naive(stream: bytes, table: Table) -> list[Any]:
    out: list[Any] = []
    for frame in split(stream):
        if not frame:
            continue
        try:
            found = decode_envelope(frame)
        except ValueError as error:
            out.append(Skipped(str(error)))
            continue
        if found.type is not EnvelopeType.DATA:
            out.append(found)
        elif found.receiver not in (NIL_ID, HIGH):
            out.append(Skipped("data for another endpoint"))
        elif found.sender != LOW:
            out.append(Skipped(f"data from {found.sender.hex()}, which is not the other side"))
        elif found.topic.startswith(b"!"):
            out.append(Skipped(refusal(found.topic).text))
        else:
            raw = encode_frame(KIND_MESSAGES, found.payload, key=found.topic, flags=BROKER_FLAGS)
            out.append((table.route(found.topic), raw))
    return out


@given(STREAMS, st.lists(st.integers(0, 1200), max_size=6))
def test_a_naive_reader_agrees(stream: bytes, cuts: list[int]) -> None:
    found, table = read(parts(stream, cuts))
    assert found == naive(stream, table)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6))
def test_any_bytes_are_read_or_end_it(stream: bytes, cuts: list[int]) -> None:
    try:
        found, _ = read(parts(stream, cuts))
    except ProtocolError as error:
        assert "the limit is 65536 bytes" in error.text  # noqa: PT017 -- often there is none
    else:
        assert len(found) <= len(stream) // 4


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "envelope of 0 bytes, the shortest has 37"),
        (bytes(36), "envelope of 36 bytes, the shortest has 37"),
        (bytes(38), "unknown type 0"),
        (bytes(32) + b"\x06\x00\x10\x00\x00x", "unknown type 6"),
        (bytes(32) + b"\x01\x00\x10\x00\x02/a", "with a topic of 2 has no payload"),
        (bytes(32) + b"\x01\x00\x10\xff\xff/a", "with a topic of 65535 has no payload"),
    ],
)
def test_what_is_no_envelope(raw: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_envelope(raw)


def test_one_route_is_one_run() -> None:
    table = Table(WAYS)
    reader, incoming = reader_of(table)
    incoming.feed(envelope(b"/a") + envelope(b"/a", b"longer") + envelope(b"/b") + envelope(b"/a"))
    first = reader.next_item()  # /b is not known before it was looked up
    assert incoming.has_more
    second = reader.next_item()
    assert not incoming.has_more
    assert isinstance(first, Run)
    assert isinstance(second, Run)
    assert (first.messages, second.messages) == (2, 2)
    incoming.feed(envelope(b"/a") + envelope(b"/b"))
    third = reader.next_item()
    assert isinstance(third, Run)
    assert (third.messages, incoming.has_more) == (2, False)


def test_several_routes_are_one_stretch() -> None:
    table = Table(WAYS)
    stream = (envelope(b"/a") * 3 + envelope(b"/c") * 2) * 2
    reader, incoming = reader_of(table)
    for key in (b"/a", b"/c"):
        table.miss(encode_frame(KIND_MESSAGES, b"", key=key, flags=BROKER_FLAGS)[4:])
    incoming.feed(stream)
    stretch = reader.next_item()
    assert isinstance(stretch, Stretch)
    assert stretch.messages == [3, 2, 3, 2]
    assert not incoming.has_more
    assert [run.route.name for run in runs_in(stretch)] == ["one", "two", "one", "two"]
    assert reader.next_item() is NEED_DATA


def test_a_subscription_takes_effect_behind_it() -> None:
    table = Table(WAYS)
    reader, incoming = reader_of(table)
    update = envelope(b"<$>", type=EnvelopeType.ROUTING_UPDATE)
    incoming.feed(envelope(b"/a") * 2 + update + envelope(b"/a") * 2)
    names = []
    while (item := reader.next_item()) is not NEED_DATA:
        names += [run.route.name for run in runs_in(item)]
        if isinstance(item, Envelope):
            table.swap(b"/a", "after")
    assert names == ["one", "after"]


def test_a_topic_is_looked_up_once() -> None:
    _, table = read([envelope() + envelope(ttl=1) + envelope(sender=STRANGER) + envelope(receiver=HIGH) + envelope()])
    assert table.misses == 1


def test_a_stretch_is_bounded() -> None:
    table = Table(WAYS)
    reader, incoming = reader_of(table)
    for key in (b"/a", b"/c"):
        table.miss(encode_frame(KIND_MESSAGES, b"", key=key, flags=BROKER_FLAGS)[4:])
    incoming.feed((envelope(b"/a") + envelope(b"/c")) * RUNS_LIMIT)
    first, second = reader.next_item(), reader.next_item()
    assert [len(runs_in(first)), len(runs_in(second))] == [RUNS_LIMIT, RUNS_LIMIT]
