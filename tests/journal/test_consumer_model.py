"""`Consumer`: what members are given, and when again, beside a model that looks at everything each time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.consumers.consumer import ITEM_BYTES, Consumer, ConsumerLimits, Member, Progress, Terms, order_of
from hub.journal.block import Record
from hub.messages.frame import Encoding

_MUCH = 1 << 40
_LIMITS = ConsumerLimits(1_000, _MUCH)


def _record(offset: int, topic: str = "/a", body: bytes = b"\x01") -> Record:
    return Record(offset, 0, topic, 0, body)


def _consumer(records: int = 0, *, progress: Progress | None = None, **terms: Any) -> Consumer:
    consumer = Consumer(Terms(("/",), **terms), progress or Progress(0), _LIMITS)
    for offset in range(records):
        consumer.offer(_record(offset))
    return consumer


def _member(consumer: Consumer, most_messages: int = 1_000, most_bytes: int = _MUCH) -> Member:
    member = Member(most_messages, most_bytes)
    consumer.join(member)
    return member


def _take(consumer: Consumer, member: Member, now_s: float = 0.0, most_bytes: int = _MUCH) -> list[int]:
    return [item.record.offset for item in consumer.take(member, now_s, most_bytes)]


def test_a_restart_goes_on_where_it_was() -> None:
    consumer = _consumer(4, progress=Progress(1, (2,), {3: 1}), deliveries=2)
    member = _member(consumer)
    assert [(item.record.offset, item.deliveries) for item in consumer.take(member, 0.0, _MUCH)] == [(1, 1), (3, 2)]
    assert consumer.counters().redelivered_total == 1
    consumer.acknowledge(member, [1])
    assert consumer.progress() == Progress(3, (), {3: 1})
    consumer.leave(member)
    assert [item.record.offset for item in consumer.dead] == [3]
    late = _consumer(progress=Progress(2, (5,), {7: 1}))
    late.skip_to(10)
    late.skip_to(9)
    assert late.progress() == Progress(10)
    assert late.counters().missed_total == 8


def test_what_comes_too_late() -> None:
    consumer = _consumer(3, redeliver_s=10.0)
    first, second = _member(consumer, most_messages=2), _member(consumer)
    assert _take(consumer, first) == [0, 1]
    assert consumer.due_s == 10.0
    consumer.expire(10.0)
    assert _take(consumer, second, 10.0) == [0, 1, 2]
    consumer.acknowledge(first, [0, 1])
    assert consumer.nak(first, [2, 7], 5.0) == []
    assert (consumer.position, consumer.counters().late_total) == (0, 4)
    consumer.in_progress(first, [0], 15.0)
    consumer.in_progress(second, [1], 15.0)
    assert (consumer.due_s, consumer.counters().late_total) == (20.0, 5)
    consumer.leave(first)
    consumer.leave(first)
    assert list(consumer.members) == [second]


def test_what_is_not_acknowledged_may_come_again_later() -> None:
    consumer = _consumer(redeliver_s=10.0)
    for offset, topic in enumerate(["/a", "/a", "/b", "/a"]):
        consumer.offer(_record(offset, topic))
    first, second = _member(consumer, most_messages=3), _member(consumer)
    assert _take(consumer, first) == [0, 1, 2]
    assert consumer.nak(first, [0], 5.0) == [0, 1]
    consumer.offer(_record(4, "/a"))
    assert (_take(consumer, first), _take(consumer, second)) == ([], [])
    assert consumer.due_s == 5.0
    consumer.expire(5.0)
    assert _take(consumer, second, 5.0) == [0, 1, 3, 4]
    assert consumer.nak(second, [1], 8.0) == [1, 3, 4]
    assert consumer.progress().failures == {0: 1, 1: 1}
    consumer.acknowledge(second, [0])
    assert _take(consumer, second, 5.0) == []
    for _ in range(1_000):
        consumer.give_back(first, [2])
        assert _take(consumer, first, 5.0) == [2]
    assert len(consumer._due) < 100


def test_work_that_takes_longer() -> None:
    consumer = _consumer(redeliver_s=10.0)
    for offset, topic in enumerate(["/a", "/a", "/b"]):
        consumer.offer(_record(offset, topic))
    member = _member(consumer)
    assert _take(consumer, member) == [0, 1, 2]
    for step in range(1, 1_000):
        consumer.in_progress(member, [0], step / 1024)
    assert consumer.due_s == 10.0
    consumer.expire(10.0)
    assert _take(consumer, member, 10.0) == [2]
    assert consumer.due_s == 10 + 999 / 1024
    assert len(consumer._due) < 100


def test_a_member_has_no_more_than_it_may() -> None:
    consumer = _consumer()
    for offset in range(4):
        consumer.offer(_record(offset, body=bytes(1_000)))
    member = _member(consumer, most_bytes=2 * (ITEM_BYTES + 1_002))
    assert _take(consumer, member) == [0, 1]
    assert _take(consumer, member) == []
    consumer.acknowledge(member, [0, 1])
    assert _take(consumer, member, most_bytes=1) == [2]


def test_full_by_the_oldest_that_is_not_done_with() -> None:
    consumer = Consumer(Terms(("/",), key="none"), Progress(0), ConsumerLimits(3, _MUCH))
    member = _member(consumer)
    for offset in range(3):
        consumer.offer(_record(offset))
    assert consumer.is_full
    _take(consumer, member)
    consumer.acknowledge(member, [1, 2])
    assert consumer.is_full
    consumer.acknowledge(member, [0])
    assert not consumer.is_full
    large = Consumer(Terms(("/",)), Progress(0), ConsumerLimits(100, 1_000))
    large.offer(_record(0, body=bytes(1_000)))
    assert large.is_full


class _Naive:
    def __init__(self, key: str, deliveries: int) -> None:
        self.key = key
        self.deliveries = deliveries
        self.items: dict[int, list[Any]] = {}  # offset → key, who has it, when it is due, failures
        self.delayed: dict[str, float] = {}
        self.dead: set[int] = set()
        self.done: set[int] = set()

    def offer(self, offset: int, topic: str) -> None:
        key = {"topic": topic, "all": "", "none": str(offset)}[self.key]
        self.items[offset] = [key, None, 0.0, 0]

    def take(self, member: int, now_s: float, most: int) -> list[int]:
        taken = []
        for offset in sorted(self.items):
            key, owner = self.items[offset][:2]
            others = {one[1] for one in self.items.values() if one[0] == key and one[1] is not None}
            if owner is not None or others - {member} or key in self.delayed:
                continue
            if sum(one[1] == member for one in self.items.values()) >= most:
                break
            self.items[offset][1:3] = [member, now_s + 10.0]
            taken.append(offset)
        return taken

    def back(self, offsets: list[int], *, failed: bool) -> None:
        seen: set[str] = set()
        for offset in sorted(offsets):
            item = self.items.get(offset)
            if item is None or item[1] is None:
                continue
            for each, one in self.items.items():
                if one[0] == item[0] and each >= offset:
                    one[1] = None
            if failed and item[0] not in seen:
                seen.add(item[0])
                item[3] += 1
                if self.deliveries and item[3] >= self.deliveries:
                    del self.items[offset]
                    self.dead.add(offset)

    def nak(self, offsets: list[int], until_s: float | None) -> None:
        for offset in sorted(offsets):
            item = self.items[offset]
            if item[1] is None:
                continue
            self.delayed.pop(item[0], None)
            self.back([offset], failed=True)
            if until_s is not None and offset in self.items:
                self.delayed[item[0]] = until_s

    def in_progress(self, offsets: list[int], due_s: float) -> None:
        for offset in offsets:
            for each, one in self.items.items():
                if one[0] == self.items[offset][0] and each >= offset and one[1] is not None:
                    one[2] = due_s

    def out(self, member: int) -> list[int]:
        return [offset for offset, one in self.items.items() if one[1] == member]


class ConsumerMachine(RuleBasedStateMachine):
    @initialize(key=st.sampled_from(["topic", "all", "none"]), deliveries=st.integers(0, 3))
    def begin(self, key: Any, deliveries: int) -> None:
        self.consumer = Consumer(Terms(("/",), key=key, redeliver_s=10.0, deliveries=deliveries), Progress(0), _LIMITS)
        self.naive = _Naive(key, deliveries)
        self.members = [_member(self.consumer, most_messages=4) for _ in range(3)]
        self.taken: set[int] = set()
        self.again = 0
        self.now_s = 0.0
        self.next = 0

    @rule(topics=st.lists(st.sampled_from("abc"), max_size=5), gap=st.integers(0, 2))
    def offer(self, topics: list[str], gap: int) -> None:
        self.next += gap
        for topic in topics:
            self.consumer.offer(_record(self.next, topic))
            self.naive.offer(self.next, topic)
            self.next += 1

    @rule(number=st.integers(0, 2))
    def take(self, number: int) -> None:
        taken = _take(self.consumer, self.members[number], self.now_s)
        assert taken == self.naive.take(number, self.now_s, 4)
        self.again += len(self.taken.intersection(taken))
        self.taken.update(taken)

    def some(self, number: int, choice: int) -> list[int]:
        if not self.naive.out(number):
            self.offer(["a", "b", "a"], 0)
            self.take(number)
        return [offset for place, offset in enumerate(self.naive.out(number)) if choice & (1 << place)]

    @rule(number=st.integers(0, 2), choice=st.integers(1, 15))
    def acknowledge(self, number: int, choice: int) -> None:
        out = self.some(number, choice)
        self.consumer.acknowledge(self.members[number], out)
        for offset in out:
            del self.naive.items[offset]
            self.naive.done.add(offset)

    @rule(number=st.integers(0, 2), choice=st.integers(1, 15))
    def give_back(self, number: int, choice: int) -> None:
        out = self.some(number, choice)
        self.consumer.give_back(self.members[number], out)
        self.naive.back(out, failed=False)

    @rule(number=st.integers(0, 2), choice=st.integers(1, 15), delay_s=st.sampled_from([0.0, 3.0, 20.0]))
    def nak(self, number: int, choice: int, delay_s: float) -> None:
        out = self.some(number, choice)
        before = self.naive.out(number)
        until_s = self.now_s + delay_s if delay_s else None
        gone = self.consumer.nak(self.members[number], out, until_s)
        self.naive.nak(out, until_s)
        assert gone == sorted(set(before) - set(self.naive.out(number)))

    @rule(number=st.integers(0, 2), choice=st.integers(1, 15))
    def in_progress(self, number: int, choice: int) -> None:
        out = self.some(number, choice)
        self.consumer.in_progress(self.members[number], out, self.now_s)
        self.naive.in_progress(out, self.now_s + 10.0)

    @rule(number=st.integers(0, 2))
    def leave(self, number: int) -> None:
        self.consumer.leave(self.members[number])
        self.naive.back(self.naive.out(number), failed=True)
        self.members[number] = _member(self.consumer, most_messages=4)

    @rule(seconds=st.sampled_from([1.0, 5.0, 11.0]))
    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.consumer.expire(self.now_s)
        self.naive.delayed = {key: at_s for key, at_s in self.naive.delayed.items() if at_s > self.now_s}
        due = [o for o, one in self.naive.items.items() if one[1] is not None and one[2] <= self.now_s]
        by_time: dict[float, list[int]] = {}
        for offset in due:
            by_time.setdefault(self.naive.items[offset][2], []).append(offset)
        for at_s in sorted(by_time):
            self.naive.back(by_time[at_s], failed=True)

    @rule()
    def bury(self) -> None:
        while self.consumer.dead:
            item = self.consumer.dead.popleft()
            assert item.record.offset in self.naive.dead
            self.naive.dead.discard(item.record.offset)
            self.naive.done.add(item.record.offset)
            self.consumer.buried(item)

    @rule()
    def restart(self) -> None:
        progress = self.consumer.progress()
        again = Consumer(self.consumer.terms, progress, _LIMITS)
        known = {offset: one[0] for offset, one in self.naive.items.items()} | dict.fromkeys(self.naive.done, "z")
        for offset in sorted(known | dict.fromkeys(self.naive.dead, "z")):
            again.offer(_record(offset, known.get(offset, "z")))
        again.reached(self.next)
        assert again.held_messages == len(self.naive.items) + len(self.naive.dead)
        assert again.position == min(self.naive.items.keys() | self.naive.dead, default=self.next)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "naive"):
            return
        left = self.naive.items.keys() | self.naive.dead
        assert self.consumer.held_messages == len(left)
        assert self.consumer.position == min(left, default=self.consumer.read)
        assert self.consumer.counters().redelivered_total == self.again
        for number, member in enumerate(self.members):
            assert sorted(member.out) == sorted(self.naive.out(number))
            assert member.out_bytes == sum(item.size_bytes for item in member.out.values())
        failed = {offset: one[3] for offset, one in self.naive.items.items() if one[3]}
        kept = self.consumer.progress()
        assert {o: times for o, times in kept.failures.items() if o not in self.naive.dead} == failed
        assert set(kept.acknowledged) == {o for o in self.naive.done if o >= self.consumer.position}


TestModel = ConsumerMachine.TestCase
TestModel.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
NAMES = st.text(min_size=1, max_size=4).filter(lambda name: _is_key(f"field:{name}"))


def _is_key(key: str) -> bool:
    try:
        msgspec.convert({"prefixes": ["/"], "key": key}, Terms)
    except msgspec.ValidationError:
        return False
    return True


def record(value: Any, topic: str = "/t", offset: int = 0) -> Record:
    return Record(offset, 0, topic, Encoding.MSGPACK, msgspec.msgpack.encode(value))


def test_a_field_of_all_topics() -> None:
    key_of = order_of("field:uid")
    assert key_of(record({"uid": "C1", "x": [1, {}]})) == key_of(record({"a": 2, "uid": "C1"}, "/u"))
    values = ["C1", "C2", 5, "5", 5.0, True, [1], {"a": 1}, "x" * 100, "x" * 101, b"C1", "\0"]
    assert len({key_of(record({"uid": value})) for value in values}) == len(values)


@pytest.mark.parametrize("value", [{}, {"uid": None}, {"id": "C1"}, {1: 2}, [["uid", 1]], "uid", 5, None])
def test_without_the_field(value: Any) -> None:
    assert order_of("field:uid")(record(value, "/zeek/conn")) == "/zeek/conn"


def test_a_field_within_another() -> None:
    key_of = order_of("field:id.orig_h")
    expected = key_of(record({"id.orig_h": "10.0.0.1"}))
    assert expected != "/t"
    assert key_of(record({"id": {"resp_h": "x", "orig_h": "10.0.0.1"}})) == expected
    assert key_of(record({"id": {"orig_h": "x"}, "id.orig_h": "10.0.0.1"})) == expected
    assert order_of("field:a.b.c")(record({"a": {"b.c": 1}})) == order_of("field:a.b.c")(record({"a": {"b": {"c": 1}}}))
    for value in (1, {}, None, {"orig_h": None}):
        assert key_of(record({"id": value})) == "/t"


def test_odd_names_topics_and_spellings() -> None:
    for name in (".", "..", "a.", ".a", "a..b"):
        assert order_of(f"field:{name}")(record({name: 1})) != "/t"
        assert order_of(f"field:{name}")(record({"a": 1})) == "/t"
    key_of = order_of("field:uid")
    spelled = msgspec.msgpack.encode("C1").decode("latin-1")
    assert key_of(record(1, spelled)) != key_of(record({"uid": "C1"}))
    assert key_of(Record(0, 0, "/t", Encoding.BROKER, msgspec.msgpack.encode({"uid": "C1"}))) == "/t"
    no_keys = ["", "field", "field:", "Topic", "topic\n", 'field:"', "field:\\", "field:\n", "field:" + "x" * 257]
    keys = ["topic", "all", "none", "field:id.orig_h", "field:naïve key", "field:" + "x" * 256]
    assert [_is_key(key) for key in no_keys + keys] == [False] * 9 + [True] * 6


@given(JSON, NAMES, st.binary(max_size=40))
def test_any_value(value: Any, name: str, body: bytes) -> None:
    key_of = order_of(f"field:{name}")
    for one in (record({"other": value, name: value}), record(value), Record(0, 0, "/t", Encoding.MSGPACK, body)):
        assert key_of(one) == key_of(one)
    assert (key_of(record({name: value})) == "/t") is (value is None)
