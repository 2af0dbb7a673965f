"""`Served`: one named consumer of the hub: reads the journal, delivers messages, publishes dead letters.

Nothing is read while no member waits. Each question of a member gets one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hub.consumers.consumer import Consumer, Item, Member
from hub.errors import (
    CloseCode,
    GoneError,
    HubError,
    JournalCorruptError,
    NotAllowedError,
    ProtocolError,
    RejectedError,
)
from hub.handlers.handler import Handler
from hub.journal.block import Block, Record
from hub.messages.batch import decode_values
from hub.messages.frame import HEADER_BYTES, KIND_MESSAGES, Encoding, Frame
from hub.messages.request_frame import Status
from hub.policy.policy import Action, check_granted, check_prefixes_granted
from hub.requests.hub_services import Later, is_admin
from peers.journal.readers import Deliver
from peers.journal.remote_journals import Cancel, nothing
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from peers.wire.records import FETCH_WAIT_LIMIT_MS, Fetch, Records, decode_records

if TYPE_CHECKING:
    from peers.journal.consumers.service import ConsumerClient, Consumers


class LocalClient(NamedTuple):
    """A client of this hub."""

    handler: Handler
    hub: str = ""

    @property
    def id(self) -> int:
        return self.handler.id

    @property
    def owner(self) -> str:
        rights = self.handler.rights
        return "" if rights is None else rights.user.name

    @property
    def is_admin(self) -> bool:
        return is_admin(self.handler)

    @property
    def frame_limit_bytes(self) -> int:
        return self.handler.frame_limit_bytes

    @property
    def is_gone(self) -> bool:
        return self.handler.closed

    def reads(self, prefixes: tuple[str, ...]) -> bool:
        rights = self.handler.rights
        return rights is None or all(rights.may_all(Action.JOURNAL, prefix) for prefix in prefixes)

    def check_reads(self, prefixes: tuple[str, ...]) -> None:
        check_prefixes_granted(self.handler.rights, Action.JOURNAL, prefixes)

    def check_publishes(self, topic: str) -> None:
        check_granted(self.handler.rights, Action.PUBLISH, topic)


PIECE_BYTES = 128 * 1024  # bytes read at a time: about a thousand messages
_PAUSE_S = 0.02  # pause after records that the consumer does not want: it need not look at each commit of a busy hub
_AGAIN_S = 1.0  # pause after an error
_KIND = 4


class Reading:
    """Reads the records of one consumer; calls `on_news` when there is something to take, or to skip to."""

    def __init__(
        self, fetch: Callable[[Fetch, Deliver], Cancel], prefixes: tuple[str, ...], on_news: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._fetch = fetch
        self._prefixes = prefixes
        self._on_news = on_news
        self._records: Iterator[Record] = iter(())  # the rest of the last piece
        self._next: int | None = None  # where the piece behind that begins; None once the piece was taken whole
        self.gone_before: int | None = None  # the oldest offset, if the requested one is deleted
        self._is_asking = False  # true from the moment when a piece is asked for until it, or an error, is there
        self._cancel: Cancel = nothing  # ends the FETCH that is on its way
        self._pause: asyncio.TimerHandle | None = None  # the timer of a pause; None while there is none
        self.error = ""  # why the last read has failed; empty after a success

    def next_record(self) -> Record | None:
        return next(self._records, None)

    def finished(self) -> int | None:
        """Return the offset behind a piece once all of it was taken, and only once."""
        finished, self._next = self._next, None
        return finished

    def more(self, start: int) -> None:
        """Read on from `start`, unless a read is pending."""
        if self._is_asking or self._pause is not None:
            return
        self._is_asking, self._cancel = True, nothing
        order = Fetch(1, start, None, None, self._prefixes, PIECE_BYTES, FETCH_WAIT_LIMIT_MS)
        cancel = self._fetch(order, lambda outcome: self._got(outcome, start))
        if self._is_asking:
            self._cancel = cancel

    def _got(self, outcome: bytes | bytearray | RejectedError, start: int) -> None:
        self._is_asking = False
        try:
            found = records_of(outcome)
            blocks = [Block.parse(data, verify=False) for data in found.blocks]
        except GoneError as error:
            if error.first <= start:
                self._fail(error, start)
                return
            self.gone_before = error.first
        except (RejectedError, ProtocolError, JournalCorruptError) as error:
            self._fail(error, start)
            return
        else:
            self._records = chain.from_iterable(block.records() for block in blocks)
            self._next = found.next
            if not blocks and found.next >= found.head:
                self._rest(_PAUSE_S)
        self.error = ""
        self._on_news()

    def _fail(self, error: HubError, start: int) -> None:
        self.error = f"nothing can be read from offset {start} on: {error}"
        self._rest(_AGAIN_S)

    def _rest(self, seconds: float) -> None:
        def go_on() -> None:
            self._pause = None
            self._on_news()

        if self._pause is None:
            self._pause = self._loop.call_later(seconds, go_on)

    def stop(self) -> None:
        self._cancel()
        self._is_asking = True  # ignore a late answer, and send no FETCH
        self._on_news = lambda: None
        if self._pause is not None:
            self._pause.cancel()


def records_of(outcome: bytes | bytearray | RejectedError) -> Records:
    """Return the answer to a FETCH; raises `GoneError`, `RejectedError` or `ProtocolError` for an error."""
    if isinstance(outcome, RejectedError):
        raise outcome
    body = bytes(outcome[HEADER_BYTES:])
    if outcome[_KIND] == Kind.NOTICE:
        notice = decode_notice(body)
        if notice.code == CloseCode.GONE and notice.offset is not None:
            raise GoneError(notice.text, notice.offset)
        raise RejectedError(notice.code, notice.text)
    return decode_records(body)


_FED = 256  # records offered in a turn: about 1 ms
_HEAD_BYTES = 4096  # room for the fields of a dead letter beside the value
Row = list[Any]  # offset, time in µs, deliveries, topic, encoding, body; or for the last two: is decoded, value


@dataclass(slots=True, eq=False)
class Participant:
    """A member and its client."""

    number: int
    client: ConsumerClient
    member: Member
    served: Served
    asked: Later | None = None
    most_bytes: int = 0
    timer: asyncio.TimerHandle | None = None  # answers the pending `take` at the latest
    given: int = 0
    last: list[int] = field(default_factory=list)
    takes_values: bool = False  # whether messages carry values in place of encoding and body

    def answer(self, rows: list[Row] | None) -> None:
        """Answer the pending `take`, if any; None: it is no member any more."""
        asked, self.asked = self.asked, None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if asked is not None:
            asked.give(rows)

    def refuse(self, error: HubError) -> None:
        asked, self.asked = self.asked, None
        self.answer(None)
        if asked is not None:
            asked.fail(error)


class Served:
    """One consumer; its name has its user in front where there are users."""

    def __init__(self, name: str, consumer: Consumer, owner: Consumers) -> None:
        self.name = name
        self.consumer = consumer
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._reading = Reading(owner.journal.fetch, consumer.terms.prefixes, self._serve)
        self.participants: dict[int, Participant] = {}  # by their numbers
        # Waiting ones, in order: an answered one that asks again is behind all others.
        self._waiting: dict[Participant, None] = {}
        self._due: asyncio.TimerHandle | None = None  # the timer of the next redelivery; None while nothing is out
        self._due_s: float | None = None  # when that is, of the loop's clock
        self._is_planned = False  # true from when the next share is planned until it begins
        self._unburied: list[Item] = []  # items that could not be published as dead letters; `tick` tries again
        self.kept_changes = -1  # `Consumer.changes` as of the last save
        self.charged_bytes = 0
        self._stopped = False

    def join(self, participant: Participant) -> None:
        self.participants[participant.number] = participant
        self.consumer.join(participant.member)

    def leave(self, participant: Participant, seen: tuple[int, ...] | None = None) -> None:
        """Remove a member. Of the messages it has `seen` the first of each key has failed; None: it has seen all."""
        if self.participants.pop(participant.number, None) is None:
            return
        self._waiting.pop(participant, None)
        participant.answer(None)
        if seen is not None:
            self.consumer.give_back(participant.member, participant.member.out.keys() - set(seen))
        self.consumer.leave(participant.member)
        self._serve()

    def take(self, participant: Participant, most_bytes: int, wait_s: float) -> Later:
        participant.answer([])  # an older question, which is not waited for any more
        later = participant.asked = Later()
        participant.most_bytes = most_bytes

        def give_up() -> None:
            self._waiting.pop(participant, None)
            participant.answer([])

        participant.timer = self._loop.call_later(wait_s, give_up)
        self._waiting.pop(participant, None)
        self._waiting[participant] = None
        self._plan()  # in a turn of its own: the answer has no listener yet
        return later

    def repeat(self, participant: Participant, got: int) -> None:
        """Take back the messages of the last answer if the client did not get it."""
        if got < participant.given:
            self.consumer.give_back(participant.member, participant.last)
            participant.given, participant.last = got, []

    def acknowledge(self, participant: Participant, offsets: tuple[int, ...]) -> None:
        self.consumer.acknowledge(participant.member, offsets)
        self._plan()

    def nak(self, participant: Participant, offsets: tuple[int, ...], delay_s: float) -> list[int]:
        """Take back messages; return the offsets of all messages that the member has lost by that."""
        until_s = self._loop.time() + delay_s if delay_s else None
        gone = self.consumer.nak(participant.member, offsets, until_s)
        self._plan()
        return gone

    def in_progress(self, participant: Participant, offsets: tuple[int, ...]) -> None:
        self.consumer.in_progress(participant.member, offsets, self._loop.time())
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True

            def serve() -> None:
                self._is_planned = False
                self._serve()

            self._loop.call_soon(serve)

    def _serve(self) -> None:
        if self._stopped:
            return
        self._hand_out()
        if self._waiting:
            self._feed()
        self._bury()
        if (due_s := self.consumer.due_s) != self._due_s:
            if self._due is not None:
                self._due.cancel()
            self._due_s = due_s
            self._due = None if due_s is None else self._loop.call_at(due_s, self._expire)
        self._owner.changed(self)

    def _hand_out(self) -> None:
        now_s = self._loop.time()
        for participant in list(self._waiting):
            if not participant.client.reads(self.consumer.terms.prefixes):
                del self._waiting[participant]
                participant.refuse(NotAllowedError(Status.NOT_ALLOWED, "journal: not granted any more"))
                self._loop.call_soon(self.leave, participant)
                continue
            items = self.consumer.take(participant.member, now_s, participant.most_bytes)
            if items:
                del self._waiting[participant]
                participant.given += len(items)
                participant.last = [item.record.offset for item in items]
                participant.answer([_row(item, takes_value=participant.takes_values) for item in items])

    def _feed(self) -> None:
        consumer, reading = self.consumer, self._reading
        if consumer.is_full or self._owner.core.memory.is_over:
            return
        if (oldest := reading.gone_before) is not None:
            self._owner.announce(self.name, {"state": "missed", "from": consumer.read, "to": oldest})
            consumer.skip_to(oldest)
            reading.gone_before = None
        fed = 0
        while fed < _FED and not consumer.is_full and (record := reading.next_record()) is not None:
            consumer.offer(record)
            fed += 1
        if fed:
            self._plan()
            return
        finished = reading.finished()
        if finished is not None:
            consumer.reached(finished)
        reading.more(consumer.read)

    def _expire(self) -> None:
        self._due = self._due_s = None
        self.consumer.expire(self._loop.time())
        self._serve()

    def _bury(self) -> None:
        """Publish dead letters, or only announce them where the consumer has no topic for them."""
        dead, terms = self.consumer.dead, self.consumer.terms
        while dead:
            item = dead.popleft()
            record = item.record
            told = {"offset": record.offset, "topic": record.topic, "failures": item.failures}
            self._owner.announce(self.name, {"state": "dead", **told})
            if terms.dead_letters:
                self._publish(item)
            else:
                self.consumer.buried(item)

    def _publish(self, item: Item) -> None:
        def answer(outcome: int | RejectedError) -> None:
            if isinstance(outcome, RejectedError) and outcome.code == CloseCode.JOURNAL_FAILED:
                self._unburied.append(item)
                return
            self.consumer.buried(item)  # also where its topic is not recorded: then it was delivered live
            self._plan()

        letter = _letter(self.name, item, self._owner.frame_limit_bytes)
        self._owner.publish(self.consumer.terms.dead_letters, letter, answer)

    def tick(self) -> None:
        unburied, self._unburied = self._unburied, []
        for item in unburied:
            self._publish(item)
        if self._waiting:
            self._plan()  # there may be memory again

    @property
    def error(self) -> str:
        return self._reading.error

    def stop(self, error: HubError | None = None) -> None:
        self._stopped = True
        self._reading.stop()
        if self._due is not None:
            self._due.cancel()
        for participant in list(self.participants.values()):
            if error is not None:
                participant.refuse(error)
            else:
                participant.answer(None)
        self.participants.clear()
        self._waiting.clear()


def _row(item: Item, *, takes_value: bool) -> Row:
    offset, time_us, topic, encoding, body = item.record
    row: Row = [offset, time_us, item.deliveries, topic]
    if not takes_value:
        return [*row, encoding, body]
    try:
        value = decode_values(Frame(KIND_MESSAGES, encoding << 1, b"", body))[0]
    except ValueError:
        return [*row, False, None]
    return [*row, True, value]


def _letter(name: str, item: Item, frame_limit_bytes: int) -> bytes:
    record = item.record
    fits = record.encoding == Encoding.MSGPACK and len(record.body) + _HEAD_BYTES <= frame_limit_bytes
    told = {
        "consumer": name,
        "offset": record.offset,
        "time_us": record.time_us,
        "topic": record.topic,
        "failures": item.failures,
        "value": msgspec.Raw(record.body) if fits else None,
        "complete": fits,
    }
    return msgspec.msgpack.encode(told)
