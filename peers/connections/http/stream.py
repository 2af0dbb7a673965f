"""`Stream`: one GET of events, live or from the journal.

```
without a journal   handler ─ batches ─▶ events, without ids; its queue overflows by its policy: `dropped`
recorded            handler ─ batches ─▶ bell ─▶ FETCH ─▶ events as the reader process has made them, with ids
recorded elsewhere  handler ─ batches ─▶ bell ─┐
                             time, now and then ┴▶ FETCH ─▶ the same, made by the reader process of the other hub
```

Which of these it is: recorded, if this hub, or the one that `journal.of` names, records all that is asked for, the
client may read the journal, and wishes for no queue. Then what waits for a slow reader waits in the journal, and no
policy is needed.

Owner: one `peers.connections.http.conversation.HttpConversation`. Invariants: what is read from the journal is told
once, in order; a stream whose journal has failed ends, and says so, as nobody knows what it would miss.

Not here: when to read (`peers.websocket.http.following`), how an event looks (`peers.values.event_stream`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import msgspec

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.policy.policy import Action
from hub.topics import RESERVED
from peers.journal.forms import PLACE, Order, granted
from peers.node.node import Node
from peers.transport.transport import unread_bytes
from peers.values.event_stream import COMMENT, cut_event, dropped_event, events_form, gone_event
from peers.verbs.verbs import Verbs
from peers.websocket.http.following import Following, Looks
from peers.websocket.http.query import Wanted
from peers.wire.events import SubscriptionChange
from peers.wire.records import END_OF_TIME_US, Fetch, decode_records

__all__ = ["LIVE_HEADERS", "PIECE_BYTES", "Shell", "Stream"]

PIECE_BYTES: Final = 64 * 1024
"""Bodies in one piece of the journal: 2 ms of work for the reader."""

AGAIN_S: Final = 0.5
"""After how long a piece is asked for again, if too many are, seconds."""

LIVE_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}
"""The third is for nginx, which would keep events until there are many."""

_NO_JOURNAL: Final = "there is no journal here to begin in; ask the hub that records"

_REQUEST: Final = 1
"""The number of whatever a stream asks for: there is one thing at a time."""


class Shell(Protocol):
    """The connection, as far as a stream needs it."""

    @property
    def is_choked(self) -> bool:
        """Whether the client has much to read yet."""

    def accept(self) -> None:
        """The stream begins."""

    def refuse(self, error: RejectedError) -> None:
        """It does not."""

    def say(self, text: bytes) -> None:
        """Write events soon."""

    def write(self, text: bytes) -> None:
        """Write events now."""

    def end(self, code: int, text: str) -> None:
        """End the stream."""

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after so long."""

    def after_turn(self, act: Callable[[], None]) -> None:
        """Call `act` once this turn is over."""


