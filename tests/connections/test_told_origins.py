"""What a client that has asked is told of where messages have entered the mesh."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from hub.batch import Batch
from hub.frame import iterate_frames
from hub.origin import Origin
from peers.connections.tcp import ToldOrigins, as_they_came
from peers.wire.control import decode_origin
from peers.wire.kinds import Kind

HERE, FAR, FARTHER = b"h" * 16, b"f" * 16, b"g" * 16


def batch(number: int, hub: bytes | None, epoch: int = 1) -> Batch:
    made = Batch.of("/a", [number])
    made.origin = None if hub is None else Origin(hub, epoch)
    return made


def read(pieces: Sequence[bytes]) -> tuple[list[tuple[int, bytes]], int]:
    origin, told = HERE, 0
    found = []
    for frame in iterate_frames(b"".join(pieces)):
        if frame.kind == Kind.ORIGIN:
            origin = decode_origin(frame.body).hub
            told += 1
        else:
            found.append((frame.body[0], origin))
    return found, told


def test_what_is_written_elsewhere_counts() -> None:
    origins = ToldOrigins(HERE, as_they_came)
    assert origins.before(batch(1, HERE)) == b""
    (frame,) = iterate_frames(origins.before(batch(1, FAR)))
    assert decode_origin(frame.body) == Origin(FAR, 1)
    assert read(origins.render([batch(2, FAR)])) == ([(2, HERE)], 0)


@given(st.lists(st.lists(st.sampled_from([None, HERE, FAR, FARTHER]), min_size=1, max_size=6), max_size=6))
def test_each_message_is_read_with_its_origin(writes: list[list[bytes | None]]) -> None:
    origins = ToldOrigins(HERE, as_they_came)
    pieces: list[bytes] = []
    expected = []
    for hubs in writes:
        start = len(expected)
        pieces += origins.render([batch(start + place, hub) for place, hub in enumerate(hubs)])
        expected += [(start + place, hub or HERE) for place, hub in enumerate(hubs)]
    found, told = read(pieces)
    assert found == expected
    ways = [HERE, *(hub for _, hub in expected)]
    assert told == sum(one != other for one, other in itertools.pairwise(ways))
