"""Far sides that take smaller frames: what is split, what is lost, and that it is told in its place."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import Batch, decode_values, encode_value
from hub.frame import FLAG_BATCH, iterate_frames
from peers.wire.control import Notice, decode_notice
from peers.wire.kinds import Kind
from peers.wire.oversize import fitting
from tests.hub.fakes import FLAG_BROKER, frame, opaque_frame
from tests.hubs.hub import Hub
from tests.hubs.raw_client import publication

values = st.integers(0, 120).map(bytes)
frames = st.one_of(
    values.map(lambda value: [value]),
    st.lists(values, min_size=1, max_size=8),
)


@given(
    batches=st.lists(st.lists(st.tuples(frames, st.booleans()), min_size=1, max_size=4), max_size=4),
    limit_bytes=st.integers(1, 200),
)
def test_only_values_over_the_limit_are_lost(batches: list[list[tuple[list[bytes], bool]]], limit_bytes: int) -> None:
    made = [
        Batch(
            b"".join(frame(inside, packed=packed) for inside, packed in one),
            sum(len(inside) for inside, _ in one),
        )
        for one in batches
    ]
    sent = [value for one in batches for inside, _ in one for value in inside]
    found: list[bytes | None] = []
    for piece in fitting(made, limit_bytes):
        if isinstance(piece, int):
            found += [None] * piece
            continue
        inside = [value for part in piece.parts() for value in decode_values(part)]
        assert len(inside) == piece.messages
        assert all(len(part.body) <= limit_bytes for part in piece.parts())
        found += inside
    assert found == [value if len(encode_value(value)) <= limit_bytes else None for value in sent]


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=6),
    limit_bytes=st.integers(1, 200),
)
def test_gaps_are_merged(sizes: list[int], limit_bytes: int) -> None:
    pieces = fitting([Batch.of("/t", [bytes(size)]) for size in sizes], limit_bytes)
    for one, other in pairwise(pieces):
        assert not (isinstance(one, int) and isinstance(other, int))


def test_what_fits_is_left_alone() -> None:
    batches = [Batch.of("/t", [1]), Batch(frame([bytes(50)]) * 10, 10)]
    first, second = fitting(batches, 60)
    assert first is batches[0]
    assert isinstance(second, Batch)
    assert second.frames == batches[1].frames
    assert fitting(batches, 10_000) == batches


@pytest.mark.parametrize("large", [opaque_frame(5, b"\xc1" * 100), opaque_frame(5, b"\xc0" * 100, flags=FLAG_BROKER)])
def test_what_cannot_be_split_is_lost_alone(large: bytes) -> None:
    small = frame([1])
    first, lost, second = fitting([Batch(small + large + small, 7)], 50)
    assert isinstance(first, Batch)
    assert isinstance(second, Batch)
    assert (first.frames, lost, second.frames) == (small, 5, small)


def test_a_value_that_fits_only_alone() -> None:
    (piece,) = fitting([Batch(frame([bytes(58)], packed=True), 1)], 60)
    assert isinstance(piece, Batch)
    (part,) = iterate_frames(piece.frames)
    assert not part.flags & FLAG_BATCH
    assert decode_values(part) == [bytes(58)]


async def test_a_client_that_takes_small_frames(hub: Hub) -> None:
    small, large = await hub.client("/a", frame=1000, name="small"), await hub.client("/a")
    publisher = await hub.client()
    batch = [bytes([number]) * 300 for number in range(20)]
    await publisher.send(
        publication("/a", *batch),
        publication("/a", "before"),
        publication("/a", bytes(5000)),
        publication("/a", bytes(6000)),
        publication("/a", "behind"),
    )
    got: list[object] = []
    while got[-1:] != ["behind"]:
        received = await small.frame()
        if received.kind == Kind.NOTICE:
            got.append("2 lost")
            assert decode_notice(received.body) == Notice("dropped", count=2)
            continue
        assert len(received.body) <= 1000
        got += decode_values(received)
    assert got == [*batch, "before", "2 lost", "behind"]
    assert len(await large.values(24)) == 24
    statistics = hub.handler("small").statistics()
    assert (statistics.delivered_messages, statistics.dropped_messages) == (22, 2)
    assert [event.value["lost"] for event in hub.node.core.report_drops()] == [2]


async def test_a_client_that_takes_hardly_anything(hub: Hub) -> None:
    client, publisher = await hub.client("/a", frame=1), await hub.client()
    await publisher.send(publication("/a", 1, 300, 2), publication("/a", "x", "y"), publication("/a", 3))
    assert await client.values(1) == [("/a", 1)]
    assert await client.notice() == Notice("dropped", count=1)
    assert await client.values(1) == [("/a", 2)]
    assert await client.notice() == Notice("dropped", count=2)
    assert await client.values(1) == [("/a", 3)]
