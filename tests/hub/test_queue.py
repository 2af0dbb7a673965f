"""The bounded queue against a naive one that knows every single message."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.handlers.queue import BoundedQueue
from hub.limits import Overflow, QueueLimits
from hub.messages.batch import BATCH_OVERHEAD_BYTES, Batch, decode_values, encode_value
from hub.messages.frame import BATCH_COUNT, HEADER_BYTES
from hub.quotas import Resource, Usage, Whole
from hub.scheduling.memory import HeldBatches, Memory
from tests.hub.fakes import FLAG_BROKER, ROOMY, Shape, numbers_of, opaque_frame, shapes

KEY_BYTES = len("/t")
HELD = HeldBatches(Memory().account("queues"))


def offer(queue: BoundedQueue, batch: Batch, overflow: Overflow) -> None:
    if queue.append_whole(batch):
        return
    if overflow is Overflow.DROP_OLDEST:
        queue.append_dropping_oldest(batch)
    else:
        queue.append_dropping_newest(batch)


# The naive queue.


@dataclass
class NaiveFrame:
    packed: bool
    values: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return (
            HEADER_BYTES + KEY_BYTES + BATCH_COUNT.size * self.packed + sum(size_bytes for _, size_bytes in self.values)
        )


NaiveBatch = list[NaiveFrame]


def naive_batch(shape: Shape, first: int) -> NaiveBatch:
    frames = zip(shape.values(first), shape.frames, strict=True)
    return [
        NaiveFrame(packed, [(value[0], len(encode_value(value))) for value in values]) for values, (_, packed) in frames
    ]


def size_of(batch: NaiveBatch) -> int:
    return BATCH_OVERHEAD_BYTES + sum(frame.size_bytes for frame in batch) if batch else 0


def numbers_in(batches: list[NaiveBatch]) -> list[int]:
    return [number for batch in batches for frame in batch for number, _ in frame.values]


class NaiveQueue:
    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self.items: list[NaiveBatch | int] = []
        self.lost = 0

    @property
    def batches(self) -> list[NaiveBatch]:
        return [item for item in self.items if not isinstance(item, int)]

    @property
    def messages(self) -> int:
        return len(numbers_in(self.batches))

    @property
    def size_bytes(self) -> int:
        return sum(map(size_of, self.batches))

    def offer(self, batch: NaiveBatch) -> None:
        if self.limits.overflow is Overflow.DROP_OLDEST:
            self.items.append(batch)
            while self.messages > self.limits.messages or self.size_bytes > self.limits.bytes:
                self._lose_oldest()
        else:
            self._offer_newest(batch)

    def _lose_oldest(self) -> None:
        if not isinstance(self.items[0], int):
            self.items.insert(0, 0)
        gap, first = self.items[:2]
        assert isinstance(gap, int)
        assert not isinstance(first, int)
        del first[0].values[0]
        if not first[0].values:
            del first[0]
        if not first:
            del self.items[1]
        self.items[0] = gap + 1
        self.lost += 1

    def _offer_newest(self, batch: NaiveBatch) -> None:
        kept: NaiveBatch = []
        self.items.append(kept)
        values = [(frame.packed, value, index) for index, frame in enumerate(batch) for value in frame.values]
        for place, (packed, value, index) in enumerate(values):
            if index == len(kept):
                kept.append(NaiveFrame(packed))
            kept[-1].values.append(value)
            if self.messages > self.limits.messages or self.size_bytes > self.limits.bytes:
                del kept[-1].values[-1]
                self._lose_newest(len(values) - place)
                break

    def _lose_newest(self, messages: int) -> None:
        kept = self.items[-1]
        assert not isinstance(kept, int)
        if not kept[-1].values:
            del kept[-1]
        if not kept:
            del self.items[-1]
        self.lost += messages
        if self.items and isinstance(self.items[-1], int):
            messages += self.items.pop()  # type: ignore[operator]
        self.items.append(messages)

    def drop(self, messages: int) -> None:
        if self.limits.overflow is Overflow.DROP_OLDEST:
            for _ in range(messages):
                self._lose_oldest()
            return
        self.lost += messages
        gap = messages
        while messages or (self.items and isinstance(self.items[-1], int)):
            last = self.items.pop()
            if isinstance(last, int):
                gap += last
            else:
                messages -= len(numbers_in([last]))
        assert not messages, "a batch was cut"
        if gap:
            self.items.append(gap)

    def take_gap(self) -> int:
        return self.items.pop(0) if self.items and isinstance(self.items[0], int) else 0  # type: ignore[return-value]

    def take(self, limit_bytes: int) -> list[NaiveBatch]:
        taken: list[NaiveBatch] = []
        while self.items and not isinstance(self.items[0], int) and sum(map(size_of, taken)) < limit_bytes:
            taken.append(self.items.pop(0))  # type: ignore[arg-type]
        return taken

    def clear(self) -> None:
        gaps = sum(item for item in self.items if isinstance(item, int))
        self.lost += self.messages
        gap = gaps + self.messages
        self.items = [gap] if gap else []


class QueueAgainstNaive(RuleBasedStateMachine):
    @initialize(
        messages=st.sampled_from((1, 2, 5, 16, ROOMY.messages)),
        limit_bytes=st.sampled_from((1, 180, 250, 600, 1500, 4000, ROOMY.bytes)),
        overflow=st.sampled_from((Overflow.DROP_OLDEST, Overflow.DROP_NEWEST)),
        is_users=st.booleans(),
    )
    def start(self, messages: int, limit_bytes: int, overflow: Overflow, *, is_users: bool) -> None:
        self.limits = QueueLimits(messages, limit_bytes, overflow)
        self.memory = Memory()
        whole = Whole(Resource.QUEUED_BYTES, ROOMY.bytes)
        self.usage = Usage(whole, "alice", limit_bytes if is_users else ROOMY.bytes, lambda: None)
        limits = QueueLimits(messages, ROOMY.bytes if is_users else limit_bytes, overflow)
        self.real = BoundedQueue(limits, HeldBatches(self.memory.account("queues")), self.usage)
        self.naive = NaiveQueue(self.limits)
        self.offered = 0
        self.taken = 0
        self.told = 0

    @rule(shape=shapes)
    def offer(self, shape: Shape) -> None:
        offer(self.real, shape.batch(self.offered), self.limits.overflow)
        self.naive.offer(naive_batch(shape, self.offered))
        self.offered += shape.messages

    @rule(more=st.lists(shapes, min_size=3, max_size=6))
    def offer_several(self, more: list[Shape]) -> None:
        for shape in more:
            self.offer(shape)
            self.same()

    @rule()
    def take_gap(self) -> None:
        gap = self.real.take_gap()
        assert gap == self.naive.take_gap()
        self.told += gap
        assert self.real.size_bytes == self.naive.size_bytes, "lost messages still pin memory when the rest is taken"

    @rule(limit_bytes=st.sampled_from((1, 300, 1000, 1 << 30)))
    def take(self, limit_bytes: int) -> None:
        taken = self.real.take(limit_bytes)
        numbers = numbers_of(taken)
        naive = self.naive.take(limit_bytes)
        assert numbers == numbers_in(naive)
        assert [batch.size_bytes for batch in taken] == [size_of(batch) for batch in naive]
        self.taken += len(numbers)

    @rule()
    def clear(self) -> None:
        self.real.clear()
        self.naive.clear()

    @rule(surplus_bytes=st.sampled_from((1, 300, 1000)))
    def drop(self, surplus_bytes: int) -> None:
        before = self.real.messages, self.real.size_bytes
        if self.limits.overflow is Overflow.DROP_OLDEST:
            self.real.drop_oldest(surplus_bytes)
        else:
            self.real.drop_newest(surplus_bytes)
        self.naive.drop(before[0] - self.real.messages)
        assert before[1] - self.real.size_bytes >= min(surplus_bytes, before[1])

    @invariant()
    def same(self) -> None:
        assert self.real.messages == self.naive.messages
        assert self.real.lost_messages == self.naive.lost
        assert bool(self.real) == bool(self.naive.items)
        assert 0 <= self.real.messages <= self.limits.messages
        assert self.naive.size_bytes <= self.real.size_bytes <= self.limits.bytes
        assert self.offered == self.taken + self.real.messages + self.real.lost_messages
        assert self.memory.charged_bytes == self.usage.held == self.real.size_bytes

    def teardown(self) -> None:
        while self.real:
            self.take_gap()
            self.take(ROOMY.bytes)
        assert self.told == self.real.lost_messages
        assert self.real.size_bytes == self.real.messages == 0


TestQueueAgainstNaive = QueueAgainstNaive.TestCase
TestQueueAgainstNaive.settings = settings(max_examples=settings().max_examples // 2)


# Bodies that cannot be split.


opaque = st.tuples(st.integers(2, 6), st.sampled_from((0, FLAG_BROKER)))
pieces = st.one_of(shapes, opaque)


def mixed_batch(parts: list[Shape | tuple[int, int]], first: int) -> Batch:
    frames = []
    number = first
    for part in parts:
        if isinstance(part, Shape):
            frames.append(part.batch(number).frames)
            number += part.messages
        else:
            frames.append(opaque_frame(part[0], b"\xc1" * 9, flags=part[1]))
            number += part[0]
    return Batch(b"".join(frames), number - first)


def place_after(batch: Batch, place: int) -> int:
    for part in batch.parts():
        try:
            numbers = [number for number, _ in decode_values(part)]
        except ValueError:
            pass
        else:
            assert numbers == list(range(place, place + part.messages))
        place += part.messages
    return place


@given(
    st.sampled_from((Overflow.DROP_OLDEST, Overflow.DROP_NEWEST)),
    st.sampled_from((3, 10, ROOMY.messages)),
    st.sampled_from((250, 600, 2000, ROOMY.bytes)),
    st.lists(st.one_of(st.lists(pieces, min_size=1, max_size=4), st.none()), max_size=25),
)
def test_what_cannot_be_split_is_accounted_for(
    overflow: Overflow, messages: int, limit_bytes: int, steps: list[list[Shape | tuple[int, int]] | None]
) -> None:
    limits = QueueLimits(messages, limit_bytes, overflow)
    queue = BoundedQueue(limits, HELD)
    offered = place = 0
    for step in [*steps, *[None] * (3 * len(steps) + 3)]:
        if step is None:
            place += queue.take_gap()
            for batch in queue.take(1):
                place = place_after(batch, place)
        else:
            batch = mixed_batch(step, offered)
            offered += batch.messages
            offer(queue, batch, overflow)
        assert 0 <= queue.messages <= messages
        assert 0 <= queue.size_bytes <= limit_bytes
    assert not queue
    assert queue.messages == queue.size_bytes == 0
    assert place == offered
