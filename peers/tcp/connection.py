"""`Connection`: one TCP or Unix socket of the hub, to a client or to a peer hub.

```
socket ─ data_received ─▶ Session.feed, next_event ─▶ Run, Stretch ─▶ core.publish
                                                 ├──▶ subscription ─▶ core.subscribe, confirm
                                                 └──▶ Request, Reply ─▶ core.requests
core ─ Handler.offer ... end_read ─▶ send() ─▶ one write
```

Purpose: what the events of a conversation mean, and what the far side is told. Reading, writing and ending are in
`peers.stream`, rules of the conversation in `peers.wire.session`, what happens on overflow in `hub.handler`.

Owner: the event loop. Invariants: those of `peers.stream`.

Cost: per read, not per message. Memory: see docs/performance.md.
"""

from __future__ import annotations

import asyncio
import math
from typing import cast

from hub.batch import Batch
from hub.errors import CloseCode, InvalidTopicError, RejectedError
from hub.frame import encode_frame
from hub.handler import Handler, Role
from hub.overflow import QueueLimits
from hub.requests.lane import Item
from hub.requests.layout import Reply, Request
from hub.routes import Route
from peers.node import LINGER_S, Node
from peers.silence import Act
from peers.stream import StreamConnection
from peers.tcp.announcement import Announcement
from peers.tcp.journal_requests import JournalRequest, JournalRequests
from peers.tcp.names import LinkNames, NameEvent, NameRequests
from peers.tcp.rules import LinkRules, change_rules
from peers.transport import far_address
from peers.wire.control import Notice, encode_notice
from peers.wire.hello import Hello, grant
from peers.wire.kinds import Kind
from peers.wire.names import NameClaim, NameRelease, NamesHeard
from peers.wire.oversize import fitting
from peers.wire.records import Commit, Fetch, Stage
from peers.wire.rules import RuleChange
from peers.wire.session import Closing, Confirmable, Event, ServiceChange, Session, SubscriptionChange

__all__ = ["Connection"]

_REPLIES_PER_EVENT = 64
"""Requests in one frame that are as much work as another frame: each may have been asked by somebody else."""

_COPIED_BYTES = 16 * 1024
"""Values up to this size are joined with their head; larger ones are written beside it."""


