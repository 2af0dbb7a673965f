"""`Stream`: one GET of events, live or from the journal.

```
without a journal   handler ─ batches ─▶ events, without ids; its queue overflows by its policy: `dropped`
recorded            handler ─ batches ─▶ bell ─▶ FETCH ─▶ events as the reader process has made them, with ids
recorded elsewhere  handler ─ batches ─▶ bell ─┐
                             time, now and then ┴▶ FETCH ─▶ the same, made by the reader process of the other hub
```

A stream is recorded if this hub, or the one that `journal.of` names, records all of its topics, and the client may read
the journal and wishes for no queue. Then a slow reader waits in the journal, and no policy is needed: each record is
written once, in order. A stream whose journal has failed ends, as its losses are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import msgspec

from hub.errors import CloseCode, RejectedError
from hub.handlers.handler import Handler
from hub.messages.batch import Batch
from hub.policy.policy import Action
from hub.topics import RESERVED
from peers.commands.commands import Commands
from peers.connections.connection import Connection
from peers.journal.forms import PLACE, Order, granted
from peers.transport.transport import unread_bytes
from peers.values.event_stream import COMMENT, cut_event, dropped_event, events_form, gone_event
from peers.websocket.http_content import Wanted
from peers.wire.events import SubscriptionChange
from peers.wire.records import END_OF_TIME_US, Fetch, decode_records

if TYPE_CHECKING:
    from peers.connections.http import HttpConversation

PIECE_BYTES: Final = 64 * 1024  # bodies in one piece of the journal: 2 ms of work for the reader
AGAIN_S: Final = 0.5  # after how long a piece is asked for again, if too many are, seconds

LIVE_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # else nginx would keep events until there are many
    "X-Content-Type-Options": "nosniff",
}

LEAST_PAUSE_S: Final = 0.05  # before the end of another hub's journal is checked again, seconds: 20 times a second

MOST_PAUSE_S: Final = 10.0  # the longest such pause, after which records without a bell here are found, seconds

_NO_JOURNAL: Final = "there is no journal here to begin in; ask the hub that records"

_REQUEST: Final = 1  # the number of a stream's requests: there is one at a time


class Stream:
    """One stream of events.

    ```
    the subscription begins at S ─▶ target = S ─▶ read from `position` up to the target ─▶ wait for the bell ─┐
                                                     ▲────── a message has come: target = end of the journal ─┘
    ```

    Everything before `position` was written, once. New events are read from the journal, too, so that each has the
    offset of its record, and a client that comes back with the last one misses nothing.
    """

    __slots__ = (
        "_commands",
        "_connection",
        "_conversation",
        "_epoch",
        "_handler",
        "_is_accepted",
        "_is_elsewhere",
        "_is_look_soon",
        "_is_reading",
        "_is_rung",
        "_journal",
        "_look_number",
        "_pause_s",
        "_position",
        "_server",
        "_target",
        "_time_us",
        "_unread_bytes",
        "_wanted",
        "is_recorded",
    )

    def __init__(
        self, connection: Connection, conversation: HttpConversation, commands: Commands, wanted: Wanted
    ) -> None:
        server = self._server = connection.server
        self._connection = connection
        self._conversation = conversation
        self._handler = cast("Handler", connection.handler)
        self._commands = commands
        self._wanted = wanted
        self._is_elsewhere = bool(server.settings.journal.of) and not server.journal.id  # another hub's journal
        self._journal: bytes | None = None  # the id of that journal, once it is known
        self.is_recorded = wanted.has_start or (wanted.queue is None and self._is_all_recorded() and self._may_read())
        """Whether events come from the journal."""
        self._is_accepted = False
        self._position: int | None = None  # all before this offset was written; None until accepted
        self._target = 0  # there are records up to this offset
        self._is_reading = False  # whether a piece was asked for
        self._time_us = wanted.time_us  # the time at which it begins; None once its offset is known
        self._epoch = wanted.epoch  # the epoch of the journal in which the position was read; 0 if that is unknown
        self._is_rung = False  # whether the journal will be looked at after this turn
        self._unread_bytes = 0  # bytes that the client had not taken at the last look
        # The end of another hub's journal is unknown here, and messages may come here before they are recorded there,
        # or never. So a stream looks soon once a bell has rung, and then less and less often while nothing is found.
        self._pause_s = LEAST_PAUSE_S
        self._look_number = 0  # of the look that is planned: earlier ones are void
        self._is_look_soon = False

    def _is_all_recorded(self) -> bool:
        topics = tuple(self._server.settings.journal.topics)
        return self._has_journal and all(
            one.startswith(topics) and not one.startswith(RESERVED) for one in self._wanted.prefixes
        )

    @property
    def _has_journal(self) -> bool:
        return bool(self._server.journal.id) or self._is_elsewhere

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
        self._commands.act(SubscriptionChange(subscribe=True, prefixes=self._wanted.prefixes, request=_REQUEST))

    @property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(self._wanted.prefixes)

    # Answers of the hub.

    def confirmed(self, offset: int | None) -> None:
        if self.is_recorded and self._is_elsewhere:
            time_us = END_OF_TIME_US if not self._epoch else None
            order = Order(_REQUEST, self._wanted.start or 0, time_us, prefixes=self._prefixes, bytes=0, journal=b"")
            # How far that journal reaches, and whether the position holds: `records` is told.
            self._commands.act(msgspec.structs.replace(order, epoch=self._epoch))
        elif self.is_recorded:
            start = self._wanted.start
            if start is not None:
                start = self._server.journal.cut_back(start, self._epoch)
            self._accept(start, offset)
        else:
            self._is_accepted = True
            self._conversation.accept_stream()

    def _accept(self, start: int | None, offset: int | None) -> None:
        """Begin in the journal, which ends at `offset`, or say why not."""
        if offset is None:
            self._turn_away(
                RejectedError(CloseCode.JOURNAL_FAILED, "the journal cannot be written now; ask again later")
            )
            return
        cut = b""  # the event that comes first, if the client was further than the journal is now
        if start is not None and self._wanted.start is not None and start < self._wanted.start:
            cut = cut_event(self._wanted.start, start)
        if self._time_us is not None:
            start = 0
        elif start is None:
            start = offset
        elif start > offset:
            text = f"offset {start} is behind the end of the journal, which is at {offset}: was it another one?"
            self._turn_away(RejectedError(CloseCode.GONE, text))
            return
        self._position, self._target = start, offset
        self._is_accepted = True
        self._conversation.accept_stream()
        if cut:
            self._write(cut)
        self._read_or_rest(start)

    def _turn_away(self, refusal: RejectedError) -> None:
        self._commands.act(SubscriptionChange(subscribe=False, prefixes=self._wanted.prefixes, request=0))
        self._conversation.refuse_stream(refusal)

    def refused(self, error: RejectedError, request: int) -> None:
        if not self._is_accepted and self.is_recorded and self._is_elsewhere:
            self._turn_away(error)  # it has subscribed by then
        elif not self._is_accepted:
            self._conversation.refuse_stream(error)
        elif request and error.code == CloseCode.TRY_AGAIN_LATER and self._position is not None:
            self._is_reading = False
            self.later(AGAIN_S, self.go_on)
        else:
            self._connection.end(error.code, error.text)

    def records(self, body: memoryview) -> None:
        """A piece of the journal has come: write it, and ask for the next one."""
        if self._position is None:  # the hub that records has told how far its journal reaches
            found = decode_records(bytes(body))
            start = found.start if self._epoch else self._wanted.start
            self._journal, self._epoch = found.journal, found.epoch
            self._accept(start, found.head)
            return
        start, place, head, self._epoch = PLACE.unpack_from(body)
        if self._time_us is None and start < self._position:  # records were lost, and others have their offsets
            self._write(cut_event(self._position, start))
            self._position = self._target = start
        self._time_us = None
        if self._is_elsewhere:
            self._target = max(self._target, head)
        text = bytes(body[PLACE.size :])
        if text:
            self._write(text)
        self._read_or_rest(place)

    def gone(self, text: str, first: int) -> None:
        """The records to be read next were deleted: report that, and go on with the oldest ones."""
        if self._position is None:
            self._turn_away(RejectedError(CloseCode.GONE, text))
        elif first <= self._position:
            self._connection.end(CloseCode.GONE, text)
        else:
            self._write(gone_event(self._position, first))
            self._read_or_rest(first)

    def _write(self, text: bytes) -> None:
        if not self._conversation.session.closed:
            self._connection.write([text])

    # The journal.

    def _read_or_rest(self, place: int) -> None:
        """All before `place` was written: ask for a piece; at the known end of another hub's journal, look later."""
        self._is_reading = False
        self._position = max(self._position or 0, place)
        if self._is_elsewhere and self._position >= self._target:
            self._plan_look()
        else:
            self.go_on()

    def _plan_look(self) -> None:
        self._look_number += 1
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, MOST_PAUSE_S)
        self.later(pause_s, partial(self._look_there, self._look_number))

    def _look_there(self, number: int) -> None:
        """Ask whether there is more, unless that was planned anew meanwhile."""
        if self._position is not None and number == self._look_number:
            self._is_look_soon = False
            self._target = max(self._target, self._position + 1)
            self.go_on()

    def go_on(self) -> None:
        position = self._position
        if position is None or self._is_reading or position >= self._target:
            return
        if self._connection.is_choked or self._handler.closed:
            return
        self._is_reading = True
        self._commands.act(
            Order(
                _REQUEST,
                position,
                self._time_us,
                prefixes=self._prefixes,
                bytes=PIECE_BYTES,
                journal=self._journal,
                epoch=self._epoch,
                form="events",
            )
        )

    def _look(self) -> None:
        """A message has come for this stream: the journal has it, or will have it soon."""
        self._is_rung = False
        recorder = self._server.journal.recorder
        head = None if recorder is None else recorder.position()
        if self._position is None or self._handler.closed:
            return
        if head is None or head < self._target:
            text = "the journal cannot be written, so nobody knows what is missing; come back with the last id"
            self._connection.end(CloseCode.JOURNAL_FAILED, text)
            return
        self._target = head
        self.go_on()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after so long, if the client is still there."""
        self._server.loop.call_later(seconds, lambda: self._connection.guard(act))

    # The handler's messages.

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as events; or ring, and return nothing."""
        if self.is_recorded and self._is_elsewhere:
            self._pause_s = LEAST_PAUSE_S
            if not self._is_look_soon:
                self._is_look_soon = True
                self._plan_look()
            return []
        if self.is_recorded:
            if not self._is_rung:
                self._is_rung = True
                self._connection.after_turn(self._look)  # by then the journal has them, too
            return []
        return self._conversation.forms(batches, events_form)

    def render_gap(self, lost_messages: int) -> bytes:
        return b"" if self.is_recorded else dropped_event(lost_messages)

    def look_for_life(self) -> None:
        """Say something; a client that has taken something since the last look, or all of it, is alive.

        A client over HTTP says nothing while it follows: the bytes that its system has acknowledged must do.
        """
        unread, before = unread_bytes(self._connection.transport), self._unread_bytes
        self._unread_bytes = unread
        self._conversation.session.say(COMMENT)
        self._connection.write_later()
        if not unread or unread < before:
            self._connection.hear()
