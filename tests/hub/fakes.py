"""What the tests of the core share: batches whose messages can be told apart, and an outlet that remembers.

Values are consecutive numbers, so that order and loss can be read off what arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from hub.batch import Batch, decode_values, encode_value
from hub.core import Core
from hub.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, encode_frame
from hub.handler import Handler, Role
from hub.overflow import Overflow, QueueLimits

ROOMY = QueueLimits(messages=1_000_000, bytes=1 << 40)
"""Limits that no test reaches."""

FLAG_BROKER = 0b10
"""The encoding bits of Broker binary: this version does not read the values."""

PIECES = ("", "/", "a", "b", "ab", "é", "漢", "😀", "/a", "a/", "//", "/a/", "/ab", "/a//b", "\N{COMBINING ACUTE ACCENT}")
nasty_texts = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
"""Topics and prefixes of which many are prefixes of each other, with slashes in every place."""


def frame(values: Sequence[Any], *, topic: str = "/t", packed: bool = False, flags: int = 0) -> bytes:
    """One MESSAGES frame: BATCH where `packed` or where the values are not exactly one."""
    body = b"".join(encode_value(value) for value in values)
    if packed or len(values) != 1:
        flags |= FLAG_BATCH
        body = BATCH_COUNT.pack(len(values)) + body
    return encode_frame(KIND_MESSAGES, body, key=topic.encode(), flags=flags)


def opaque_frame(messages: int, garbage: bytes = b"\xc1", *, flags: int = 0) -> bytes:
    """One BATCH frame that says it holds so many messages, and cannot be split."""
    return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(messages) + garbage, key=b"/t", flags=FLAG_BATCH | flags)


def values_of(batches: Iterable[Batch]) -> list[Any]:
    """All values, in order."""
    return [value for batch in batches for part in batch.parts() for value in decode_values(part)]


@dataclass(frozen=True)
class Shape:
    """How many values each frame of a batch holds, and how many bytes its values have beside the number."""

    frames: tuple[tuple[int, bool], ...]
    padding: int = 0

    @property
    def messages(self) -> int:
        """Values in all frames together."""
        return sum(count for count, _ in self.frames)

    def values(self, first: int) -> list[list[list[Any]]]:
        """The values of each frame: `[number, padding]`, the numbers counting up from `first`."""
        starts = [first]
        for count, _ in self.frames:
            starts.append(starts[-1] + count)
        return [[[number, b"." * self.padding] for number in range(start, end)] for start, end in pairwise(starts)]

    def batch(self, first: int) -> Batch:
        """A batch of that shape."""
        parts = zip(self.values(first), self.frames, strict=True)
        return Batch(b"".join(frame(values, packed=packed) for values, (_, packed) in parts), self.messages)


_frame_shapes = st.one_of(
    st.tuples(st.just(1), st.booleans()),
    st.tuples(st.integers(2, 7), st.just(True)),
)
shapes = st.builds(
    Shape,
    st.lists(_frame_shapes, min_size=1, max_size=4).map(tuple),
    st.sampled_from((0, 0, 1, 20, 150)),
)
"""Batches of single frames, of BATCH frames, and mixed, in varied sizes."""


def numbers_of(batches: Iterable[Batch]) -> list[int]:
    """The numbers in batches that a `Shape` made."""
    return [number for number, _ in values_of(batches)]


Told = Batch | int
"""What an outlet was told: a batch, or a gap of so many messages."""


@dataclass
class FakeOutlet:
    """Remembers what it was told. `act` is called after each batch and each gap, in the middle of `send`."""

    act: Callable[[], object] = field(default=lambda: None)
    told: list[Told] = field(default_factory=list)
    writes: int = 0
    closed: list[tuple[int, str]] = field(default_factory=list)

    def send(self, batches: list[Batch]) -> None:
        """Take batches one by one."""
        assert batches, "a write of nothing"
        self.writes += 1
        for batch in batches:
            self.told.append(batch)
            self.act()

    def send_gap(self, lost_messages: int) -> None:
        """Take a gap."""
        assert lost_messages > 0, "a gap of nothing"
        self.told.append(lost_messages)
        self.act()

    def close(self, code: int, text: str) -> None:
        """Take the end."""
        self.closed.append((code, text))

    @property
    def batches(self) -> list[Batch]:
        """What was written, without the gaps."""
        return [item for item in self.told if isinstance(item, Batch)]

    @property
    def gaps(self) -> list[int]:
        """The gaps alone."""
        return [item for item in self.told if isinstance(item, int)]

    @property
    def values(self) -> list[Any]:
        """All values that were written."""
        return values_of(self.batches)


def handler_of(
    outlet: FakeOutlet | None = None,
    *,
    role: Role = Role.CLIENT,
    messages: int = ROOMY.messages,
    limit_bytes: int = ROOMY.bytes,
    overflow: Overflow = Overflow.DROP_OLDEST,
    name: str = "",
) -> Handler:
    """A handler that belongs to no core yet."""
    limits = QueueLimits(messages=messages, bytes=limit_bytes, overflow=overflow)
    return Handler(outlet or FakeOutlet(), role=role, limits=limits, name=name, address="nowhere")


class Turn:
    """A core whose shell is the test: counts how often it was woken."""

    def __init__(self, **limits: int) -> None:
        self.wakes = 0
        self.core = Core(self._wake, **limits)

    def _wake(self) -> None:
        self.wakes += 1

    def join(
        self,
        *prefixes: str,
        role: Role = Role.CLIENT,
        messages: int = ROOMY.messages,
        overflow: Overflow = Overflow.DROP_OLDEST,
        name: str = "",
    ) -> tuple[Handler, FakeOutlet]:
        """Attach a handler and subscribe it."""
        outlet = FakeOutlet()
        handler = handler_of(outlet, role=role, messages=messages, overflow=overflow, name=name)
        self.core.attach(handler)
        self.core.subscribe(handler, prefixes)
        return handler, outlet

    def publish(self, source: Handler, topic: str, *values: Any) -> None:
        """Do what a connection does with a run of frames of one key."""
        batch = Batch.of(topic, values)
        key = next(iter(batch.parts())).routing_key
        route = self.core.routes.table.get(key) or self.core.routes.miss(key)
        self.core.publish(source, route, batch)
