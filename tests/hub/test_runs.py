"""`find_runs` and `join_runs`, pure and compiled: the same law for both; and the constants of twins."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.journal import layout, packing
from hub.messages import frame, runs
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, encode_frame, iterate_frames

TWINS = [pytest.param(runs, id="pure")]


if importlib.util.find_spec("hub.messages._runs") is not None:
    from hub.messages import _runs

    TWINS.append(pytest.param(_runs, id="compiled"))
else:
    skip = pytest.mark.skip(reason="the compiled twin is NOT BUILT here (no C compiler?): only the pure one is tested")
    TWINS.append(pytest.param(runs, id="compiled", marks=skip))


both = pytest.mark.parametrize("twin", TWINS)
Runs = tuple[list[Any], list[int], list[int]]
LIMIT_BYTES = 64


def key_of(frame: bytes) -> bytes:
    return next(iterate_frames(frame)).routing_key


def batch(topic: bytes, count: int, body: bytes) -> bytes:
    return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(count) + body, key=topic, flags=FLAG_BATCH)


def naive(data: bytes, position: int, table: dict[bytes, Any], limit_bytes: int) -> Runs:
    routes: list[Any] = []
    ends: list[int] = []
    counts: list[int] = []
    while len(data) - position >= 8:
        body_length = int.from_bytes(data[position : position + 4])
        key_length = int.from_bytes(data[position + 6 : position + 8])
        end = position + 8 + key_length + body_length
        if end > len(data) or body_length > limit_bytes:
            break
        frame = next(iterate_frames(data[position:end]))
        found = table.get(frame.routing_key)
        if found is None:
            break
        is_batch = bool(frame.flags & FLAG_BATCH)
        if is_batch and (body_length <= 4 or not 0 < frame.messages <= min(body_length - 4, 65_536)):
            break
        if not routes or routes[-1] is not found:
            routes.append(found)
            ends.append(position)
            counts.append(0)
        ends[-1] = position = end
        counts[-1] += frame.messages
    return routes, ends, counts


topics = st.sampled_from([b"/a", b"/b", b"/c", b"/unknown", b""])

single_frames = st.builds(
    lambda topic, body: encode_frame(KIND_MESSAGES, body, key=topic), topics, st.binary(max_size=LIMIT_BYTES + 8)
)

batch_frames = st.builds(batch, topics, st.integers(0, 12), st.binary(max_size=12))
control_frames = st.builds(encode_frame, st.sampled_from([3, 7, 200]), st.binary(max_size=8))
repeated = st.builds(lambda frame, times: frame * times, single_frames, st.integers(1, 5))
streams = st.lists(st.one_of(single_frames, batch_frames, control_frames, repeated), max_size=8).map(b"".join)


@both
@given(data=streams, cut=st.integers(0, 40), skipped=st.integers(0, 3))
def test_agrees_with_the_naive_walk(twin: ModuleType, data: bytes, cut: int, skipped: int) -> None:
    one, other = object(), object()
    table: dict[bytes, Any] = {}
    for topic, route in ((b"/a", one), (b"/b", one), (b"/c", other)):
        for flags in (0, FLAG_BATCH):
            table[key_of(encode_frame(KIND_MESSAGES, b"", key=topic, flags=flags))] = route
    data = data[: max(0, len(data) - cut)]
    position = (0, *naive(data, 0, table, LIMIT_BYTES)[1])[: skipped + 1][-1]
    assert twin.find_runs(data, position, table, LIMIT_BYTES) == naive(data, position, table, LIMIT_BYTES)


@both
def test_stops_at_its_limit(twin: ModuleType) -> None:
    frames = [encode_frame(KIND_MESSAGES, b"x", key=topic) for topic in (b"/a", b"/b")]
    table = {key_of(frame): object() for frame in frames}
    data = b"".join(frames) * (runs.RUNS_LIMIT // 2 + 1)
    routes, ends, counts = twin.find_runs(data, 0, table, 100)
    assert len(routes) == len(ends) == len(counts) == runs.RUNS_LIMIT
    assert len(data) - ends[-1] == 2 * len(frames[0])
    assert twin.find_runs(data, ends[-1], table, 100)[1] == [len(data) - len(frames[0]), len(data)]


@both
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=12), start=st.integers(0, 5), data=st.data())
def test_joins_any_of_them(twin: ModuleType, sizes: list[int], start: int, data: st.DataObject) -> None:
    read = bytes(range(start + sum(sizes)))
    places = [start + sum(sizes[: number + 1]) for number in range(len(sizes))]
    messages = data.draw(st.lists(st.integers(1, 70_000), min_size=len(sizes), max_size=len(sizes)))
    chosen = sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1))))
    expected = b"".join(read[places[number] - sizes[number] : places[number]] for number in chosen)
    assert twin.join_runs(read, start, places, messages, chosen) == (
        expected,
        sum(messages[number] for number in chosen),
    )


@both
def test_refuses_a_run_that_is_not_there(twin: ModuleType) -> None:
    with pytest.raises(IndexError):
        twin.join_runs(b"abc", 0, [1, 2], [1, 1], [2])


HUB = Path(__file__).parents[2] / "hub"

SHARED = {name: getattr(frame, name) for name in ("HEADER_BYTES", "BATCH_LIMIT_MESSAGES", "FLAG_BATCH")}
RUNS = SHARED | {"BATCH_COUNT_BYTES": frame.BATCH_COUNT.size, "RUNS_LIMIT": runs.RUNS_LIMIT}

LAYOUT = (
    *("CHECKED_FROM", "SPARSE", "ENCODINGS", "RECORDS_LIMIT", "TOPIC_LIMIT_BYTES", "SECTION_LIMIT_BYTES"),
    "OFFSET_LIMIT",
)
LIMITS = ("BLOCK_RECORDS", "BLOCK_BYTES", "BLOCK_BYTES_LIMIT", "FRAME_MESSAGES", "FRAME_BYTES", "FRAMES_BYTES")
PACKING = (
    SHARED
    | {name: getattr(layout, name) for name in LAYOUT}
    | {name: getattr(packing, name) for name in LIMITS}
    | {name: getattr(frame, name) for name in ("KIND_MESSAGES", "FLAG_TAGGED")}
    | {
        "HEADER_BYTES": layout.BLOCK_HEADER.size,
        "FRAME_HEADER_BYTES": frame.HEADER_BYTES,
        "BATCH_COUNT_BYTES": frame.BATCH_COUNT.size,
        "TOPIC_LENGTH_BYTES": frame._TOPIC_LENGTH.size,
        "KEY_BYTES_IMPOSSIBLE": 1 << 8 * frame._TOPIC_LENGTH.size,  # more than a length can say
        "KNOWN_TOPICS": 256,  # a size of the twin's alone: it asks no dictionary for those
    }
)


def constants_of(source: str) -> dict[str, int]:
    found = re.findall(r"^(?:cdef \w+|   ) ([A-Z][A-Z0-9_]+) = (\w+)", (HUB / source).read_text(), re.MULTILINE)
    return {name: int(value, 0) for name, value in found}


@pytest.mark.parametrize(("source", "expected"), [("messages/_runs.pyx", RUNS), ("journal/_packing.pyx", PACKING)])
def test_constants_are_those_of_python(source: str, expected: dict[str, int]) -> None:
    assert constants_of(source) == expected


@pytest.mark.parametrize("name", ["LENGTH_BYTES", "FIXED_BYTES"])
def test_tables_of_msgpack_are_those_of_python(name: str) -> None:
    source = (HUB / "journal/_values.pxi").read_text()
    found = re.search(rf"{name} = \[([^]]*)\]", source)
    assert found is not None
    table = [-1 if number == "255" else int(number) for number in re.findall(r"\d+", found[1])]
    assert table == getattr(packing, f"_{name}")[0xC0:0xE0]


NONE: Runs = ([], [], [])


@both
def test_leaves_what_is_no_hit(twin: ModuleType) -> None:
    frame = encode_frame(KIND_MESSAGES, b"x" * 10, key=b"/a")
    table = {key_of(frame): object(), key_of(batch(b"/a", 1, b"x")): object()}
    assert twin.find_runs(frame, 0, {}, 100) == NONE
    assert twin.find_runs(frame, 0, table, 9) == NONE
    for bad in (batch(b"/a", 0, b"x"), batch(b"/a", 2, b"x"), batch(b"/a", 2**32 - 1, b"x" * 20), batch(b"/a", 1, b"")):
        assert twin.find_runs(bad, 0, table, 100) == NONE
    assert twin.find_runs(b"", 0, table, 100) == NONE
    assert twin.find_runs(frame[:7], 0, table, 100) == NONE
