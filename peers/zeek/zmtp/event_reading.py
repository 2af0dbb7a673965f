"""`EventReader`: from the messages of a Zeek node to runs of the hub's MESSAGES frames, each run with its route.

```
read:   [topic│sender│serializer│payload][...][...]     ZMTP: a frame for each part
        └────────── head ───────┘
frame:  length │ routing key, remembered for the head │ payload
```

Everything but the payload is the same for all events that a node publishes to a topic. So the routing key is made once
for such a head, and then a head is compared as a whole; the payload is copied, once it was found to be an event.

Owner: one session. Invariants: whatever is no event is not taken, counted, and told in one line; what is no ZMTP ends
the session. Memory: at most `HEADS_LIMIT` heads.

Cost: that of `peers.zeek.zmtp.event_scan`, and about 15 µs for a head that is new.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.stretch import Run, Stretch
from peers.values import InvalidDataError, InvalidInputError
from peers.wire.scanner import RouteTable
from peers.zeek.zmtp.event_head import BINARY, EVENT_BEGINNING, HUB_ID, EventHead
from peers.zeek.zmtp.event_json import from_json
from peers.zeek.zmtp.event_payload import check_event, is_event
from peers.zeek.zmtp.event_scan import HEAD_PARTS
from peers.zeek.zmtp.frames import Incoming, Message

try:
    from peers.zeek.zmtp._zmtp import find_events
except ImportError:  # not built: no compiler was there
    from peers.zeek.zmtp.event_scan import find_events

__all__ = ["HEADS_LIMIT", "Addressed", "EventReader", "Keep", "NoEvent"]

HEADS_LIMIT: Final = 4096
"""How many heads are remembered of one node: with more topics than that all are forgotten, and made anew."""

_PARTS: Final = 4

_LENGTH = Struct(">I")

R = TypeVar("R")

Keep = Callable[[Batch, bytes], object]


class NoEvent(NamedTuple):
    """A message that was not taken; the session goes on."""

    reason: str
    """Why it was not taken, for a log."""


class Addressed(NamedTuple, Generic[R]):
    """An event that was published to the reader itself."""

    run: Run[R]
    """The event, for others."""
    payload: bytes
    """The event, in Broker's binary format."""
    topic: bytes


class EventReader(Generic[R]):
    """Cuts what a node publishes into stretches of messages.

    Args:
        incoming: The buffer of what was read.
        routes: Where the routes of messages are looked up.
        keep: Called with a run, and with the bytes that it was read from: other nodes are sent the same.
        own: The node id of the reader: what it has published itself, and a broker has sent back, is not taken.
        mailbox: What the topics begin with whose events are for the reader itself, too; empty for none.
        learn: Told the serializer of the first event that comes; not that of other hubs, which have to learn it, too.
    """

    __slots__ = ("_has_learnt", "_heads", "_incoming", "_keep", "_learn", "_mailbox", "_own", "_routes")

    def __init__(  # noqa: PLR0913 -- what it is told at once
        self,
        incoming: Incoming,
        routes: RouteTable[R],
        keep: Keep,
        own: bytes | None = None,
        *,
        mailbox: bytes = b"",
        learn: Callable[[bytes], object] = lambda _: None,
    ) -> None:
        self._mailbox = mailbox
        self._learn = learn
        self._has_learnt = False
        self._incoming = incoming
        self._routes = routes
        self._keep = keep
        self._own = own
        # The head of an event, as it stands on the wire → its routing key.
        self._heads: dict[bytes, bytes] = {}

    def next_stretch(self) -> Run[R] | Stretch[R] | None:
        """Return the events that stand next in what was read, as far as their heads are known; None for none."""
        incoming = self._incoming
        start = incoming.start
        frames, runs, end = find_events(
            incoming.held, start, self._heads, self._routes.table, incoming.limit_bytes, EVENT_BEGINNING, is_event
        )
        if not frames:
            return None
        routes, _, messages = runs
        if len(routes) > 1:
            incoming.go_to(end)
            return Stretch(frames, 0, runs)
        run = Run(routes[0], frames, messages[0])
        self._keep(run, bytes(memoryview(incoming.held)[start:end]))
        incoming.go_to(end)
        return run

    def take(self, message: Message) -> Run[R] | Addressed[R] | NoEvent | None:
        """Take one message whose head is not known, or that must be looked at; None for an own one, 4 µs each."""
        try:
            return self._take(message)
        except (RejectedError, InvalidDataError, InvalidInputError) as error:
            return NoEvent(str(error))

    def _take(self, message: Message) -> Run[R] | Addressed[R] | None:
        if len(message.ends) != _PARTS:
            raise RejectedError(CloseCode.BAD_DATA, f"a message of {len(message.ends)} parts, an event has {_PARTS}")
        topic, sender, serializer, payload = message.parts
        if sender == self._own:
            return None
        head = EventHead(topic, sender, serializer)
        routing_key = head.routing_key
        is_addressed = bool(self._mailbox) and topic.startswith(self._mailbox)
        if serializer == BINARY and not is_addressed:
            self._remember(message.frames[: message.ends[HEAD_PARTS - 1]], routing_key)
        elif serializer != BINARY:
            payload = from_json(payload)
        check_event(payload)
        if not (self._has_learnt or sender.startswith(HUB_ID)):
            self._has_learnt = True
            self._learn(serializer)
        route = self._routes.table.get(routing_key)
        if route is None:
            route = self._routes.miss(routing_key)
        run = Run(route, _LENGTH.pack(len(payload)) + routing_key + payload, 1)
        return Addressed(run, payload, topic) if is_addressed else run

    def _remember(self, head: bytes, routing_key: bytes) -> None:
        if len(self._heads) >= HEADS_LIMIT:
            self._heads.clear()
        self._heads[head] = routing_key