class Stream:
    """One stream. See `peers.websocket.http.publishing.Listener`.

    Args:
        node: The hub.
        handler: Of the client.
        verbs: By which it asks.
        shell: The connection.
        wanted: What is asked for.
    """

    __slots__ = (
        "_cut",
        "_epoch",
        "_following",
        "_handler",
        "_is_accepted",
        "_is_rung",
        "_journal",
        "_looks",
        "_node",
        "_shell",
        "_time_us",
        "_unread_bytes",
        "_verbs",
        "_wanted",
        "is_recorded",
    )

    def __init__(self, node: Node, handler: Handler, verbs: Verbs, shell: Shell, wanted: Wanted) -> None:
        self._node = node
        self._handler = handler
        self._verbs = verbs
        self._shell = shell
        self._wanted = wanted
        self._looks = Looks() if node.settings.journal.of and not node.journal.id else None
        """Where the journal is another hub's."""
        self._journal: bytes | None = None
        """The id of that journal, once it is known."""
        self.is_recorded = wanted.has_start or (wanted.queue is None and self._is_all_recorded() and self._may_read())
        """Whether events come from the journal."""
        self._is_accepted = False
        """Whether the client was told that the stream begins."""
        self._following: Following | None = None
        """Set with that, if events come from the journal."""
        self._time_us = wanted.time_us
        """The time at which it begins; None once it is known which offset that is."""
        self._epoch = wanted.epoch
        """The epoch of the journal in which the position was told; 0 where nobody knows."""
        self._cut = b""
        """What is to be told first, if the client was further than the journal is now."""
        self._is_rung = False
        """Whether the journal will be looked at after this turn."""
        self._unread_bytes = 0
        """What the client had not taken at the last look."""

    def _is_all_recorded(self) -> bool:
        topics = tuple(self._node.settings.journal.topics)
        return self._has_journal and all(
            one.startswith(topics) and not one.startswith(RESERVED) for one in self._wanted.prefixes
        )

    @property
    def _has_journal(self) -> bool:
        return bool(self._node.journal.id) or self._looks is not None

    def _may_read(self) -> bool:
        rights = self._handler.rights
        return rights is None or all(rights.may_all(Action.JOURNAL, one) for one in self._wanted.prefixes)

    def begin(self) -> None:
        """Subscribe; the answer comes before any message.

        Raises:
            RejectedError: It cannot begin in the journal.
        """
        if self.is_recorded:
            if not self._has_journal:
                raise RejectedError(CloseCode.NOT_ALLOWED, _NO_JOURNAL)
            if not self._is_all_recorded():
                raise RejectedError(CloseCode.NOT_ALLOWED, "topic not recorded here; see journal.topics of the hub")
            granted(Fetch(_REQUEST, prefixes=self._prefixes), self._handler.rights, Action.JOURNAL, narrows=False)
        self._verbs.act(SubscriptionChange(subscribe=True, prefixes=self._wanted.prefixes, request=_REQUEST))

    @property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(self._wanted.prefixes)

    # What the hub says.

    def confirmed(self, request: int, offset: int | None) -> None:  # noqa: ARG002 -- there is one at a time
        """The subscription has begun."""
        if self.is_recorded and self._looks is not None:
            time_us = END_OF_TIME_US if not self._epoch else None
            order = Order(_REQUEST, self._wanted.start or 0, time_us, prefixes=self._prefixes, bytes=0, journal=b"")
            # How far that journal reaches, and whether the position holds: `records` is told.
            self._verbs.act(msgspec.structs.replace(order, epoch=self._epoch))
            return
        if self.is_recorded:
            start = self._wanted.start
            if start is not None:
                start = self._node.journal.cut_back(start, self._epoch)
            refusal = self._join(start, offset)
            if refusal is not None:
                self._turn_away(refusal)
                return
        self._accept()

    def _accept(self) -> None:
        self._is_accepted = True
        self._shell.accept()
        if self._cut:
            self._shell.write(self._cut)
        self._read_or_rest()

    def _turn_away(self, refusal: RejectedError) -> None:
        self._verbs.act(SubscriptionChange(subscribe=False, prefixes=self._wanted.prefixes, request=0))
        self._shell.refuse(refusal)

    def _meet(self, body: memoryview) -> None:
        """The hub that records has told how far its journal reaches: begin there."""
        found = decode_records(bytes(body))
        start = found.start if self._epoch else self._wanted.start
        self._journal, self._epoch = found.journal, found.epoch
        refusal = self._join(start, found.head)
        if refusal is None:
            self._accept()
        else:
            self._turn_away(refusal)

    def _join(self, start: int | None, offset: int | None) -> RejectedError | None:
        """Begin in the journal, which stands at this offset; return why not."""
        if offset is None:
            return RejectedError(CloseCode.JOURNAL_FAILED, "the journal cannot be written now; ask again later")
        if start is not None and self._wanted.start is not None and start < self._wanted.start:
            self._cut = cut_event(self._wanted.start, start)
        if self._time_us is not None:
            start = 0
        elif start is None:
            start = offset
        elif start > offset:
            text = f"offset {start} is behind the end of the journal, which is at {offset}: was it another one?"
            return RejectedError(CloseCode.GONE, text)
        self._following = Following(start, offset)
        return None

    def refused(self, error: RejectedError, request: int) -> None:
        """It was refused what it asked for, or is taken away what it had."""
        if not self._is_accepted and self.is_recorded and self._looks is not None:
            self._turn_away(error)  # it has subscribed by then
        elif not self._is_accepted:
            self._shell.refuse(error)
        elif request and error.code == CloseCode.TRY_AGAIN_LATER and self._following is not None:
            self._following.failed()
            self._shell.later(AGAIN_S, self.go_on)
        else:
            self._shell.end(error.code, error.text)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Nothing is published here."""

    def records(self, body: memoryview) -> None:
        """A piece of the journal has come: tell it, and ask for the next one."""
        following = self._following
        if following is None:
            self._meet(body)
            return
        start, place, head, self._epoch = PLACE.unpack_from(body)
        if self._time_us is None and start < following.position:
            self._shell.write(cut_event(following.position, start))
            following.cut_back(start)
        self._time_us = None
        following.reached(place)
        if self._looks is not None:
            following.extend(head)
        text = bytes(body[PLACE.size :])
        if text:
            self._shell.write(text)
        self._read_or_rest()

    def gone(self, text: str, first: int) -> None:
        """What was to be read next was deleted: tell so, and go on with what is there."""
        following = self._following
        if following is None:
            self._turn_away(RejectedError(CloseCode.GONE, text))
            return
        if first <= following.position:
            self._shell.end(CloseCode.GONE, text)
            return
        self._shell.write(gone_event(following.position, first))
        following.reached(first)
        self._read_or_rest()

    def write_later(self) -> None:
        """Nothing: what is told is written as it is told."""

    # The journal.

    def _read_or_rest(self) -> None:
        """Ask for a piece; where nothing more is known of in another hub's journal, look there later."""
        if self._looks is not None and self._following is not None and not self._following.is_due:
            self._plan(self._looks.plan())
        else:
            self.go_on()

    def _plan(self, look: tuple[int, float]) -> None:
        number, pause_s = look
        self._shell.later(pause_s, partial(self._look_there, number))

    def _look_there(self, number: int) -> None:
        """Ask whether there is more, unless that was planned anew meanwhile."""
        following, looks = self._following, self._looks
        if following is None or looks is None or not looks.take(number):
            return
        following.extend(following.position + 1)
        self.go_on()

    def go_on(self) -> None:
        """Ask for a piece, if there is one and the client reads."""
        following = self._following
        if following is None or not following.is_due or self._shell.is_choked or self._handler.closed:
            return
        following.asked()
        start, time_us = following.position, self._time_us
        self._verbs.act(
            Order(
                _REQUEST,
                start,
                time_us,
                prefixes=self._prefixes,
                bytes=PIECE_BYTES,
                journal=self._journal,
                epoch=self._epoch,
                form="events",
            )
        )

    def _look(self) -> None:
        """Something has come for this stream: the journal has it, or will have it soon."""
        self._is_rung = False
        following, head = self._following, self._node.journal.position()
        if following is None or self._handler.closed:
            return
        if head is None or not following.ring(head):
            text = "the journal cannot be written, so nobody knows what is missing; come back with the last id"
            self._shell.end(CloseCode.JOURNAL_FAILED, text)
            return
        self.go_on()

    # What the handler writes.

    def render(self, batches: list[Batch]) -> tuple[list[bytes], int]:
        """Return batches as events, and how many messages have no form; or ring, and return nothing."""
        if self.is_recorded and self._looks is not None:
            look = self._looks.ring()
            if look is not None:
                self._plan(look)
            return [], 0
        if self.is_recorded:
            if not self._is_rung:
                self._is_rung = True
                self._shell.after_turn(self._look)  # by then the journal has them, too
            return [], 0
        frames = []
        lost = 0
        for batch in batches:
            form = batch.form(events_form)
            frames.append(form.frames(batch))
            lost += form.lost_messages
        return frames, lost

    def render_gap(self, lost_messages: int) -> bytes:
        """Tell that messages are missing, unless they are in the journal."""
        return b"" if self.is_recorded else dropped_event(lost_messages)

    # Signs of life.

    def is_alive(self, transport: asyncio.Transport) -> bool:
        """Return whether the client has taken something since the last look, or all of it; say something, too.

        A client over HTTP says nothing while it follows. What its system has acknowledged is all that is known of it.
        """
        unread, before = unread_bytes(transport), self._unread_bytes
        self._unread_bytes = unread
        self._shell.say(COMMENT)
        return not unread or unread < before
