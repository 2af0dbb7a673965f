"""`Connection`: one socket of the hub, of any protocol.

```
socket ─ data_received ─▶ session.feed, next_event ─▶ Run, Stretch ─▶ core.publish
                                              └─────▶ other events ─▶ conversation.act
core ─ Handler.offer ... end_read ─▶ send ─▶ conversation.render ─▶ one write
```

It is read exactly while `unread_for` is 0. Each read costs one call of `data_received`, never one for each message. An
exception in a conversation ends its connection and no other.
"""

from __future__ import annotations

import asyncio
import math
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from hub.errors import CloseCode, NotRecognisedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.messages.batch import Batch
from hub.messages.request_frame import Item
from hub.messages.stretch import Run, Stretch
from hub.policy.grants import User
from hub.quotas import FREE_BYTES, Resource, Share
from peers.connections.conversation import ENDED, Conversation, Session
from peers.connections.limits import LINGER_S, Holding, Lingering, Pacing, Progress
from peers.journal.recorder import Recorder
from peers.journal.remote_confirmations import RemoteConfirmations
from peers.server.reading import WaitingTime
from peers.server.server import HUB_STOPS, Server
from peers.transport.timing import NO_ANSWER, Act, Liveness
from peers.transport.tls_transport import KEPT_BYTES
from peers.transport.transport import NO_TRANSPORT, end_writing, far_address, unread_bytes, write_pieces
from peers.users.identity import Identity
from peers.wire.scanner import NEED_DATA

# Why a connection is not read: bits of `unread_for`. Each reason comes and goes by itself.

NOTHING: Final = 0
PUT_OFF: Final = 1  # its share of a turn is used up, or the share of all connections (`take_turn`)
ENTERING: Final = 2  # its user has too many connections, or is over their publish rate already
BARRED: Final = 4  # it has sent an unknown token, and waits as long as for the answer to a wrong token
PACED: Final = 8  # its user is over their publish rate
JOURNAL: Final = 16  # it publishes to a journal that is behind
UNANSWERED: Final = 32  # it does not read the answers to its own requests
ELSEWHERE: Final = 64  # its conversation waits for another part of the hub (`hold`, `go_on`)
KEPT_OUT: Final = ENTERING | BARRED  # the next event waits for the next turn in any case
UNACTED: Final = PUT_OFF | KEPT_OUT  # bytes that were read wait, too: uvloop delivers them when reading is paused
UNHEARD: Final = KEPT_OUT | PACED | JOURNAL  # this side makes the far side wait, so its silence says nothing

TURN_EVENTS = 500
"""The work of one connection in a turn of the event loop: runs of messages, other frames, and prefixes in them. A
prefix or a new topic costs about 15 µs, so one client blocks a turn for about 10 ms at most. All connections together
have a share, too (`peers.server.reading`)."""

_RUNS_PER_EVENT = 4  # runs in a row cost less than a frame each: about 0.5 µs

_BYTES_PER_EVENT = 4096
"""Bytes that count as one event, so that a turn brings at most 2 MB of one connection: libuv reads a ready socket up to
32 times 256 KB before the next one."""

_COPIES_PER_EVENT = 2
"""A large read for many subscribers is copied into the socket of each: so many copies of `_BYTES_PER_EVENT` count as
one event. 256 KiB for 100 subscribers take about 50 ms."""

_REFILL_BELOW = TURN_EVENTS // 2  # a share below is refilled after the turn; above, the callback costs more

_COPIED_BYTES = 16 * 1024  # pieces up to this size together are joined: to a transport each piece is work

_SECURE = {"tcp": "tls", "ws": "wss", "http": "https"}

_PROOF_ENDED = "the credentials have expired; connect again with a new token"