class Connection(StreamConnection):
    """One socket. Also the outlet of its handler.

    Args:
        node: The hub it belongs to.
        queue: Queue that its handler gets if the far side has no wish.
        dialled: Whether this side has connected, to link with a peer hub.
    """

    __slots__ = ("_announcement", "_far_frame_limit", "_journal", "_names", "_queue", "_rules", "_services", "used")

    _session: Session[Route]
    _unsaid = "the far side closed without CLOSE"

    def __init__(self, node: Node, queue: QueueLimits, *, dialled: bool = False, address: str = "") -> None:
        super().__init__(node, dialled=dialled, address=address)
        limits = node.settings.limits
        self._queue = queue
        self._session = Session("hub", node.core.routes, limits.frame_bytes, limits.handshake_bytes)
        self._far_frame_limit = limits.frame_bytes
        self._announcement: Announcement | None = None
        self._services: Announcement | None = None
        self._journal: JournalRequests | None = None  # once it is asked for something
        self._names: NameRequests | LinkNames | None = None  # of a client, once it claims one
        self._rules: LinkRules | None = None  # of a link
        self.used = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection in, and say HELLO if this side has dialled."""
        self._transport = cast("asyncio.Transport", transport)
        self.address = self.address or far_address(self._transport)
        self._silence.heard_s = self._node.loop.time()
        refusal = self._node.admit(self)
        if refusal:
            self._end(CloseCode.TRY_AGAIN_LATER, refusal)
            return
        self._node.keepalive.watch(self, self._silence.heard_s + self._node.settings.limits.handshake_s)
        if self.dialled:
            self._session.send(self._node.hello().encode())
            self._write_outgoing()

    def _write_more(self) -> None:
        if self._announcement is not None and self._announcement:
            self._announce()
        if self._services is not None and self._services:
            self._announce_services()
        if self._names is not None:
            self._names.write_more()
        if self._rules is not None:
            self._rules.write_more()

    def _leave(self) -> None:
        self._forget_link()
        if self._journal is not None:
            self._journal.close()
        if self.handler is not None:
            self._node.core.detach(self.handler, self.reason)

    @property
    def _refused_messages(self) -> int:
        return self._session.rejected_messages

    # What the session reports.

    def _act(self, event: Event) -> int:
        """Do what an event asks for; return its share of a turn."""
        cost = 1
        if self.handler is not None:
            self.used = True
        match event:
            case Request() | Reply():
                cost += self._pass_on(event)
            case SubscriptionChange() | ServiceChange() | RuleChange():
                cost += self._change(event)
            case NameClaim() | NameRelease() | NamesHeard():
                cost += self._act_on_names(event)
            case Confirmable() | Fetch() | Stage() | Commit():
                self._ask_journal(event)
            case Hello():
                self._greet(event)
            case Notice():
                self._node.log.warning("notice from peer", address=self.address, code=event.code, text=event.text)
            case Closing():
                self._finish(event)
        return cost

    def _finish(self, closing: Closing) -> None:
        """The conversation is over."""
        self.reason = f"{closing.text} ({closing.code})" if closing.text else f"closed with {closing.code}"
        if closing.by_far_side:
            self._leave()  # now: a link that is over must not refuse the one that takes its place
            self._transport.close()
        else:
            self._linger()

    def _change(self, change: SubscriptionChange | ServiceChange | RuleChange) -> int:
        """Change what the far side gets, or serves; return its share of a turn beside the frame's own."""
        handler = self.handler
        if handler is None or handler.closed:  # lost while the rest of a read waited for its turn
            return 0
        match change:
            case SubscriptionChange():
                self._change_subscription(handler, change)
            case ServiceChange():
                self._change_service(handler, change)
            case RuleChange():
                return change_rules(self._node, handler, self._session, change)
        return len(change.prefixes)

    def _change_subscription(self, handler: Handler, change: SubscriptionChange) -> None:
        if not change.subscribe:
            self._node.core.unsubscribe(handler, change.prefixes)
        else:
            try:
                self._node.core.subscribe(handler, change.prefixes)
            except RejectedError as error:
                self._session.reject(error, change.request)
                return
            except InvalidTopicError as error:
                self._session.reject(RejectedError(CloseCode.BAD_DATA, str(error)), change.request)
                return
        self._session.confirm(change.request, self._node.journal.position())

    def _change_service(self, handler: Handler, change: ServiceChange) -> None:
        requests = self._node.core.requests
        try:
            if change.serve:
                requests.serve(handler, change.prefixes)
            else:
                requests.unserve(handler, change.prefixes)
        except RejectedError as error:
            self._session.reject(error, change.request)
        except InvalidTopicError as error:
            self._session.reject(RejectedError(CloseCode.BAD_DATA, str(error)), change.request)
        else:
            self._session.confirm(change.request)

    def _pass_on(self, item: Item) -> int:
        """Ask, or answer, for the far side; return its share of a turn beside the frame's own."""
        handler = self.handler
        if handler is None or handler.closed:
            return 0
        requests = self._node.core.requests
        if isinstance(item, Request):
            refused = requests.ask(handler, item, self._node.now_ms())
            self._wait_for_reader()  # its answers are always kept
        else:
            refused = requests.answer(handler, item)
        if refused is not None and not handler.is_link:  # a reply that is late for a peer hub is nobody's fault
            self._session.refuse(refused.code, refused.text, refused.requests)
        return item.requests // _REPLIES_PER_EVENT

    def _act_on_names(self, event: NameEvent) -> int:
        handler = self.handler
        if handler is None or handler.closed:
            return 0
        if self._names is None:
            self._names = NameRequests(self._node, handler, self._session, self)
        return self._names.act(event)

    def _refuse_messages(self, error: RejectedError, messages: int) -> None:
        self._session.rejected_messages += messages
        self._session.refuse(error.code, error.text, messages)

    def _ask_journal(self, request: JournalRequest) -> None:
        self._journal_requests().act(request)

    def _journal_requests(self) -> JournalRequests:
        if self._journal is None:
            self._journal = JournalRequests(self._node, cast("Handler", self.handler), self._session, self)
        return self._journal

    def answer(self, frame: bytes | bytearray) -> None:
        """Say something that was asked for earlier, if there is still somebody to hear it."""
        if self._session.closed or self._transport.is_closing():
            return
        if self._session.has_outgoing:
            self._write_outgoing()
        self._transport.write(frame)
        self._wait_for_reader()

    @property
    def far_frame_limit(self) -> int:
        """Largest body that the far side takes, bytes."""
        return self._far_frame_limit

    def _greet(self, hello: Hello) -> None:
        """The far side has said who it is: take it in, answer, announce."""
        node = self._node
        self._far_frame_limit = hello.frame
        link = hello.role == "hub"
        if not link and self.dialled:
            self._end(CloseCode.PROTOCOL_ERROR, "a peer must be a hub, the far side is a client")
            return
        most = node.settings.queue_max
        limits = self._queue if link else grant(hello.queue, self._queue, most.messages, most.bytes)
        handler = Handler(
            self,
            role=Role.LINK if link else Role.CLIENT,
            limits=limits,
            name=hello.name,
            address=self.address,
            poster=self,
            frame_limit_bytes=hello.frame,
        )
        if link:
            try:
                node.links.add(hello.id, self)
            except RejectedError as error:
                self._end(error.code, error.text)
                return
        self.handler = handler
        self.used = self.dialled
        if not self.dialled:
            self._session.send(self._introduction(limits).encode())
        if link:
            self._announcement = Announcement(self._schedule_announcement, hello.frame)
            node.core.attach(handler, self._announcement.change)
            self._rules = LinkRules(node, handler, self, hello.frame)
            self._names = LinkNames(node, handler, self._session, self, hello.frame)
            self._services = Announcement(self._schedule_services, hello.frame, Kind.SERVE, Kind.UNSERVE)
            node.core.requests.tell(handler, self._services.change)
        else:
            node.core.attach(handler)
            node.core.on_refused[handler] = self._refuse_messages
        node.keepalive.watch(self, self._silence.heard_s + node.settings.limits.ping_after_s)
        node.log.info(
            "peer linked" if link else "client connected",
            address=self.address,
            name=hello.name,
            software=hello.software,
            overflow=limits.overflow.value,
        )

    def _introduction(self, granted: QueueLimits) -> Hello:
        """What a client is told of this hub."""
        return self._node.hello(granted)

    @property
    def far_name(self) -> str:
        """What the far side calls itself, empty before HELLO."""
        return self._session.far.name if self._session.far is not None else ""

    def _schedule_announcement(self) -> None:
        self._node.after_turn(self._announce)

    def _announce(self) -> None:
        """Tell the peer hub how this hub's filter has changed."""
        if self._announcement is None or self.handler is None or self._session.closed:
            return
        if self.handler.writable:  # else it waits, and changes merge, until the peer reads on
            for frame in self._announcement.take():
                self._session.send(frame)
            self._write_outgoing()

    def _schedule_services(self) -> None:
        self._node.after_turn(self._announce_services)

    def _announce_services(self) -> None:
        """Tell the peer hub what is served here."""
        services = self._services
        if not services or self.handler is None or self._session.closed:
            return
        if self.handler.writable:  # as with the filter
            for frame in services.take():
                self._session.send(frame)
            self._write_outgoing()

    def _forget_link(self) -> None:
        far = self._session.far
        if far is not None and far.role == "hub":
            self._node.links.remove(far.id, self)

    # The outlet of the handler.

    def send(self, batches: list[Batch]) -> None:
        """Write batches as they are, with one write."""
        if self._session.has_outgoing:  # an early write, in the middle of a read: answers stand before messages
            self._write_outgoing()
        if self._far_frame_limit < self._node.settings.limits.frame_bytes:
            self._send_fitting(batches)
        elif len(batches) == 1:
            self._transport.write(batches[0].frames)
        else:
            self._transport.writelines([batch.frames for batch in batches])

    def _send_fitting(self, batches: list[Batch]) -> None:
        """Write batches in frames that the far side takes; tell what is lost where it would have stood."""
        frames: list[bytes] = []
        for piece in fitting(batches, self._far_frame_limit):
            if isinstance(piece, Batch):
                frames.append(piece.frames)
                continue
            self._transport.writelines(frames)
            frames = []
            cast("Handler", self.handler).lose(piece)
        self._transport.writelines(frames)

    def post(self, items: list[Item]) -> None:
        """Write requests and replies, behind what else is to be said, with one write."""
        frames = [self._session.take_outgoing()] if self._session.has_outgoing else []
        small = True
        for item in items:
            if len(item.values) > _COPIED_BYTES:
                frames += (item.head(), item.values)
                small = False
            else:
                frames.append(item.encode())
        if self._transport.is_closing():
            return
        if small:
            self._transport.write(b"".join(frames))  # to a transport each piece is work
        else:
            self._transport.writelines(frames)

    def send_gap(self, lost_messages: int) -> None:
        """Tell the far side how many of its messages were lost here."""
        self._transport.write(encode_notice(Notice("dropped", count=lost_messages)))

    def close(self, code: int, text: str) -> None:
        """Called by the handler: its policy is to disconnect."""
        self._end(code, text)

    # Ends.

    def refuse(self, code: int, text: str) -> None:
        """Close a link that is one too many."""
        self._end(code, text)

    def drain(self) -> None:
        """The hub stops: what is queued is written while the daemon waits, then CLOSE with 1001."""
        if self.handler is not None and not self.handler.closed:
            self.handler.flush()
        if self.handler is None or self.handler.writable:
            self._end(CloseCode.GOING_AWAY, "the hub stops")

    def _end(self, code: int, text: str) -> None:
        """Close from this side, with a reason."""
        if self._session.closed:
            return
        self.reason = f"{text} ({int(code)})"
        self._session.close(code, text)
        self._linger()

    # Time.

    def check(self, now_s: float) -> float:
        """Keep the time limits: handshake, silence, lingering."""
        limits = self._node.settings.limits
        if self._session.closed:
            self._transport.abort()
            return math.inf
        if self.handler is None:
            self._end(CloseCode.PROTOCOL_ERROR, f"no HELLO within {limits.handshake_s:g} s")
            return now_s + LINGER_S
        step = self._silence.check(now_s, reading=not self._is_held_back)
        if step.act is Act.LOST:
            self._end(CloseCode.PROTOCOL_ERROR, f"no answer to PING within {limits.ping_timeout_s:g} s")
            return now_s + LINGER_S
        if step.act is Act.PING:
            self._transport.write(encode_frame(Kind.PING, b""))  # who does not read may still be heard publishing
        return step.next_s
