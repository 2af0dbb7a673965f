"""`next_run`, pure and compiled: the same law for both."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, encode_frame, iterate_frames
from peers.wire import runs

NextRun = Callable[[bytes, int, dict[bytes, Any], int], tuple[Any, int, int]]

MAKERS = [pytest.param(runs.next_run, id="pure")]
if importlib.util.find_spec("peers.wire._runs") is not None:
    from peers.wire import _runs

    MAKERS.append(pytest.param(_runs.next_run, id="compiled"))
else:
    skip = pytest.mark.skip(reason="the compiled twin is NOT BUILT here (no C compiler?): only the pure one is tested")
    MAKERS.append(pytest.param(runs.next_run, id="compiled", marks=skip))

both = pytest.mark.parametrize("next_run", MAKERS)

LIMIT_BYTES = 64


def key_of(frame: bytes) -> bytes:
    """The routing key of one whole frame."""
    return next(iterate_frames(frame)).routing_key


def batch(topic: bytes, count: int, body: bytes) -> bytes:
    """A BATCH frame that says it holds `count` values."""
    return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(count) + body, key=topic, flags=FLAG_BATCH)


def naive(data: bytes, position: int, table: dict[bytes, Any], limit_bytes: int) -> tuple[Any, int, int]:
    """One frame at a time, nothing clever."""
    route, start, messages = None, position, 0
    while len(data) - position >= 8:
        body_length = int.from_bytes(data[position : position + 4])
        key_length = int.from_bytes(data[position + 6 : position + 8])
        end = position + 8 + key_length + body_length
        if end > len(data) or body_length > limit_bytes:
            break
        frame = next(iterate_frames(data[position:end]))
        found = table.get(frame.routing_key)
        if found is None or (messages and found is not route):
            break
        is_batch = bool(frame.flags & FLAG_BATCH)
        if is_batch and (body_length <= 4 or not 0 < frame.messages <= min(body_length - 4, 65_536)):
            break
        route, messages, position = found, messages + frame.messages, end
    return (route, position, messages) if messages else (None, start, 0)


topics = st.sampled_from([b"/a", b"/b", b"/c", b"/unknown", b""])
single_frames = st.builds(
    lambda topic, body: encode_frame(KIND_MESSAGES, body, key=topic), topics, st.binary(max_size=LIMIT_BYTES + 8)
)
batch_frames = st.builds(batch, topics, st.integers(0, 12), st.binary(max_size=12))
control_frames = st.builds(encode_frame, st.sampled_from([3, 7, 200]), st.binary(max_size=8))
repeated = st.builds(lambda frame, times: frame * times, single_frames, st.integers(1, 5))
streams = st.lists(st.one_of(single_frames, batch_frames, control_frames, repeated), max_size=8).map(b"".join)


@both
@given(data=streams, cut=st.integers(0, 40), start=st.integers(0, 1))
def test_agrees_with_the_naive_walk(next_run: NextRun, data: bytes, cut: int, start: int) -> None:
    """Whatever the stream holds and wherever the read ends, run, end and count are those of a frame-by-frame walk."""
    one, other = object(), object()
    table: dict[bytes, Any] = {}
    for topic, route in ((b"/a", one), (b"/b", one), (b"/c", other)):
        for flags in (0, FLAG_BATCH):
            table[key_of(encode_frame(KIND_MESSAGES, b"", key=topic, flags=flags))] = route
    data = data[: max(0, len(data) - cut)]
    position = min(len(data), next_run(data, 0, table, LIMIT_BYTES)[1]) if start else 0
    assert next_run(data, position, table, LIMIT_BYTES) == naive(data, position, table, LIMIT_BYTES)


@both
def test_one_topic_is_one_run(next_run: NextRun) -> None:
    """Frames of one topic are one run, of whatever sizes they are; a cut one is left for the next read."""
    frames = [encode_frame(KIND_MESSAGES, b"x" * size, key=b"/a") for size in (5, 5, 5, 9, 5)]
    data = b"".join(frames)
    route = object()
    table = {key_of(frames[0]): route}
    assert next_run(data, 0, table, 100) == (route, len(data), 5)
    assert next_run(data[:-1], 0, table, 100) == (route, len(data) - len(frames[-1]), 4)


@both
def test_one_route_is_one_run(next_run: NextRun) -> None:
    """Topics with the same route object go on; another route ends the run."""
    frames = [encode_frame(KIND_MESSAGES, b"x", key=topic) for topic in (b"/a", b"/b", b"/a", b"/c")]
    one, other = object(), object()
    table = {key_of(frames[0]): one, key_of(frames[1]): one, key_of(frames[3]): other}
    data = b"".join(frames)
    end = len(data) - len(frames[3])
    assert next_run(data, 0, table, 100) == (one, end, 3)
    assert next_run(data, end, table, 100) == (other, len(data), 1)


@both
def test_leaves_what_is_no_hit(next_run: NextRun) -> None:
    """Unknown keys, bodies over the limit and impossible counts are no run; nothing is said of them."""
    frame = encode_frame(KIND_MESSAGES, b"x" * 10, key=b"/a")
    table = {key_of(frame): object(), key_of(batch(b"/a", 1, b"x")): object()}
    assert next_run(frame, 0, {}, 100) == (None, 0, 0)
    assert next_run(frame, 0, table, 9) == (None, 0, 0)
    for bad in (batch(b"/a", 0, b"x"), batch(b"/a", 2, b"x"), batch(b"/a", 2**32 - 1, b"x" * 20), batch(b"/a", 1, b"")):
        assert next_run(bad, 0, table, 100) == (None, 0, 0)
    assert next_run(b"", 0, table, 100) == (None, 0, 0)
    assert next_run(frame[:7], 0, table, 100) == (None, 0, 0)
