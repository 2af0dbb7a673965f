"""The outbound buffer: order, batching, and the bound in bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import Batch, encode_value
from hub.errors import BusyError, CloseCode, InvalidTopicError, RejectedError
from hub.frame import iterate_frames
from peers.client.publications import BATCH_BYTES, Publications
from peers.client.values import decode_batch


def frames_of(publications: Publications) -> list[tuple[str, int]]:
    frames = b"".join(publications.take(2**40))
    return [(frame.key.decode(), frame.messages) for frame in iterate_frames(frames)]


calls = st.lists(st.tuples(st.sampled_from(["/a", "/b"]), st.binary(max_size=200)), max_size=60)


@given(calls, st.sets(st.integers(0, 60)), st.integers(1, 300))
def test_order_and_bytes(published: list[tuple[str, bytes]], turns: set[int], limit_bytes: int) -> None:
    publications = Publications()
    taken: list[bytes] = []
    for number, (topic, value) in enumerate(published):
        publications.append(topic, encode_value(value))
        assert (
            publications.buffered_messages + sum(frame.messages for frame in iterate_frames(b"".join(taken)))
            == number + 1
        )
        if number in turns:
            taken += publications.take(limit_bytes)
    while publications:
        taken += publications.take(limit_bytes)
    messages, bad = decode_batch(Batch(b"".join(taken), 1))
    assert [(message.topic, message.value) for message in messages] == published
    assert not bad
    assert publications.buffered_bytes == 0
    assert publications.published_messages == len(published)
    keys = [frame.key for frame in iterate_frames(b"".join(taken))]
    if not turns:
        assert all(one != other for one, other in pairwise(keys))


@given(st.lists(st.tuples(st.sampled_from(["/a", "/b"]), st.integers(0, 300)), max_size=50), st.integers(100, 2000))
def test_bound(published: list[tuple[str, int]], limit_bytes: int) -> None:
    publications = Publications(limit_bytes)
    accepted = []
    for topic, size in published:
        before = publications.buffered_messages
        try:
            publications.append(topic, encode_value(bytes(size)))
        except (BusyError, RejectedError):
            assert publications.buffered_messages == before
        else:
            accepted.append((topic, size))
        assert 0 <= publications.buffered_bytes <= limit_bytes
    held = publications.buffered_bytes
    frames = b"".join(publications.take(2**40))
    assert len(frames) <= held
    messages, _ = decode_batch(Batch(frames, 1))
    assert [(message.topic, len(message.value)) for message in messages] == accepted


def test_batches_end() -> None:
    publications = Publications()
    for _ in range(5000):
        publications.append("/a", b"\x01")
    assert frames_of(publications) == [("/a", 4096), ("/a", 904)]
    for size in (BATCH_BYTES - 3, 10, BATCH_BYTES * 2, 1):
        publications.append("/a", bytes(size))
    assert frames_of(publications) == [("/a", 1), ("/a", 1), ("/a", 1), ("/a", 1)]
    publications.append("/a", b"\x01")
    publications.seal()
    publications.append("/a", b"\x01")
    publications.append("/b", b"\x01")
    assert frames_of(publications) == [("/a", 1), ("/a", 1), ("/b", 1)]


def test_refused() -> None:
    publications = Publications(1000)
    publications.append("/a", b"\x01")
    for topic in ("", "x" * 1025, "/\x7f", "$hub/x"):
        with pytest.raises(InvalidTopicError):
            publications.append(topic, b"\x01")
    with pytest.raises(RejectedError, match="buffer_bytes are 1000") as caught:
        publications.append("/a", bytes(1001))
    assert caught.value.code == CloseCode.TOO_BIG
    with pytest.raises(BusyError):
        publications.append("/a", bytes(938))
    publications.append("/a", b"\x02")
    assert frames_of(publications) == [("/a", 2)]


def test_fitting_another_hub() -> None:
    publications = Publications()
    for number in range(10):
        publications.append("/a", encode_value(bytes([number] * 500)))
    publications.append("/big", encode_value(bytes(3000)))
    publications.append("/end", b"\x01")
    assert publications.fit(2000) == 1
    with pytest.raises(RejectedError, match="the hub takes at most 2000"):
        publications.append("/a", bytes(2001))
    publications.append("/last", bytes(2000))
    taken = publications.take(2**40)
    assert all(len(frame.body) <= 2000 for frame in iterate_frames(b"".join(taken)))
    messages, _ = decode_batch(Batch(b"".join(taken[:-1]), 1))
    assert [message.value[0] for message in messages[:-1]] == list(range(10))
    assert messages[-1].topic == "/end"
    assert publications.buffered_bytes == 0
    assert publications.fit(16 * 1024 * 1024) == 0