class Connection(asyncio.Protocol):
    """One socket: the outlet of its handler (`hub.handlers.handler`), and watched by `peers.server.keepalive`.

    Args:
        server: The hub.
        make: Makes the conversation; called once, with this connection.
        address: Where to, if this side has dialled.
    """

    __slots__ = (
        "_core",
        "_drain_text",
        "_event",
        "_is_dialled",
        "_is_ending",
        "_is_over",
        "_is_refilling",
        "_is_sending_gap",
        "_is_writing_later",
        "_left",
        "_lingering",
        "_now_s",
        "_place",
        "_progress",
        "_refusal",
        "_rejected_messages",
        "_times",
        "_waiting",
        "address",
        "after_read",
        "conversation",
        "due_s",
        "far_side_closes",
        "handler",
        "has_acted",
        "has_joined",
        "holding",
        "identity",
        "is_choked",
        "is_lost",
        "liveness",
        "lost",
        "pacing",
        "read_bytes",
        "reason",
        "server",
        "session",
        "since_s",
        "software",
        "transport",
        "unread_for",
    )

    def __init__(self, server: Server, make: Callable[[Connection], Conversation], *, address: str = "") -> None:
        limits = server.settings.limits
        self.server = server
        self.transport: asyncio.Transport = NO_TRANSPORT
        self._core, self._now_s, self._times = server.core, server.loop.time, server.read_times  # each read needs them
        # The far side.
        self.identity: Identity | None = None  # None before authentication, and for a hub that was dialled
        self._is_dialled = bool(address)
        self.reason, self.address = "", address
        self.software = ""  # of the far side, from HELLO or `User-Agent`
        self.handler: Handler | None = None
        self.has_joined = False
        self.since_s = 0.0
        self.is_lost = False  # whether the socket is closed. Its resources are released in this turn or a later one.
        self._is_over = False  # whether they were released, and all that was read is done
        self.lost: asyncio.Future[None] | None = None  # done when the far side has left; set by a dialler
        # Reading.
        self.unread_for = NOTHING
        self.has_acted = False  # whether a whole frame or message has come since the last check
        self.after_read: Callable[[], None] | None = None  # called after every read, if set
        self.read_bytes = 0  # bytes read so far, without TLS
        self._left = TURN_EVENTS
        self._is_refilling = False
        self._event: Any = None
        # Writing.
        self.is_choked = False
        self._is_writing_later = False
        self._is_sending_gap = False
        self._waiting: WaitingTime | None = None
        self._rejected_messages = 0
        # Charges.
        self.holding = Holding(server.held)
        self.pacing: Pacing | None = None
        self._place: Share | None = None  # charged until its handler is
        # Time limits, and the end.
        self.due_s = -1  # see `peers.server.keepalive.Watched`
        self.liveness = Liveness(0.0, limits.ping_after_s, limits.ping_timeout_s)
        self._progress: Progress | None = None  # while a frame is incomplete
        self._drain_text = ""  # the reason for the far side once its queue is written, as the hub stops
        self._lingering: Lingering | None = None  # set after the last word of this side
        self._is_ending = False  # whether the next check closes the socket
        self._refusal: NotRecognisedError | None = None  # why it was not authenticated, until that is sent
        self.far_side_closes = False  # Zeek's server cannot answer a Close with the end of the stream behind it
        self.conversation: Conversation = make(self)
        self.session: Session = self.conversation.session

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.address = self.address or far_address(self.transport)
        self.hear()
        self.since_s = self.liveness.heard_s
        self.look_in(self.server.settings.limits.handshake_s)
        refusal = self.server.enter(self) if self._is_dialled else self.server.admit(self)
        try:
            self.conversation.begin(refusal)
            self.write_outgoing()
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.fail(error)

    def data_received(self, data: bytes) -> None:
        now_s = self._now_s  # calling it right out of the slot takes the slow way
        self.liveness.heard_s = heard_s = now_s()
        times = self._times
        is_timed = heard_s >= times.due_s
        size_bytes = len(data)
        try:
            if is_timed:
                times.begin(heard_s, size_bytes)
            self.session.feed(data)
            self.read_bytes += size_bytes
            if size_bytes >= _BYTES_PER_EVENT:
                self._work_at_much(size_bytes // _BYTES_PER_EVENT)
            elif not (self.unread_for and self.unread_for & UNACTED):
                self.work()
            if self.unread_for & UNACTED:
                self._charge_held()
            if self.pacing is not None and self.pacing.rate.is_limited:
                self.count_read(size_bytes)
            if is_timed:
                if self.unread_for & PUT_OFF:
                    times.put_off(self)
                else:
                    times.end()
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.fail(error, data)

    def eof_received(self) -> bool:
        try:
            self.conversation.end_of_stream()
            if not self.unread_for & UNACTED:
                self.work()
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.fail(error)
        return False

    def pause_writing(self) -> None:
        """The transport is above its high-water mark: the handler queues."""
        self.is_choked = True
        self._charge_unwritten()
        if self.handler is not None and not self.conversation.is_bell:
            self.handler.pause()
            if self._waiting is None:
                self._waiting = WaitingTime(self._now_s())

    def resume_writing(self) -> None:
        self.is_choked = False
        self.holding.leave_unwritten(0)
        self.hear()  # a slow reader may be minutes away from a ping that stands behind all of that
        if self.conversation.is_held:
            self.read_on(UNANSWERED)  # it is read, since the conversation waits for its answer
        else:
            self.write_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything, if need be in a later turn: thousands may be lost at once."""
        if self.is_lost:
            return
        self.is_lost = True
        self.reason = self.reason or (str(exc) if exc is not None else self.conversation.unsaid)
        self.server.keepalive.forget(self)
        self.holding.give_back()
        self._stop_pacing()
        self._core.depart(partial(self.guard, self._give_back))

    def _give_back(self) -> None:
        server = self.server
        server.release(self)
        server.received_bytes_before += self.read_bytes
        if server.journal.recorder is not None:
            server.journal.recorder.forget_room(self._let_go)
        self.leave()
        log = server.log.debug if self.conversation.is_quiet else server.log.info
        log("connection closed", address=self.address, name=self.far_name, reason=self.reason)
        self._is_over = True
        if not self.unread_for & UNACTED:
            self._conclude()

    def _conclude(self) -> None:
        """Drop all references to this connection, so that it is freed without the garbage collector."""
        self.change_session()
        pacing, self.pacing = self.pacing, None
        if pacing is not None and pacing.rate.is_limited:
            pacing.spend(0)  # count messages routed at the very end
        self.guard(self.conversation.conclude)
        self.conversation, self.session, self.transport = ENDED, ENDED.session, NO_TRANSPORT
        self.handler = self.after_read = None

    # The far side.

    @property
    def protocol(self) -> str:
        scheme = self.conversation.scheme
        is_secure = self.transport.get_extra_info("sslcontext") is not None
        return _SECURE.get(scheme, scheme) if is_secure else scheme

    @property
    def tls(self) -> Any:
        return self.transport.get_extra_info("ssl_object") if self.conversation.scheme in _SECURE else None

    @property
    def far_name(self) -> str:
        return self.conversation.far_name if self.handler is None else self.handler.name

    @property
    def how(self) -> str:
        """How the far side was authenticated; empty if it was not asked."""
        return "" if self.identity is None else self.identity.how

    @property
    def user(self) -> str:
        """The authenticated user; empty if everyone may do everything."""
        return "" if self.identity is None or self.server.access.is_open else self.identity.user

    def join(self, handler: Handler) -> None:
        self.handler = handler
        handler.share, self._place = self._place, None
        self.has_joined = True
        self.server.settle(self)
        if self.is_choked:
            handler.pause()
        if handler.rights is not None:
            self.after_turn(self._audit)

    def _audit(self) -> None:
        if self.handler is not None and not self.handler.closed:
            self.server.audit.recognised(self.handler, self.how)

    def opened(self) -> None:
        """The handshake is done: expect signs of life, and evict the connection no more.

        Where users have quotas, a WebSocket that is charged to no user yet stays a newcomer: its first message may
        still authenticate it.
        """
        if self.has_joined or self.has_place or self.server.access.is_open:
            self.server.settle(self)
        due_s = self.liveness.heard_s + self.server.settings.limits.ping_after_s
        self.look_in(min(due_s - self._now_s(), self.proof_left_s()))

    def become(self, conversation: Conversation) -> None:
        """Replace the conversation; the new one goes on with bytes that this one has not acted on."""
        self.change_session()
        self.conversation, self.session = conversation, conversation.session
        self.after_turn(self._work_on)

    def _work_on(self) -> None:
        if not self.unread_for & UNACTED and not self.is_lost:
            self.work()

    # Reading.

    def work(self) -> None:  # noqa: C901, PLR0912 -- one function, since it is called for every read
        session, server = self.session, self.server
        core, recorder, events = self._core, server.journal.recorder, server.events
        taken = 0 if recorder is None else recorder.taken
        core.write_is_due = True  # a read begins, and `end_read` ends it
        if core.late:
            self.catch_up()
        event: Any = NEED_DATA
        left = self._left
        try:
            while left > 0:
                event = session.next_event()
                if type(event) is Run:
                    core.publish(cast("Handler", self.handler), event.route, event)
                    left -= 1
                elif type(event) is Stretch:
                    core.publish_stretch(cast("Handler", self.handler), event)
                    left -= 1 + len(event.routes) // _RUNS_PER_EVENT
                elif event is NEED_DATA:
                    break
                elif event is None:
                    left -= 1
                else:
                    left = self._do(event, left)
                if not session.has_more:
                    break
                if self._left - left >= events.left:
                    left = self._use_up(left)
            if event is not NEED_DATA or left != self._left:
                self.has_acted = True
            if self._left - left > 1:  # a run that comes alone costs no more than the loop's own work for the read
                events.spend(self._left - left)
            self._left = left
            if left < _REFILL_BELOW:
                self._end_turn()
            if session.has_outgoing:
                self.write_answers()
        finally:
            core.end_read()
        if recorder is not None and recorder.is_behind and recorder.taken != taken:
            self.hold_back(recorder)
        if event is NEED_DATA or self.holding.begun_bytes:  # only then may a frame have begun, or be complete
            self._charge_held()
        if self.after_read is not None and not self.unread_for & UNACTED:
            self.after_read()

    def _work_at_much(self, cost: int) -> None:
        """Act on a large read, which costs so many events, and charge the shares for its copies to subscribers."""
        core, server = self._core, self.server
        events = server.events
        self._left = self._left - cost if events.left > 0 else 0
        if self.unread_for & UNACTED:
            return
        if self._lingering is not None:  # input is thrown away: once a turn, not as often as the loop reads
            self.stop_reading(PUT_OFF)
            server.after_turn(partial(self.take_turn, TURN_EVENTS))
            return
        offered = core.offered  # the handlers that write something when this read ends
        put_off = core.writers.put_off_total
        self.work()
        copies = cost * (len(offered) - 1) // _COPIES_PER_EVENT
        if copies > 0:
            self._left -= copies
            events.spend(copies)
            if self.unread_for & UNACTED:
                return
            if core.writers.put_off_total != put_off:  # read on when the subscribers of this read have written
                self.stop_reading(PUT_OFF)
                core.writers.call_behind(partial(server.after_turn, partial(self.take_turn, TURN_EVENTS)))
            else:
                self._refill_later()

    def _do(self, event: Any, left: int) -> int:
        """Act on an event, or keep it for a later turn if all share is used up; return the rest of the share."""
        # As `ReadBudget.spend`, without a call for each event.
        share = self.server.changes if type(event) in self.conversation.changes else self.server.events
        if share.left <= 0 and not self.session.closed:
            self._event = event
            return self._use_up(left)
        cost = self.conversation.act(event)
        share.left -= cost
        if share.left < share.refill_below:
            share.refill()
        self._left -= cost  # so that `work` does not take it from the share of all once more
        return self._use_up(left - cost) if self.unread_for & KEPT_OUT else left - cost

    def _use_up(self, left: int) -> int:
        self.server.events.spend(self._left - left)
        self._left = 0
        return 0

    def _end_turn(self) -> None:
        if self._left <= 0 and not self.session.closed:
            if not self.unread_for & KEPT_OUT:
                self.stop_reading(PUT_OFF)
                is_change = type(self._event) in self.conversation.changes
                (self.server.changes if is_change else self.server.events).wait(self)
        else:
            self._refill_later()

    def _refill_later(self) -> None:
        if not self._is_refilling:
            self._is_refilling = True
            self.server.after_turn(self._refill)

    def _refill(self) -> None:
        self._is_refilling = False
        self._left = TURN_EVENTS

    def take_turn(self, events: int) -> None:
        """Act on the rest of an earlier turn, with a share of so many events."""
        if self.conversation is ENDED:
            return
        self.unread_for &= ~PUT_OFF
        self._left = events
        try:
            if self._event is not None:
                self._do_kept()
            if self.has_joined or not self.is_lost:  # a far side that has gone before its turn does not join any more
                self.work()
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.fail(error)
        if not self.unread_for & PUT_OFF:
            self._times.go_on(self)
        if self._is_over and not self.unread_for & UNACTED:
            self._conclude()
        self.read_on()

    def _do_kept(self) -> None:
        event, self._event = self._event, None
        if self.session.closed or (self.is_lost and type(event) in self.conversation.changes):
            return
        core = self._core
        core.write_is_due = True  # a read begins, and `end_read` ends it
        if core.late:
            self.catch_up()
        try:
            self._left = self._do(event, self._left)
        finally:
            core.end_read()

    def catch_up(self) -> None:
        if self.handler is not None:
            self.handler.write_pending()

    # When it is read.

    def stop_reading(self, reason: int) -> None:
        self.unread_for |= reason
        self.transport.pause_reading()

    def read_on(self, reason: int = NOTHING) -> None:
        self.unread_for &= ~reason
        if not (self.unread_for or self.is_lost or self.transport.is_closing() or self.transport.is_reading()):
            self.transport.resume_reading()

    def hold_back(self, recorder: Recorder | RemoteConfirmations) -> None:
        if not (self.session.closed or self.transport.is_closing()):
            self.stop_reading(JOURNAL)
            recorder.wait_room(self._let_go)

    def _let_go(self) -> None:
        self.hear()  # its bytes were not read meanwhile
        self.read_on(JOURNAL)

    def bar(self, seconds: float) -> None:
        """Act on nothing for so long: the far side has sent an unknown token."""
        if seconds > 0:
            self.stop_reading(BARRED)
            self.server.loop.call_later(seconds, self.let_in, BARRED)

    def let_in(self, reason: int) -> None:
        if self.unread_for & reason:
            self.unread_for &= ~reason
            self.hear()
            if not self.unread_for & UNACTED:
                self.take_turn(TURN_EVENTS)

    def hold(self, seconds: float) -> None:
        """Read no further until `go_on`; check after so long whether that has come."""
        self.stop_reading(ELSEWHERE)
        self.look_in(seconds)

    def go_on(self) -> None:
        self.unread_for &= ~ELSEWHERE
        if not self.unread_for & KEPT_OUT:
            self.guard(self.work)
        self.write_outgoing()
        self.read_on()

    # Writing.

    def write(self, pieces: list[bytes]) -> None:
        transport = self.transport
        if self.session.has_outgoing:
            pieces = [self._take_outgoing(), *pieces]
        if not pieces or transport.is_closing():
            return
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif sum(map(len, pieces)) <= _COPIED_BYTES:
            transport.write(b"".join(pieces))
        else:
            write_pieces(transport, pieces)

    def write_outgoing(self) -> None:
        outgoing = self._take_outgoing()
        if outgoing and not self.transport.is_closing():
            self.transport.write(outgoing)

    def _take_outgoing(self) -> bytes:
        self.count_rejected()
        return self.session.take_outgoing()

    def write_answers(self) -> None:
        if self.handler is not None:
            self.handler.write_pending()  # with its own answers, so that all of it is one write
        self.write_outgoing()
        self.wait_for_reader()

    def write_later(self) -> None:
        if not self._is_writing_later:
            self._is_writing_later = True
            self.after_turn(self._write_now)

    def _write_now(self) -> None:
        self._is_writing_later = False
        if not (self.session.closed or self.transport.is_closing()):
            self.write_outgoing()
            self.wait_for_reader()

    def write_on(self) -> None:
        """Write the handler's queue, and then all else that was put off."""
        handler, waiting = self.handler, self._waiting
        if handler is not None:
            waited = handler.queued_messages
            handler.resume()
            if waiting is not None and not waiting.look(handler, waited, self._now_s(), self.server.queue_times):
                self._waiting = None
        if not (self.is_choked or self.transport.is_closing()):
            self.unread_for &= ~UNANSWERED
            if self._drain_text:
                self._drain()
            self.guard(self.conversation.write_more)
            self.read_on()

    def wait_for_reader(self) -> None:
        if self.is_choked and self._lingering is None:
            self._charge_unwritten()
            self.stop_reading(UNANSWERED)

    def count_rejected(self) -> None:
        """Count rejected messages of the session since the last call."""
        rejected = self.session.rejected_messages
        if rejected != self._rejected_messages:
            self.server.rejected_messages += rejected - self._rejected_messages
            self._rejected_messages = rejected

    def change_session(self) -> None:
        """Count rejected messages of this session: the next one counts from 0."""
        self.count_rejected()
        self._rejected_messages = 0

    # The outlet of the handler.

    def send(self, batches: list[Batch]) -> None:
        transport = self.transport
        if transport.is_closing():
            return
        try:
            if self.session.has_outgoing:  # an early write, in the middle of a read: answers before messages
                self.write_outgoing()
            pieces = self.conversation.render(batches)
            if len(pieces) == 1:
                transport.write(pieces[0])
            elif pieces:
                write_pieces(transport, pieces)
        except Exception as error:  # noqa: BLE001 -- the last line of defence: it may be another one's turn
            self.fail(error)

    def post(self, items: list[Item]) -> None:
        try:
            self.write(self.conversation.render_items(items))
        except Exception as error:  # noqa: BLE001 -- as above
            self.fail(error)

    def send_gap(self, lost_messages: int) -> None:
        if not self._is_sending_gap and not self.transport.is_closing():
            notice = self.conversation.render_gap(lost_messages)
            if notice:
                self.transport.write(notice)

    def lose(self, messages: int) -> None:
        self._is_sending_gap = True
        cast("Handler", self.handler).lose(messages)
        self._is_sending_gap = False

    def close(self, code: int, text: str) -> None:
        self.end(code, text)

    # Charges.

    @property
    def has_place(self) -> bool:
        return self._place is not None

    def take_place(self, user: User) -> None:
        """Charge the connection to a user, until its handler is charged.

        Raises:
            RejectedError: The user has as many connections as they may have.
        """
        before, quotas = self._place, self._core.quotas
        if before is None or before.user != user.name:
            self._place = quotas.join(user.name, user.roles)
            if before is not None:  # a browser has sent another token than its header had
                quotas.leave(before)

    def charge_user(self) -> None:
        handler = self.handler
        if handler is None or handler.rights is None:
            return
        if handler.share is None:  # one connection too many: the core closes it as the turn ends
            self.stop_reading(ENTERING)
            return
        free_bytes = handler.free_bytes = handler.share.free_bytes()
        self.holding.charge(handler.share[Resource.QUEUED_BYTES], free_bytes)
        if free_bytes < FREE_BYTES and not handler.is_link:  # a link keeps less than that anyway
            self.transport.set_write_buffer_limits(free_bytes)
        pacing = self.pacing = Pacing(handler.share.rate, handler, self.server.loop, self._stop_waiting)
        if pacing.rate.is_limited and pacing.spend(0):
            self.stop_reading(ENTERING)

    def count_read(self, size_bytes: int) -> None:
        pacing = self.pacing
        if pacing is None or not pacing.rate.is_limited:
            return
        if pacing.spend(size_bytes) and not (self.session.closed or self.transport.is_closing()):
            self.stop_reading(PACED)

    def _stop_waiting(self) -> None:
        self.hear()
        self.read_on(PACED)
        self.let_in(ENTERING)

    def _stop_pacing(self) -> None:
        """Bytes from now on are thrown away, so they are read at any rate."""
        if self.pacing is not None:
            self.pacing.leave()
        self.unread_for &= ~(PACED | KEPT_OUT)

    def _charge_unwritten(self) -> None:
        """Charge the bytes in the transport, with those that TLS keeps beside it."""
        transport = self.transport
        self.holding.leave_unwritten(transport.get_write_buffer_size() + transport.get_extra_info(KEPT_BYTES, 0))

    def _charge_held(self) -> None:
        """Charge bytes that were read and not acted on; end the connection if they grow while there is no memory.

        Bytes that wait for their turn are charged until all were acted on: an event, or the rest of a piece that is
        being read, may hold bytes that the session has released.
        """
        held_bytes = self.session.held_bytes
        if self.is_lost or not (held_bytes > self.holding.free_bytes or self.holding.begun_bytes):
            return
        refusal = self.holding.grow(held_bytes, self.server.memory, waits=bool(self.unread_for & UNACTED))
        if refusal:
            self.end(CloseCode.TRY_AGAIN_LATER, refusal)
            self.holding.begin(self.session.held_bytes)

    # Time limits.

    def hear(self) -> None:
        self.liveness.heard_s = self._now_s()

    def look_in(self, seconds: float) -> None:
        if not self.is_lost:
            self.server.keepalive.watch(self, self._now_s() + seconds)

    def proof_left_s(self) -> float:
        identity = self.identity
        if identity is None or identity.until_s == math.inf:
            return math.inf
        return identity.until_s - self.server.wall_us() / 1e6

    def check(self, now_s: float) -> float:
        """Keep the time limits; return when to check again."""
        try:
            return self._check_end(now_s) or self._check_life(now_s)
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.fail(error)
            return now_s + LINGER_S

    def _check_end(self, now_s: float) -> float:
        """End the connection if that is due; return 0 if none has begun."""
        if self._lingering is not None:
            unread = unread_bytes(self.transport)
            next_s = self._lingering.check(now_s, unread)
            if next_s == math.inf:
                self.server.cut_connections["unread"] += bool(unread)
                self.transport.abort()
            return next_s
        if self.session.closed or self._is_ending:
            self.transport.abort()
            return math.inf
        if self._refusal is not None:
            self.end(self._refusal.code, self._refusal.text)
            return now_s + LINGER_S
        return 0.0

    def _check_life(self, now_s: float) -> float:
        limits, ends_s = self.server.settings.limits, now_s + LINGER_S
        if not self.conversation.is_open:
            self.conversation.time_out()
            return ends_s
        left_s = self.proof_left_s()
        if left_s <= 0:
            self.end(CloseCode.NOT_RECOGNISED, _PROOF_ENDED)
            return ends_s
        step = self.liveness.check(now_s, reading=not self.unread_for & UNHEARD)
        if step.act is Act.LOST:
            self.end(CloseCode.PROTOCOL_ERROR, f"{NO_ANSWER} within {limits.ping_timeout_s:g} s")
            return ends_s
        if self._is_stuck(now_s):
            self.server.cut_connections["incomplete"] += 1
            self.end(CloseCode.PROTOCOL_ERROR, f"a frame has been incomplete for more than {limits.frame_s:g} s")
            return ends_s
        if step.act is Act.PING:
            self.conversation.ping()
            self.write_outgoing()
        return min(step.next_s, now_s + left_s)

    def _is_stuck(self, now_s: float) -> bool:
        held_bytes, unfinished = self.session.held_bytes, self.session.unfinished
        has_acted, self.has_acted = self.has_acted, False
        if not held_bytes:
            self._progress = None
            return False
        progress = self._progress = self._progress or Progress()
        if self.unread_for:
            progress.forget()
        elif has_acted:
            progress.go_on(unfinished)
        return progress.is_stuck(now_s, held_bytes, self.server.settings.limits, unfinished)

    # The end.

    def drain(self, text: str = HUB_STOPS) -> None:
        self._drain_text = text
        self.guard(self._drain)

    def _drain(self) -> None:
        handler = self.handler
        if handler is not None and not handler.closed:
            handler.write_pending()
        if (handler is None or handler.writable) and not self.session.closed:
            self.conversation.drain(self._drain_text)

    def end(self, code: int, text: str) -> None:
        if not self.session.closed:
            self.reason = self.conversation.close(code, text)
            self.linger()

    def turn_away(self, error: NotRecognisedError) -> None:
        """The far side was not authenticated: say so when its answer is due, and read nothing until then."""
        self._refusal = error
        if error.delay_s > 0:
            self.hold(error.delay_s)
        else:
            self.end(error.code, error.text)

    def linger(self) -> None:
        """Stop sending, but read on and throw it away, so that the far side can read why.

        A socket that is closed while bytes wait in it tears a frame; one that is closed with unread input resets the
        connection. Either way the far side never learns the reason.
        """
        self.write_outgoing()
        self._depart()
        if self.transport.is_closing():
            return
        if not self.far_side_closes and not end_writing(self.transport):
            self.transport.close()
            return
        self._stop_pacing()
        self.unread_for = NOTHING
        self.holding.begin(self.session.held_bytes)
        self._lingering = Lingering(self._now_s(), unread_bytes(self.transport), self.server.settings.limits)
        self.read_on()
        self.look_in(LINGER_S)

    def finish(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.write_outgoing()
        self._depart()
        self.transport.close()
        self.look_in(LINGER_S)

    def end_in(self, seconds: float) -> None:
        """Close the socket after so long, if the far side has not ended the conversation by then."""
        self._is_ending = True
        self.look_in(seconds)

    def abort(self) -> None:
        self.transport.abort()

    def abandon(self) -> None:
        """The dialler has given up, perhaps as the connection was made: uvloop then calls no `connection_lost`."""
        if self in self.server.connections:
            self.transport.abort()
            self.connection_lost(None)

    def _depart(self) -> None:
        """Let the far side leave the hub: a peer now, since its place is wanted; a client later, as thousands may."""
        handler = self.handler
        if handler is None or handler.delivery.role is not Role.CLIENT:
            self.leave()
        else:
            handler.shut()
            self._core.depart(partial(self.guard, self.leave))

    def leave(self) -> None:
        try:
            self.conversation.leave(self.reason)
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self._log_failure(error, b"")
        if self.handler is not None:
            self._core.detach(self.handler, self.reason)
        if self._place is not None:
            place, self._place = self._place, None
            self._core.quotas.leave(place)
        if self.lost is not None and not self.lost.done():
            self.lost.set_result(None)

    # The last line of defence.

    def after_turn(self, act: Callable[[], object]) -> None:
        """Call `act` after this turn of the loop; an exception ends this connection."""
        self.server.after_turn(lambda: self.guard(act))

    def guard(self, act: Callable[[], object]) -> None:
        """Call `act` outside of a read; an exception ends this connection. After the end, it is not called."""
        if self.conversation is not ENDED:
            try:
                act()
            except Exception as error:  # noqa: BLE001 -- the last line of defence
                self.fail(error)

    def fail(self, error: Exception, read: bytes = b"") -> None:
        """A bug: end this connection, and nothing else."""
        if self.conversation is ENDED:
            return
        self._log_failure(error, read)
        if self.session.closed:
            self.transport.abort()
            return
        try:
            self.end(CloseCode.INTERNAL_ERROR, "internal error of the hub")
        except Exception:  # noqa: BLE001 -- not even that can be said
            self.transport.abort()

    def _log_failure(self, error: Exception, read: bytes) -> None:
        self.server.failed_connections += 1
        fields = describe(error, read)
        text = "a connection ended because of a bug, please report it"
        self.server.log.error(text, address=self.address, name=self.far_name, **fields)


SHOWN_BYTES = 8  # bytes of a read that are logged: the head of a frame. The rest may be a token.

SHOWN_CHARACTERS = 200  # how much of the exception's text is logged, which may hold input
_SHOWN_PLACES = 3  # how many places of the stack are logged, the innermost last


def describe(error: Exception, read: bytes) -> dict[str, object]:
    """Return the fields of the log line for a bug: one line, of bounded length."""
    places = traceback.extract_tb(error.__traceback__)[-_SHOWN_PLACES:]
    return {
        "error": f"{type(error).__name__}: {error}"[:SHOWN_CHARACTERS],
        "at": " > ".join(f"{place.filename.rpartition('/')[2]}:{place.lineno}" for place in places),
        "read_bytes": len(read),
        "read": read[:SHOWN_BYTES].hex(),
    }
