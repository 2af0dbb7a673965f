"""What the tests of the wire share: a route table, streams of frames, and two sessions on a pretend wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from hub.errors import CloseCode, RejectedError
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, Frame, encode_frame, iterate_frames
from hub.messages.stretch import Run, Stretch
from peers.wire.events import Closing, Event
from peers.wire.hello import FRAME_LIMIT_BYTES, Hello
from peers.wire.scanner import NEED_DATA, Rejected, Scanner, Searched
from peers.wire.session import Session

HUB_ID = bytes(range(16))

CLIENT_HELLO = Hello(protocol=1, role="client", name="reader")
HUB_HELLO = Hello(protocol=1, role="hub", id=HUB_ID, name="far", link=b"the link", mesh=1)


@dataclass(frozen=True, eq=False)
class Way:
    name: str


class Table:
    """A route table that does as the test says. Topics that begin with `!` are refused, others need no subscriber."""

    def __init__(self, ways: dict[bytes, str] | None = None, *, other: str = "nobody") -> None:
        self.table: dict[bytes, Way] = {}
        self.misses = 0
        self._ways = dict(ways or {})
        self._other = other
        self._interned: dict[str, Way] = {}

    def way(self, name: str) -> Way:
        return self._interned.setdefault(name, Way(name))

    def route(self, topic: bytes) -> Way:
        return self.way(self._ways.get(topic, self._other))

    def miss(self, key: bytes) -> Way:
        self.misses += 1
        topic = key[4:]
        if topic.startswith(b"!"):
            raise refusal(topic)
        self.table[key] = self.route(topic)
        return self.table[key]

    def swap(self, topic: bytes, name: str) -> None:
        self._ways[topic] = name
        self.table.clear()


def refusal(topic: bytes) -> RejectedError:
    return RejectedError(CloseCode.BAD_DATA, f"topic {topic!r} is refused")


def message(topic: bytes, body: bytes = b"\xc0", *, flags: int = 0) -> bytes:
    return encode_frame(KIND_MESSAGES, body, key=topic, flags=flags)


def packed(topic: bytes, count: int, body: bytes | None = None, *, flags: int = 0) -> bytes:
    values = b"\xc0" * count if body is None else body
    return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(count) + values, key=topic, flags=flags | FLAG_BATCH)


def parts(stream: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(cut for cut in cuts if 0 < cut < len(stream))})
    return [stream[start:end] for start, end in pairwise(places)]


def frames_of(stream: bytes) -> list[Frame]:
    return list(iterate_frames(stream))


# What comes out, in a form in which it can be compared whatever the runs are.

Item = Run[Way] | Stretch[Way] | Frame | Rejected | Searched

Seen = tuple[Way, bytes] | Frame | Rejected  # one message frame with its route, one control frame, or one refusal


def items_of(scanner: Scanner[Way], data: bytes) -> Iterator[Item]:
    scanner.feed(data)
    while (item := scanner.next_item()) is not NEED_DATA:
        yield item


def runs_of(scanner: Scanner[Way], data: bytes) -> list[Run[Way]]:
    return [run for item in items_of(scanner, data) for run in runs_in(item)]


def runs_in(item: object) -> list[Run[Way]]:
    if isinstance(item, Run):
        return [item]
    return list(item) if isinstance(item, Stretch) else []


def seen(items: Iterable[Item]) -> Iterator[Seen]:
    for item in items:
        runs = runs_in(item)
        if not isinstance(item, Run | Stretch):
            yield item
        if isinstance(item, Stretch):
            assert len(runs) > 1
            assert b"".join(run.frames for run in runs) == item.whole().frames
            assert all(one.route is not other.route for one, other in pairwise(runs))
        for run in runs:
            inside = list(iterate_frames(run.frames))
            assert sum(frame.messages for frame in inside) == run.messages > 0
            assert b"".join(encoded(frame) for frame in inside) == run.frames
            for frame in inside:
                yield run.route, encoded(frame)


def encoded(frame: Frame) -> bytes:
    return encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags)


# Two sessions.


@dataclass
class Side:
    session: Session[Way]
    table: Table
    events: list[Run[Way] | Stretch[Way] | Event] = field(default_factory=list)

    @property
    def closings(self) -> list[Closing]:
        return [event for event in self.events if isinstance(event, Closing)]

    @property
    def topics(self) -> list[bytes]:
        runs = [run for event in self.events for run in runs_in(event)]
        return [frame.key for run in runs for frame in iterate_frames(run.frames)]

    def hear(self, data: bytes) -> None:
        self.session.feed(data)
        while (event := self.session.next_event()) is not NEED_DATA:
            if event is not None:
                self.events.append(event)


def side_of(role: str, *, frame_limit_bytes: int = FRAME_LIMIT_BYTES) -> Side:
    table = Table()
    return Side(Session(role, table, frame_limit_bytes), table)
