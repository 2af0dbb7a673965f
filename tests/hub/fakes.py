"""What the tests of the core share: batches whose messages can be told apart, and an outlet that remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from hub.core import Core, Outside
from hub.errors import RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import ANY_FRAME_BYTES, Handler
from hub.labels.envelope import Envelope
from hub.limits import CoreLimits, Overflow, QueueLimits
from hub.mesh.announcement import Announcement, Interest
from hub.messages.batch import Batch, decode_values, encode_value
from hub.messages.frame import (
    BATCH_COUNT,
    FLAG_BATCH,
    FLAG_TAGGED,
    HEADER_BYTES,
    KIND_MESSAGES,
    encode_frame,
    iterate_frames,
)
from hub.messages.request_frame import Item
from hub.messages.stretch import Stretch, find_runs
from hub.prefixes import Change

ROOMY = QueueLimits(messages=1_000_000, bytes=1 << 40)  # Limits that no test reaches
FLAG_BROKER = 0b10  # The encoding bits of Broker binary: this version does not read the values
PIECES = ("", "/", "a", "b", "ab", "é", "\N{COMBINING ACUTE ACCENT}", "😀", "/a", "a/", "//", "/a/", "/ab", "/a//b")
# Topics and prefixes of which many are prefixes of each other, with slashes in every place
nasty_texts = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)


def frame(values: Sequence[Any], *, topic: str = "/t", packed: bool = False, flags: int = 0) -> bytes:
    body = b"".join(encode_value(value) for value in values)
    if packed or len(values) != 1:
        flags |= FLAG_BATCH
        body = BATCH_COUNT.pack(len(values)) + body
    return encode_frame(KIND_MESSAGES, body, key=topic.encode(), flags=flags)


def opaque_frame(messages: int, garbage: bytes = b"\xc1", *, flags: int = 0) -> bytes:
    return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(messages) + garbage, key=b"/t", flags=FLAG_BATCH | flags)


def values_of(batches: Iterable[Batch]) -> list[Any]:
    return [value for batch in batches for part in batch.parts() for value in decode_values(part)]


@dataclass(frozen=True)
class Shape:
    frames: tuple[tuple[int, bool], ...]
    padding: int = 0

    @property
    def messages(self) -> int:
        return sum(count for count, _ in self.frames)

    def values(self, first: int) -> list[list[list[Any]]]:
        starts = [first]
        for count, _ in self.frames:
            starts.append(starts[-1] + count)
        return [[[number, b"." * self.padding] for number in range(start, end)] for start, end in pairwise(starts)]

    def batch(self, first: int) -> Batch:
        parts = zip(self.values(first), self.frames, strict=True)
        return Batch(b"".join(frame(values, packed=packed) for values, (_, packed) in parts), self.messages)


_frame_shapes = st.one_of(st.tuples(st.just(1), st.booleans()), st.tuples(st.integers(2, 7), st.just(True)))
shapes = st.builds(
    Shape, st.lists(_frame_shapes, min_size=1, max_size=4).map(tuple), st.sampled_from((0, 0, 1, 20, 150))
)
"""Batches of single frames, of BATCH frames, and mixed, in varied sizes."""


def numbers_of(batches: Iterable[Batch]) -> list[int]:
    return [number for number, _ in values_of(batches)]


Told = Batch | int | Item  # What an outlet was told: a batch, a gap of so many messages, a request or a reply


@dataclass
class FakeOutlet:
    act: Callable[[], object] = field(default=lambda: None)
    on_close: Callable[[], object] = field(default=lambda: None)
    told: list[Told] = field(default_factory=list)
    writes: int = 0
    closed: list[tuple[int, str]] = field(default_factory=list)

    def send(self, batches: list[Batch]) -> None:
        self._write(batches)

    def send_gap(self, lost_messages: int) -> None:
        assert lost_messages > 0, "a gap of nothing"
        self.told.append(lost_messages)
        self.act()

    def post(self, items: list[Item]) -> None:
        self._write(items)

    def _write(self, told: Sequence[Told]) -> None:
        assert told, "a write of nothing"
        self.writes += 1
        for one in told:
            self.told.append(one)
            self.act()

    def take(self) -> list[Item]:
        posted = [item for item in self.told if not isinstance(item, Batch | int)]
        self.told = [item for item in self.told if isinstance(item, Batch | int)]
        return posted

    def close(self, code: int, text: str) -> None:
        self.closed.append((code, text))
        self.on_close()

    @property
    def batches(self) -> list[Batch]:
        return [item for item in self.told if isinstance(item, Batch)]

    @property
    def gaps(self) -> list[int]:
        return [item for item in self.told if isinstance(item, int)]

    @property
    def values(self) -> list[Any]:
        return values_of(self.batches)

    @property
    def messages(self) -> list[tuple[str, Any]]:
        parts = [part for batch in self.batches for part in batch.parts()]
        return [(part.topic.decode(), value) for part in parts for value in decode_values(part)]


def handler_of(
    outlet: FakeOutlet | None = None,
    *,
    role: Role = Role.CLIENT,
    messages: int = ROOMY.messages,
    limit_bytes: int = ROOMY.bytes,
    overflow: Overflow = Overflow.DROP_OLDEST,
    name: str = "",
    frame_limit_bytes: int = ANY_FRAME_BYTES,
    **more: Any,
) -> Handler:
    """Make a handler, which can send requests and replies if it is given an outlet."""
    limits = QueueLimits(messages=messages, bytes=limit_bytes, overflow=overflow)
    more |= {"name": name, "address": "nowhere", "frame_limit_bytes": frame_limit_bytes}
    return Handler(outlet or FakeOutlet(), role=role, limits=limits, poster=outlet, **more)


def publish(core: Core, topic: str, *values: Any, source: Handler | None = None) -> None:
    batch = Batch.of(topic, values)
    core.publish(source or handler_of(), core.routes.of(next(iter(batch.parts())).routing_key), batch)


def frame_of(topic: str | Envelope, value: Any) -> bytes:
    if isinstance(topic, Envelope):
        return Batch.under(topic.encode(), [value], FLAG_TAGGED).frames
    return Batch.of(topic, [value]).frames


def bring(core: Core, source: Handler, frames: Iterable[bytes], *, singly: bool = True) -> list[tuple[str, int]]:
    """Publish frames of one read; return what the scanner refuses, and how many messages that are."""
    data, position = b"".join(frames), 0
    refused: list[tuple[str, int]] = []
    core.write_is_due = True
    while position < len(data):
        runs = find_runs(data, position, core.routes.table, len(data))
        if not runs[0]:
            frame = next(iterate_frames(data[position:]))
            try:
                core.routes.miss(frame.routing_key)
            except RejectedError as error:
                refused.append((error.text, frame.messages))
                position += HEADER_BYTES + len(frame.key) + len(frame.body)
            continue
        stretch = Stretch(data, position, runs)
        if singly and len(runs[0]) == 1:
            run = stretch.run(0)
            core.publish(source, run.route, run)
        else:
            core.publish_stretch(source, stretch)
        position = runs[1][-1]
    core.end_read()
    return refused


def at_once(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def mesh_link(core: Core, handler: Handler, *interests: Interest) -> bytes:
    hub = handler.id.to_bytes(16)
    core.link(handler, hub, lambda: None)
    core.mesh.hear(handler, Announcement(hub, 0, 1, "", ((core.mesh.hub, 1),), interests))
    while core.scheduler.is_busy:
        core.flush()
    return hub


class Turn(Outside):
    def __init__(self, limits: CoreLimits = CoreLimits(), **settings: Any) -> None:  # noqa: B008 -- frozen
        self.wakes = 0
        self.core = Core(self, limits, **settings)

    def wake(self) -> None:
        self.wakes += 1

    def join(
        self,
        *prefixes: str,
        role: Role = Role.CLIENT,
        **terms: Any,
    ) -> tuple[Handler, FakeOutlet]:
        outlet = FakeOutlet()
        handler = handler_of(outlet, role=role, **terms)
        self.core.attach(handler)
        if role is Role.LINK:
            mesh_link(self.core, handler, *prefixes)
        else:
            self.core.subscribe(handler, prefixes)
        return handler, outlet

    def publish(self, source: Handler, topic: str, *values: Any) -> None:
        publish(self.core, topic, *values, source=source)

    def read(self, source: Handler, messages: Sequence[tuple[str | Envelope, Any]]) -> None:
        refused = bring(self.core, source, [frame_of(topic, value) for topic, value in messages], singly=False)
        assert not refused


def place_after(told: list[Told], place: int) -> int:
    for item in told:
        if isinstance(item, int):
            place += item
        elif isinstance(item, Batch):
            numbers = numbers_of([item])
            assert numbers == list(range(place, place + len(numbers))), "out of order, or missing without a gap"
            place += len(numbers)
    return place


class Bench:
    def __init__(
        self, messages: int = ROOMY.messages, limit_bytes: int = ROOMY.bytes, overflow: Overflow = Overflow.DROP_OLDEST
    ) -> None:
        self.outlet = FakeOutlet()
        self.handler = handler_of(self.outlet, messages=messages, limit_bytes=limit_bytes, overflow=overflow)
        self.dirty = 0
        self.drops = 0
        self.offered = 0
        self.handler.attach(7, self._on_dirty, self._on_drop)

    def _on_dirty(self, handler: Handler) -> None:
        assert handler is self.handler
        self.dirty += 1

    def _on_drop(self, handler: Handler) -> None:
        assert handler is self.handler
        self.drops += 1

    def offer(self, shape: Shape | int = 1) -> None:
        if isinstance(shape, int):
            shape = Shape(((shape, True),))
        first, self.offered = self.offered, self.offered + shape.messages
        pending = self.pending_messages
        paused = not self.handler.writable
        self.handler.offer(shape.batch(first))
        assert not paused or self.pending_messages <= pending, "only the queue is bounded"

    def flush(self) -> None:
        while self.dirty:
            self.dirty = 0
            self.handler.flush()

    @property
    def pending_messages(self) -> int:
        return self.handler.held_messages - self.handler.queued_messages

    def check(self) -> None:
        place_after(self.outlet.told, 0)
        seen = self.handler.statistics()
        assert seen.delivered_messages == len(numbers_of(self.outlet.batches))
        told = [item for item in self.outlet.told if not isinstance(item, int)]
        assert seen.delivered_bytes == sum(
            item.frames_bytes if isinstance(item, Batch) else item.size_bytes for item in told
        )
        held = seen.queued_messages + self.pending_messages
        assert self.offered == seen.delivered_messages + seen.dropped_messages + held

    def check_end(self) -> None:
        self.outlet.act = lambda: None
        self.handler.resume()
        self.flush()
        assert place_after(self.outlet.told, 0) == self.offered
        assert sum(self.outlet.gaps) == self.handler.dropped_messages
        assert self.handler._waiting is None, "an idle handler has no queue"
        self.check()


class Replies:
    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.known: set[str] = set()

    def __call__(self, change: Change) -> None:
        self.changes.append(change)
        assert self.known.isdisjoint(change.added)
        self.known |= set(change.added)
        assert self.known.issuperset(change.removed)
        assert set(change.added).isdisjoint(change.removed)
        self.known -= set(change.removed)
