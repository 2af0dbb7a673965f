"""The scanner against a naive reader that takes one frame at a time, for every way to cut the stream."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, ProtocolError
from hub.messages.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    HEADER,
    HEADER_BYTES,
    KEY_LIMIT_BYTES,
    Frame,
    encode_frame,
)
from hub.messages.request_frame import Reply, Request
from peers.wire.kinds import Kind
from peers.wire.scanner import Rejected, Scanner
from tests.wire.pair import (
    Seen,
    Table,
    Way,
    encoded,
    frames_of,
    items_of,
    message,
    packed,
    parts,
    refusal,
    runs_in,
    runs_of,
    seen,
)

LIMIT_BYTES = 1 << 20
FLAG_BROKER = 0b10
WAYS = {b"/a": "one", b"/b": "one", b"/c": "two", b"/a/longer": "two"}
"""Two topics that go the same way, two that go another one together, and the rest to nobody."""


def table() -> Table:
    return Table(WAYS)


def apply(routes: Table, frame: Frame) -> None:
    if frame.kind == Kind.SUBSCRIBE:
        routes.swap(frame.body, f"after {frame.body!r}")


def naive(stream: bytes) -> tuple[list[tuple[str, bytes] | Frame | Rejected], bytes]:
    routes = table()
    out: list[tuple[str, bytes] | Frame | Rejected] = []
    accepted = b""
    for frame in frames_of(stream):
        raw = encoded(frame)
        if frame.kind != Kind.MESSAGES:
            out.append(frame)
            apply(routes, frame)
        elif frame.flags & 1 and not good_count(frame.body):
            text = f"BATCH: a body of {len(frame.body)} bytes does not hold the number of values it says"
            out.append(Rejected(CloseCode.BAD_DATA, text, 1))
        elif frame.key.startswith(b"!"):
            out.append(Rejected(CloseCode.BAD_DATA, refusal(frame.key).text, frame.messages))
        else:
            out.append((routes.route(frame.key).name, raw))
            accepted += raw
    return out, accepted


def good_count(body: bytes) -> bool:
    if len(body) < BATCH_COUNT.size:
        return False
    count: int = BATCH_COUNT.unpack_from(body)[0]
    return 1 <= count <= min(len(body) - BATCH_COUNT.size, BATCH_LIMIT_MESSAGES)


def read(scanner: Scanner[Way], routes: Table, pieces: list[bytes]) -> list[Seen]:
    out: list[Seen] = []
    for piece in pieces:
        for item in seen(items_of(scanner, piece)):
            out.append(item)
            if isinstance(item, Frame):
                apply(routes, item)
    return out


def named(items: list[Seen]) -> list[tuple[str, bytes] | Frame | Rejected]:
    return [(item[0].name, item[1]) if isinstance(item[0], Way) else item for item in items]


topics = st.sampled_from([b"/a", b"/a", b"/b", b"/c", b"/a/longer", b"/unknown", b"!refused", b"!other", b"", b"/\xff"])
bodies = st.sampled_from([b"", b"\xc0", b"\xc0", b"\xa3abc", bytes(100), bytes(300)])
singles = st.builds(message, topics, bodies, flags=st.sampled_from([0, 0, 0, FLAG_BROKER]))
batches = st.builds(packed, topics, st.integers(1, 5), flags=st.sampled_from([0, FLAG_BROKER]))
malformed = st.one_of(
    st.builds(packed, topics, st.sampled_from([0, 4, 2**32 - 1]), st.binary(max_size=3)),
    st.builds(lambda topic, body: encode_frame(Kind.MESSAGES, body, key=topic, flags=1), topics, st.binary(max_size=3)),
)
controls = st.one_of(
    st.builds(lambda topic: encode_frame(Kind.SUBSCRIBE, topic), topics),
    st.builds(encode_frame, st.sampled_from([1, 4, 7, 10, 99, 200]), bodies, key=topics, flags=st.integers(0, 255)),
)
repeated = st.builds(lambda frame, times: frame * times, st.one_of(singles, batches), st.integers(2, 6))
streams = st.lists(st.one_of(singles, singles, repeated, batches, malformed, controls), max_size=14).map(b"".join)


@given(stream=streams, data=st.data())
def test_reads_what_a_naive_reader_reads(stream: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    routes = table()
    scanner = Scanner(routes, LIMIT_BYTES)
    expected, accepted = naive(stream)
    out = read(scanner, routes, parts(stream, cuts))
    assert named(out) == expected
    assert b"".join(item[1] for item in out if isinstance(item[0], Way)) == accepted
    assert scanner.held_bytes == 0


@given(stream=streams)
def test_reads_byte_by_byte(stream: bytes) -> None:
    routes = table()
    scanner = Scanner(routes, LIMIT_BYTES)
    out: list[Seen] = []
    whole = {0}
    for frame in frames_of(stream):
        whole.add(max(whole) + len(encoded(frame)))
    for position in range(len(stream)):
        out += read(scanner, routes, [stream[position : position + 1]])
        assert scanner.held_bytes == position + 1 - max(place for place in whole if place <= position + 1)
    assert named(out) == naive(stream)[0]


@given(stream=streams)
def test_runs_are_as_long_as_can_be(stream: bytes) -> None:
    routes = table()
    for frame in frames_of(stream):
        if frame.kind == Kind.MESSAGES and not frame.key.startswith(b"!"):
            routes.miss(frame.routing_key)
    before: object = None
    for item in items_of(Scanner(routes, LIMIT_BYTES), stream):
        for run in runs_in(item):
            assert before is not run.route
            before = run.route
        if not runs_in(item):
            before = None


def test_a_read_that_is_one_run_is_not_copied() -> None:
    routes = table()
    stream = message(b"/a", bytes(1000)) * 20
    scanner = Scanner(routes, LIMIT_BYTES)
    runs_of(scanner, message(b"/a"))
    (run,) = runs_of(scanner, stream)
    assert run.frames is stream


@pytest.mark.parametrize("cut", [None, 3, HEADER_BYTES, HEADER_BYTES + 1])
def test_a_body_over_the_limit(cut: int | None) -> None:
    scanner = Scanner(table(), 100)
    fits, over = message(b"/a", bytes(100)), message(b"/a", bytes(101))
    pieces = [fits + over] if cut is None else [fits + over[:cut], over[cut:]]
    out: list[Seen] = []

    def read_on() -> None:
        for piece in pieces:
            out.extend(seen(items_of(scanner, piece)))

    with pytest.raises(ProtocolError, match="body of 101 bytes, limit 100") as refused:
        read_on()
    assert refused.value.code == CloseCode.TOO_BIG
    assert [item[1] for item in out if isinstance(item[0], Way)] == [fits]


@pytest.mark.parametrize("kind", [Kind.MESSAGES, Kind.PING, 200])
def test_a_key_over_the_limit(kind: int) -> None:
    scanner = Scanner(table(), LIMIT_BYTES)
    assert len(list(items_of(scanner, encode_frame(kind, b"", key=bytes(KEY_LIMIT_BYTES))))) == 1
    with pytest.raises(ProtocolError, match="routing key of 6145 bytes, limit 6144") as refused:
        list(items_of(scanner, HEADER.pack(0, kind, 0, KEY_LIMIT_BYTES + 1)))
    assert refused.value.code == CloseCode.TOO_BIG


def test_the_limit_may_rise_within_a_read() -> None:
    large = message(b"/a", bytes(5000))
    stream = encode_frame(Kind.HELLO, b"") + large
    for cut in (len(stream), 9, 20, len(stream) - 1):
        scanner = Scanner(table(), 100)
        out: list[Seen] = []
        for piece in parts(stream, [cut]):
            for item in items_of(scanner, piece):
                if isinstance(item, Frame) and item.kind == Kind.HELLO:
                    scanner.frame_limit_bytes = 5000
                else:
                    out.extend(seen([item]))
        assert [item[1] for item in out if isinstance(item[0], Way)] == [large]


@pytest.mark.parametrize(("piece_bytes", "most"), [(1024, 2.5), (256 << 10, 1.1)])
def test_a_large_frame_in_pieces_is_copied_once(piece_bytes: int, most: float) -> None:
    size = 4 << 20
    frame = message(b"/a", bytes(size))
    scanner = Scanner(table(), size)
    runs_of(scanner, message(b"/a", b"x"))  # the topic is known then
    pieces = parts(frame, range(piece_bytes, len(frame), piece_bytes))
    tracemalloc.start()
    try:
        for number, piece in enumerate(pieces[:-1], 1):
            assert not list(items_of(scanner, piece))
            assert scanner.held_bytes == number * piece_bytes
        (run,) = runs_of(scanner, pieces[-1])
        assert tracemalloc.get_traced_memory()[1] < most * size
    finally:
        tracemalloc.stop()
    assert run.frames == frame
    assert scanner.held_bytes == 0


def test_a_header_in_pieces_is_kept() -> None:
    scanner = Scanner(table(), LIMIT_BYTES)
    frame = message(b"/a")
    for position in range(HEADER_BYTES - 1):
        assert not list(items_of(scanner, frame[position : position + 1]))
        assert scanner.held_bytes == position + 1


BAD_COUNTS = [
    b"",
    b"\x00\x00\x00",
    BATCH_COUNT.pack(0),
    BATCH_COUNT.pack(1),
    BATCH_COUNT.pack(0) + b"\xc0",
    BATCH_COUNT.pack(2) + b"\xc0",
    BATCH_COUNT.pack(2**32 - 1) + b"\xc0" * 100,
    BATCH_COUNT.pack(BATCH_LIMIT_MESSAGES + 1) + b"\xc0" * (BATCH_LIMIT_MESSAGES + 1),
]


@pytest.mark.parametrize("body", BAD_COUNTS, ids=[f"{body[:6].hex()}-{len(body)}" for body in BAD_COUNTS])
@pytest.mark.parametrize("known", [False, True])
def test_a_batch_that_cannot_hold_what_it_says(body: bytes, *, known: bool) -> None:
    routes = table()
    scanner = Scanner(routes, LIMIT_BYTES)
    bad = encode_frame(Kind.MESSAGES, body, key=b"/a", flags=1)
    good = packed(b"/a", 2)
    if known:
        list(items_of(scanner, good))
    out = list(items_of(scanner, good + bad + good))
    refused = [item for item in out if isinstance(item, Rejected)]
    runs = [run for item in out for run in runs_in(item)]
    assert [(one.code, one.messages) for one in refused] == [(CloseCode.BAD_DATA, 1)]
    assert f"{len(body)} bytes" in refused[0].text
    assert [run.messages for run in runs] == [2, 2]


def test_a_topic_is_looked_up_once() -> None:
    routes = table()
    scanner = Scanner(routes, LIMIT_BYTES)
    list(items_of(scanner, message(b"/a") * 10 + message(b"/c") + message(b"/a")))
    assert routes.misses == 2
    list(items_of(scanner, packed(b"/a", 2)))
    assert routes.misses == 3


@pytest.mark.parametrize("large", [10, 100_000])
def test_requests_and_replies_of_any_size(large: int) -> None:
    items: list[Any] = [Request(b"/sum", 7, 1000, b"r" * large), Reply(9, 0, b"s" * large)]
    scanner = Scanner(table(), LIMIT_BYTES)
    scanner.feed(b"".join(item.encode() for item in items))
    request, reply = scanner.next_item(), scanner.next_item()
    assert isinstance(request, Frame)
    assert isinstance(reply, Frame)
    assert isinstance(request.body, memoryview if large > 4096 else bytes)
    decoded: list[Any] = [Request.decode(request), Reply.decode(reply)]
    assert decoded == items
    assert [type(item.values) for item in decoded] == [bytes, bytes]
