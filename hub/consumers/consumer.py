"""`Consumer`: position, deliveries and acknowledgements of a named consumer.

```
journal ── offer ─▶ READY, by key ── take ─▶ OUT, with a member ── acknowledge ─▶ done: `position` moves on
                      ▲                        │ expire, leave, give_back
                      └────────────────────────┴── failed too often ─▶ `dead` ── buried ─▶ done
```

While a message of a key is OUT, all messages of the key go to the same member, so that they are processed in order. A
redelivered message takes back all later OUT messages of its key; only the first of them counts as failed. Times are
arguments. The caller offers nothing while `is_full`. A message costs 3 µs for offer, take and acknowledge together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heapify, heappop, heappush
from typing import Annotated, Any, NamedTuple

import msgspec

from hub.journal.block import Record
from hub.messages.frame import Encoding

NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"  # name of a consumer: it stands in logs, metrics and commands
PREFIXES_LIMIT = 64  # most prefixes of a consumer: they are compared for each piece that is read
_TOPIC_CHARACTERS = 1024
_KEY_PATTERN = r"""^(topic|all|none|field:[^"\\\x00-\x1f]{1,256})\Z"""
"""A field of at most so many characters may be a path: `id.orig_h`. msgspec cannot look for the excluded ones."""

_Text = Annotated[str, msgspec.Meta(max_length=_TOPIC_CHARACTERS)]


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of a named consumer."""

    prefixes: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1, max_length=PREFIXES_LIMIT)]
    key: Annotated[str, msgspec.Meta(pattern=_KEY_PATTERN)] = "topic"  # "topic", "all", "none" or "field:NAME"
    redeliver_s: Annotated[float, msgspec.Meta(ge=0.1, le=86_400.0)] = 30.0  # to acknowledge a message, seconds
    deliveries: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0  # failures that make a dead letter; 0: never
    dead_letters: _Text = ""  # topic for dead letters; empty for none


class Progress(msgspec.Struct, frozen=True):
    """The saved state of a consumer; all else is redelivered after a restart."""

    position: int  # everything wanted and recorded before this offset is done
    acknowledged: tuple[int, ...] = ()  # later offsets that are done, ascending
    failures: dict[int, int] = {}  # offset → failures of messages that are not done

    def before(self, offset: int) -> Progress:
        """Return it without records from an offset on: they are lost, and their offsets are reused."""
        return Progress(
            min(self.position, offset),
            tuple(each for each in self.acknowledged if each < offset),
            {each: times for each, times in self.failures.items() if each < offset},
        )


@dataclass(slots=True, eq=False)
class Key:
    """The messages of one key.

    `out` and `ready` ascend, all of `out` before all of `ready`.
    """

    name: str
    member: Member | None = None  # the member that has the messages in `out`; it alone gets more of them
    out: dict[int, Item] = field(default_factory=dict)
    ready: deque[Item] = field(default_factory=deque)
    delayed: Item | None = None  # the message of `ready` that delays the key until its `due_s`


@dataclass(slots=True, eq=False)
class Member:
    """A member."""

    most_messages: int
    most_bytes: int  # a single message is never too much
    out: dict[int, Item] = field(default_factory=dict)
    out_bytes: int = 0
    own: list[tuple[int, str]] = field(default_factory=list)  # a heap of offset and key of READY messages of its keys

    def has_room_for(self, item: Item) -> bool:
        if not self.out:
            return True
        return len(self.out) < self.most_messages and self.out_bytes + item.size_bytes <= self.most_bytes


ITEM_BYTES = 500  # charged for an item beside its topic and body


class Item:
    """A message that was read and is not done."""

    __slots__ = ("deliveries", "due_s", "failures", "key", "member", "record", "size_bytes")

    def __init__(self, record: Record, key: Key, failures: int) -> None:
        self.record = record
        self.key = key
        self.size_bytes = ITEM_BYTES + len(record.topic) + len(record.body)
        self.deliveries = failures  # deliveries; of those before a restart, only failures are known
        # How often it was the first message of its key that came back without an acknowledgement.
        self.failures = failures
        self.member: Member | None = None
        # When it is delivered again, if it is OUT; when at the earliest, if its key is delayed for it; else 0.
        self.due_s = 0.0


_DUE_SPARE = 64  # outdated entries of the heap of due times, beyond one for each held message, before it is rebuilt


class ConsumerLimits(NamedTuple):
    """Limits of unprocessed messages."""

    messages: int  # from the oldest unprocessed message to the newest one read
    bytes: int


class ConsumerCounters(NamedTuple):
    """Messages since the start."""

    delivered_total: int = 0
    redelivered_total: int = 0  # a part of `delivered_total`
    acknowledged_total: int = 0
    late_total: int = 0  # acknowledgements of messages that the member does not have, or no longer
    dead_total: int = 0
    missed_total: int = 0  # offsets deleted before they were read, wanted or not


class Consumer:
    """One named consumer."""

    def __init__(self, terms: Terms, progress: Progress, limits: ConsumerLimits) -> None:
        self.terms = terms
        self._limits = limits
        self._key_of = order_of(terms.key)  # `agree` does not change the key
        self.read = progress.position  # everything before this offset was read, or need not be
        self._items: dict[int, Item] = {}  # messages that are not done, by offset
        # The offsets from the oldest one that is not done with on, as far as they were offered, in their order.
        self._order: deque[int] = deque()
        self._acknowledged = set(progress.acknowledged)
        # Offset → how often that message has failed, where it has. One goes when it is done with.
        self._failures = dict(progress.failures)
        self._keys: dict[str, Key] = {}  # keys that something is READY or OUT of, by name
        # A heap of offset and key of what is READY of keys that no member has. Entries that are no more true are passed
        # over.
        self._free: list[tuple[int, str]] = []
        # A heap of when an item is due, and its offset. Entries that are no more true are passed over.
        self._due: list[tuple[float, int]] = []
        self.members: dict[Member, None] = {}  # in the order of joining
        self.dead: deque[Item] = deque()  # messages to be published as dead letters, and then `buried`
        self.size_bytes = 0  # charged for all messages that are not done
        self.changes = 0  # grows when `progress` changes
        self._delivered = self._redelivered = self._done = self._late = self._given_up = self._missed = 0

    # Reading.

    @property
    def is_full(self) -> bool:
        return len(self._order) >= self._limits.messages or self.size_bytes >= self._limits.bytes

    def offer(self, record: Record) -> None:
        """Take a wanted record; those that were read before are skipped."""
        offset = record.offset
        if offset < self.read:
            return
        self.reached(offset + 1)
        self._order.append(offset)
        if offset in self._acknowledged:
            self._move_on()
            return
        name = self._key_of(record)
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = Key(name)
        item = self._items[offset] = Item(record, key, self._failures.get(offset, 0))
        self.size_bytes += item.size_bytes
        key.ready.append(item)
        if len(key.ready) == 1:
            self._make_ready(key)

    def reached(self, offset: int) -> None:
        """Note that all wanted records before an offset were offered."""
        if offset > self.read:
            self.read = offset
            self.changes += 1

    def skip_to(self, offset: int) -> None:
        """Go on at an offset: earlier records were deleted."""
        if offset <= self.read:
            return
        self._missed += offset - self.read
        self.reached(offset)
        held = set(self._order)
        self._acknowledged = {each for each in self._acknowledged if each >= offset or each in held}
        self._failures = {each: times for each, times in self._failures.items() if each >= offset or each in held}

    def agree(self, terms: Terms) -> None:
        """Change the terms, but not the prefixes and the key; OUT messages keep their due times."""
        self.terms = terms
        self.changes += 1

    # Members.

    def join(self, member: Member) -> None:
        self.members[member] = None

    def leave(self, member: Member) -> None:
        """Remove a member; its unacknowledged messages go to others, and the first of each key has failed."""
        if member not in self.members:
            return
        del self.members[member]
        for key in {item.key.name: item.key for item in member.out.values()}.values():
            self._take_back(key, 0, has_failed=True)

    def give_back(self, member: Member, offsets: Iterable[int]) -> None:
        """Take back messages that a member has not looked at: none of them has failed."""
        for offset in sorted(offsets):
            item = member.out.get(offset)
            if item is not None:
                self._take_back(item.key, offset, has_failed=False)

    # Deliveries.

    def take(self, member: Member, now_s: float, most_bytes: int) -> list[Item]:
        """Deliver READY messages to a member, the oldest first, up to `most_bytes` but at least one."""
        taken: list[Item] = []
        taken_bytes = 0
        while (key := self._next_key(member)) is not None:
            item = key.ready[0]
            if not member.has_room_for(item) or (taken and taken_bytes + item.size_bytes > most_bytes):
                self._make_ready(key)  # its place was taken from the heap
                break
            key.ready.popleft()
            self._hand_out(item, member, now_s)
            taken_bytes += item.size_bytes
            taken.append(item)
            if key.ready:
                self._make_ready(key)
        self._trim_due()
        return taken

    def _next_key(self, member: Member) -> Key | None:
        """Take the key with the oldest message for a member from the heaps."""
        free = self._true_key(self._free, None)
        own = self._true_key(member.own, member)
        if free is None or (own is not None and member.own[0] < self._free[0]):
            if own is not None:
                heappop(member.own)
            return own
        heappop(self._free)
        return free

    def _true_key(self, heap: list[tuple[int, str]], member: Member | None) -> Key | None:
        """Return the key in front of a heap, without outdated entries."""
        while heap:
            offset, name = heap[0]
            key = self._keys.get(name)
            if (
                key is not None
                and key.member is member
                and key.ready
                and key.ready[0].record.offset == offset
                and key.delayed is None
            ):
                return key
            heappop(heap)
        return None

    def _hand_out(self, item: Item, member: Member, now_s: float) -> None:
        offset = item.record.offset
        item.member = item.key.member = member
        item.key.out[offset] = member.out[offset] = item
        member.out_bytes += item.size_bytes
        item.due_s = now_s + self.terms.redeliver_s
        heappush(self._due, (item.due_s, offset))
        self._redelivered += item.deliveries > 0
        item.deliveries += 1
        self._delivered += 1

    def _make_ready(self, key: Key) -> None:
        """Put a key into the heap of its first READY message, unless it is delayed."""
        if key.delayed is not None:
            return
        heap = self._free if key.member is None else key.member.own
        heappush(heap, (key.ready[0].record.offset, key.name))

    # Redelivery.

    @property
    def due_s(self) -> float | None:
        """When to call `expire` next; None for never."""
        due = self._due
        while due:
            at_s, offset = due[0]
            item = self._items.get(offset)
            if item is not None and item.due_s == at_s:
                return at_s
            heappop(due)
        return None

    def expire(self, now_s: float) -> None:
        """Take back messages that were not acknowledged in time; end delays."""
        while (due_s := self.due_s) is not None and due_s <= now_s:
            offset = heappop(self._due)[1]
            item = self._items[offset]
            if item.member is not None:
                self._take_back(item.key, offset, has_failed=True)
            else:
                self._end_delay(item.key)
                self._make_ready(item.key)

    def nak(self, member: Member, offsets: Iterable[int], until_s: float | None) -> list[int]:
        """Take back rejected messages: of each key the first has failed.

        Nothing of their keys is delivered before `until_s`; None: at once. Returns the offsets of all messages that the
        member has lost: these, and later ones of the same keys.
        """
        gone: set[int] = set()
        for offset in sorted(offsets):
            item = member.out.get(offset)
            if item is None:
                self._late += offset not in gone
                continue
            self._end_delay(item.key)
            gone.update(self._take_back(item.key, offset, has_failed=True, until_s=until_s))
        self._trim_due()
        return sorted(gone)

    def in_progress(self, member: Member, offsets: Iterable[int], now_s: float) -> None:
        """Extend the time of messages, and of later ones of the same keys."""
        due_s = now_s + self.terms.redeliver_s
        for offset in sorted(offsets):
            item = member.out.get(offset)
            if item is None:
                self._late += 1
            elif item.due_s != due_s:  # else it stands behind one of these
                for each, other in item.key.out.items():
                    if each >= offset:
                        other.due_s = due_s
                        heappush(self._due, (due_s, each))
        self._trim_due()

    def _end_delay(self, key: Key) -> None:
        if key.delayed is not None:
            key.delayed.due_s = 0.0
            key.delayed = None

    def _trim_due(self) -> None:
        if len(self._due) > 2 * len(self._items) + _DUE_SPARE:
            self._due = [(item.due_s, offset) for offset, item in self._items.items() if item.due_s]
            heapify(self._due)

    def _take_back(self, key: Key, offset: int, *, has_failed: bool, until_s: float | None = None) -> list[int]:
        """Take back the OUT messages of a key from an offset on, and return them; the first may have failed."""
        back = [item for each, item in key.out.items() if each >= offset]
        offsets = [item.record.offset for item in back]
        for item in back:
            self._take_in(item)
        if has_failed and back:
            first = back[0]
            first.failures += 1
            self._failures[first.record.offset] = first.failures
            self.changes += 1
            if first.failures >= self.terms.deliveries > 0:
                self._given_up += 1
                self.dead.append(back.pop(0))
                until_s = None
        key.ready.extendleft(reversed(back))
        if until_s is not None and back:
            key.delayed, back[0].due_s = back[0], until_s
            heappush(self._due, (until_s, offset))
        if key.out and key.ready:
            self._make_ready(key)
        self._let_go(key)
        return offsets

    def _take_in(self, item: Item) -> None:
        member, offset = item.member, item.record.offset
        if member is not None:
            del member.out[offset], item.key.out[offset]
            member.out_bytes -= item.size_bytes
            item.member = None
            item.due_s = 0.0

    def _let_go(self, key: Key) -> None:
        """Free a key for all members, or forget it, if none of its messages is OUT."""
        if key.out:
            return
        key.member = None
        if key.ready:
            self._make_ready(key)
        else:
            del self._keys[key.name]

    # Acknowledgements.

    def acknowledge(self, member: Member, offsets: Iterable[int]) -> None:
        """Mark messages as done; those that the member does not have are only counted."""
        for offset in offsets:
            item = member.out.get(offset)
            if item is None:
                self._late += 1
                continue
            self._take_in(item)
            self._let_go(item.key)
            self._done += 1
            self._finish(item)
        self._move_on()

    def buried(self, item: Item) -> None:
        """Mark a dead letter as published, and so as done."""
        self._finish(item)
        self._move_on()

    def _finish(self, item: Item) -> None:
        offset = item.record.offset
        del self._items[offset]
        self._failures.pop(offset, None)
        self.size_bytes -= item.size_bytes
        self._acknowledged.add(offset)
        self.changes += 1

    def _move_on(self) -> None:
        order, acknowledged = self._order, self._acknowledged
        while order and order[0] in acknowledged:
            acknowledged.remove(order.popleft())

    # How far it has come.

    @property
    def position(self) -> int:
        """Everything wanted and recorded before this offset is done."""
        return self._order[0] if self._order else self.read

    @property
    def out_messages(self) -> int:
        return sum(len(member.out) for member in self.members)

    @property
    def held_messages(self) -> int:
        return len(self._items)

    def progress(self) -> Progress:
        return Progress(self.position, tuple(sorted(self._acknowledged)), dict(self._failures))

    def counters(self) -> ConsumerCounters:
        return ConsumerCounters(
            self._delivered, self._redelivered, self._done, self._late, self._given_up, self._missed
        )


# Which messages keep their order

FIELD = "field:"
_OF_A_FIELD = "\0"  # distinguishes keys of values from topics
_NAMED_BYTES = 64  # longer values are replaced by their digests
_NULL = msgspec.Raw(b"\xc0")  # a field without a value counts as missing
Read = Callable[[bytes | msgspec.Raw], msgspec.Raw | None]


def order_of(key: str) -> Callable[[Record], str]:
    """Return the function that gives the key of a message; messages of one key are delivered in order.

    ```
    "topic"              the topic
    "all"                one key for all
    "none"               each message by itself
    "field:uid"          the field `uid` of the value, over all topics
    "field:id.orig_h"    the field of that name, or `orig_h` in the map `id`
    ```

    Without such a field, or if the value is no map with texts as keys, the key is the topic. Two values of a field are
    the same if their msgpack is: 5 and "5" differ, and so do 5 and 5.0.
    """
    match key:
        case "topic":
            return lambda record: record.topic
        case "all":
            return lambda _: ""
        case "none":
            return lambda record: str(record.offset)
        case _:
            return _by_field(key.removeprefix(FIELD))


def _by_field(name: str) -> Callable[[Record], str]:
    read = _reader(name)

    def key_of(record: Record) -> str:
        value = read(record.body) if record.encoding == Encoding.MSGPACK else None
        return record.topic if value is None else _OF_A_FIELD + _named(bytes(value))

    return key_of


def _named(value: bytes) -> str:
    return (value if len(value) <= _NAMED_BYTES else sha256(value).digest()).decode("latin-1")


def _reader(name: str) -> Read:
    """Return the function that finds a field: under its whole name, or within a map."""
    outer, dot, inner = name.partition(".")
    whole = _field_reader(name)
    if not (dot and outer and inner):
        return whole
    first, rest = _field_reader(outer), _reader(inner)

    def read(data: bytes | msgspec.Raw) -> msgspec.Raw | None:
        if (found := whole(data)) is not None:
            return found
        within = first(data)
        return None if within is None else rest(within)

    return read


def _field_reader(name: str) -> Read:
    map_with: Any = msgspec.defstruct("MapWithField", [("value", msgspec.Raw, _NULL)], rename={"value": name})
    decode = msgspec.msgpack.Decoder(map_with).decode

    def read(data: bytes | msgspec.Raw) -> msgspec.Raw | None:
        try:
            found: msgspec.Raw = decode(data).value
        except msgspec.DecodeError:
            return None
        return None if found == _NULL else found

    return read
