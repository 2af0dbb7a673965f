"""FETCH, RECORDS, STAGE and COMMIT: what is said is what is read, and what cannot be read is refused."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import Frame, iterate_frames
from hub.journal.layout import COLUMNS
from peers.wire.kinds import Kind
from peers.wire.records import (
    FETCH_BYTES,
    FETCH_WAIT_LIMIT_MS,
    PARTS_LIMIT,
    TRANSACTION_LIMIT_BYTES,
    Commit,
    Fetch,
    Records,
    Stage,
    check_records,
    decode_commit,
    decode_fetch,
    decode_records,
    decode_stage,
    encode_commit,
    encode_fetch,
    encode_stage,
    records_parts,
    request_number,
)

requests = st.integers(1, 2**32 - 1)
offsets = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
fetches = st.builds(
    Fetch,
    requests,
    offsets,
    st.none() | offsets,
    st.none() | offsets,
    st.lists(texts, min_size=1, max_size=5).map(tuple),
    st.integers(0, 2**63 - 1),
    st.integers(0, FETCH_WAIT_LIMIT_MS),
    columns=st.none() | st.lists(st.sampled_from(COLUMNS), max_size=4).map(tuple),
    epoch=offsets,
)
commits = st.builds(Commit, requests, texts.filter(bool), texts, offsets, st.lists(offsets, max_size=5), st.booleans())
stages = st.builds(Stage, st.integers(0, 2**32 - 1), texts.filter(bool), st.integers(0, 2**64 - 1), st.binary())
answers = st.builds(
    Records,
    st.integers(0, 2**32 - 1),
    *[st.integers(0, 2**64 - 1)] * 4,
    st.lists(st.binary(max_size=50), max_size=5),
    st.sampled_from([b"", b"0123456789abcdef"]),
    offsets,
)


def only(data: bytes) -> Frame:
    (frame,) = iterate_frames(data)
    return frame


def packed(**fields: Any) -> bytes:
    return msgspec.msgpack.encode(fields)


@given(fetches)
def test_fetch(fetch: Fetch) -> None:
    frame = only(encode_fetch(fetch))
    assert (frame.kind, decode_fetch(frame.body)) == (Kind.FETCH, fetch)
    assert request_number(Kind.FETCH, frame.body) == fetch.request


@given(commits)
def test_commit(commit: Commit) -> None:
    frame = only(encode_commit(commit))
    assert (frame.kind, decode_commit(frame.body)) == (Kind.COMMIT, commit)
    assert request_number(Kind.COMMIT, frame.body) == commit.request


@given(stages)
def test_stage(stage: Stage) -> None:
    frame = only(encode_stage(stage))
    assert (frame.kind, decode_stage(frame.body)) == (Kind.STAGE, stage)
    assert request_number(Kind.STAGE, frame.body) == stage.request


@given(answers)
def test_records(records: Records) -> None:
    body = b"".join(records_parts(records))
    assert decode_records(body) == records
    check_records(memoryview(body), records.request)
    with pytest.raises(ProtocolError, match="they answer"):
        check_records(memoryview(body), records.request + 1)


def test_blocks_are_not_copied() -> None:
    block = b"x" * 1000
    assert any(part is block for part in records_parts(Records(1, 0, 5, 0, 5, [block])))


def test_defaults_are_not_sent() -> None:
    assert decode_fetch(packed(request=7)) == Fetch(7, 0, None, None, ("",), FETCH_BYTES, 0)
    assert only(encode_fetch(Fetch(7))).body == packed(request=7)
    assert decode_commit(packed(request=7, transaction="t")) == Commit(7, "t", "", 0, [], False)


@pytest.mark.parametrize("columns", [["offset", "size"], ["topic"] * 5, "topic", [1]])
def test_columns_that_are_none(columns: Any) -> None:
    with pytest.raises(RejectedError) as caught:
        decode_fetch(packed(request=7, columns=columns))
    assert caught.value.code == CloseCode.BAD_DATA


def test_unknown_fields_are_passed_over() -> None:
    assert decode_fetch(packed(request=7, colour="red")) == Fetch(7)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x90",
        b"\x91" * 100_000,
        packed(),
        packed(request=0),
        packed(request=2**32),
        packed(request=-1),
        packed(request="1"),
        packed(request=1, start=-1),
        packed(request=1, start=2**63),
        packed(request=1, time=1.5),
        packed(request=1, end=-1),
        packed(request=1, prefixes=[]),
        packed(request=1, prefixes="/a"),
        packed(request=1, prefixes=["/a"] * 10_001),
        packed(request=1, bytes=-1),
        packed(request=1, wait_ms=FETCH_WAIT_LIMIT_MS + 1),
        b"\x81\xa7request\xc4",
        b"\x82\xa7request\x01\xa8prefixes\x91\xa1\xff",
    ],
)
def test_a_fetch_that_is_none(body: bytes) -> None:
    with pytest.raises(RejectedError, match=r"^FETCH: ") as caught:
        decode_fetch(body)
    assert caught.value.code == CloseCode.BAD_DATA


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        packed(request=1),
        packed(request=1, transaction=""),
        packed(request=1, transaction="x" * (TRANSACTION_LIMIT_BYTES + 1)),
        packed(request=1, transaction="t", query="x" * (TRANSACTION_LIMIT_BYTES + 1)),
        packed(request=1, transaction="t", batch=-1),
        packed(request=1, transaction="t", batch=2**63),
        packed(request=1, transaction="t", parts=[-1]),
        packed(request=1, transaction="t", parts=[0] * (PARTS_LIMIT + 1)),
        packed(request=1, transaction="t", abort=1),
    ],
)
def test_a_commit_that_is_none(body: bytes) -> None:
    with pytest.raises(RejectedError, match=r"^COMMIT: ") as caught:
        decode_commit(body)
    assert caught.value.code == CloseCode.BAD_DATA


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0\1\0",
        b"\0\0\0\1\0\0" + bytes(8),
        b"\0\0\0\1\1\0" + b"x" * 256 + bytes(8),
        b"\0\0\0\1\0\1x" + bytes(7),
        b"\0\0\0\1\0\5t" + bytes(8),
        b"\0\0\0\1\0\1\xff" + bytes(8),
    ],
)
def test_a_stage_that_is_none(body: bytes) -> None:
    with pytest.raises(RejectedError, match=r"^STAGE: ") as caught:
        decode_stage(body)
    assert caught.value.code == CloseCode.BAD_DATA


@given(st.binary(max_size=60))
def test_anything_else(body: bytes) -> None:
    for decode in (decode_fetch, decode_commit, decode_stage):
        with contextlib.suppress(RejectedError):
            decode(body)
    for kind in (Kind.FETCH, Kind.STAGE, Kind.COMMIT):
        assert 0 <= request_number(kind, body) < 1 << 32


@pytest.mark.parametrize(
    ("kind", "body", "number"),
    [
        (Kind.FETCH, packed(request=7, start=-1), 7),
        (Kind.COMMIT, packed(request=7), 7),
        (Kind.STAGE, b"\0\0\0\7\0\0", 7),
        (Kind.FETCH, packed(request="7"), 0),
        (Kind.FETCH, b"\xc1", 0),
        (Kind.STAGE, b"\0\0\7", 0),
    ],
)
def test_a_refusal_bears_the_number(kind: Kind, body: bytes, number: int) -> None:
    assert request_number(kind, body) == number


def test_records_cut_anywhere() -> None:
    body = b"".join(records_parts(Records(1, 0, 5, 0, 5, [b"abc", b"", b"defgh"])))
    for size in range(len(body)):
        with pytest.raises(ProtocolError, match="RECORDS"):
            decode_records(body[:size])
        with pytest.raises(ProtocolError, match="RECORDS"):
            check_records(memoryview(body)[:size], 1)
    for more in (b"x", b"x" * 15, b"x" * 17):
        with pytest.raises(ProtocolError, match="RECORDS"):
            decode_records(body + more)


@given(st.binary(max_size=100))
def test_records_of_anything(body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode_records(body)
    with pytest.raises(ProtocolError):
        decode_records(b"\0\0\0\1\xff\xff\xff\xff" + bytes(32) + body)
