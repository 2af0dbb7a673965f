"""`ConsumerStream`: messages of a named consumer, which the hub keeps, for as long as this client shares it.

It joins, and takes messages again and again; at most one `take` and one `acknowledge` are on their way. Where the
connection is lost, messages that were not handed out are dropped, and come again. A message that was not acknowledged
is delivered again, here or to another client of the consumer. The hub gives no more than `prefetch` messages and 4 MiB
that are not acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from hub.errors import (
    CloseCode,
    ClosedError,
    ConnectionLostError,
    HubError,
    InternalError,
    NoResponderError,
    RejectedError,
    RequestOverflowError,
    RequestTimeoutError,
    RequestTooBigError,
    ResponderGoneError,
    UsageError,
)
from hub.journal.message import RecordedMessage
from peers.client.reports import Reports
from peers.client.requests import Requests
from peers.client.stream import Items
from peers.client.values import BadMessage, decode_body, encode_value


class ConsumedMessage(RecordedMessage):
    """A topic and a value, to be acknowledged: `await message.ack()`."""

    deliveries: int  # How often it was delivered, as far as the hub that runs knows: 1 for the first time
    session: int  # The membership of its stream in which it came: it can be acknowledged as long as that lasts
    _stream: ConsumerStream

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 -- as it came
        cls, topic: str, value: Any, offset: int, time_us: int, deliveries: int, session: int, stream: ConsumerStream
    ) -> ConsumedMessage:
        made: ConsumedMessage = tuple.__new__(cls, (topic, value))
        made.offset, made.time_us, made.deliveries = offset, time_us, deliveries
        made.session, made._stream = session, stream
        return made

    async def ack(self) -> None:
        """Acknowledge it, so that it is not delivered again; as `ConsumerStream.ack`."""
        await self._stream.ack(self)

    async def nak(self, delay_s: float = 0.0) -> None:
        """Reject it for now, so that it is delivered again; as `ConsumerStream.nak`."""
        await self._stream.nak(self, delay_s=delay_s)

    async def in_progress(self) -> None:
        """Ask for more time; as `ConsumerStream.in_progress`."""
        await self._stream.in_progress(self)


_SERVICE = "$hub/consumers/"

_WAIT_MS = 20_000  # How long the hub waits for messages before it is asked again
_ANSWER_S = 60.0  # How long an answer may take, seconds; without a connection it is asked again
_BUSY_S = 0.01  # Pause after `RequestOverflowError`, seconds


_AWAY_S = 0.5  # Pause while the hub that records cannot be reached from the one that is connected, seconds


DELAY_LIMIT_S = 86_400  # Longest delay of a `nak`, seconds; the hub has the same


class _Word(NamedTuple):
    """What the program says of messages."""

    what: str  # The service under `$hub/consumers/`
    offsets: dict[int, None]
    delay_s: float
    told: asyncio.Future[None] | None  # Done once the hub has it, or will not; None where nothing waits for that


def _settle(word: _Word) -> None:
    if word.told is not None and not word.told.done():
        word.told.set_result(None)


class ConsumerTerms(NamedTuple):
    """The arguments of `Client.consume`."""

    name: str
    prefixes: tuple[str, ...]
    start: int | None
    time_us: int | None
    prefetch: int
    wishes: dict[str, Any]  # Those of `hub.consumers.consumer.Terms`, but for the prefixes


class ConsumerStream(Items[ConsumedMessage]):
    """Messages of a named consumer, each to be acknowledged. Made by `Client.consume`."""

    def __init__(
        self,
        requests: Requests,
        reports: Reports,
        terms: ConsumerTerms,
        ended: Callable[[], bool],
        close_timeout_s: float,
    ) -> None:
        self._requests = requests
        self._reports = reports
        self._terms = terms
        self._client_ended = ended
        self._close_timeout_s = close_timeout_s
        self._loop = asyncio.get_running_loop()
        # The ids of this membership and of the one before, which the hub may not know to be over; 0 for none.
        self._member = 0
        self._before = 0
        self._session = 0  # Counts memberships: messages of an older one cannot be acknowledged
        self._got = 0  # How many messages have come in this membership, for the hub
        self._ready: deque[ConsumedMessage] = deque()
        self._seen: dict[int, ConsumedMessage] = {}  # Messages that were handed out and not acknowledged, by offset
        self._words: deque[_Word] = deque()  # Acknowledgements and the like that the hub does not have yet
        self._telling: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._end: HubError | None = None
        self.name = terms.name  # Name of the consumer
        self.late_acks = 0  # How many messages were acknowledged too late to count: they were delivered again

    @property
    def ended(self) -> bool:
        """Whether nothing more comes, and all is read."""
        return self._end is not None and not self._ready

    async def open(self) -> None:
        """Become a member; a consumer of that name is made if there is none. Calling it again does nothing.

        Raises:
            RejectedError: The hub keeps no consumers: it has no journal.
            ResponderGoneError: The hub whose journal it uses cannot be reached now.
            RequestFailedError: It refuses; the text says why: another consumer has this name, or there are too many.
            NotAllowedError: This client may not read the journal there.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        if self._task is not None or self._end is not None:
            return
        await self._join(self._joining())
        self._task = self._loop.create_task(self._run(), name=f"consume {self.name}")

    async def receive(self) -> ConsumedMessage:
        """Return the oldest message, waiting for one.

        Raises `ClosedError` once the stream or the client is closed, `HubError` if it ends for another reason: the
        consumer was removed, for example.
        """
        await self._wait()
        return self._hand_out()

    async def batch(self) -> list[ConsumedMessage]:
        """Return all messages that are there, waiting for one; an empty list once the stream is closed."""
        try:
            await self._wait()
        except ClosedError:
            return []
        return [self._hand_out() for _ in range(len(self._ready))]

    async def ack(self, *messages: ConsumedMessage) -> None:
        """Acknowledge messages, so that they are not delivered again.

        It does not wait for the hub: if the acknowledgement is lost with a connection, the message comes again. Closing
        the stream waits for all of them.
        """
        self._say("acknowledge", self._finished(messages))

    async def ack_up_to(self, message: ConsumedMessage) -> None:
        """Acknowledge a message, and all received before it."""
        await self.ack(*[each for offset, each in self._seen.items() if offset <= message.offset])

    async def nak(self, *messages: ConsumedMessage, delay_s: float = 0.0) -> None:
        """Reject messages for now: each comes again, here or elsewhere, and has failed once more.

        Later messages of the same keys that this client has come again, too, in their order: it waits for the hub, and
        those that were not received by then are dropped here. Work on others may go on.

        Args:
            messages: Those that were acknowledged, or came on a connection that was lost, are passed over.
            delay_s: When they are delivered again, 0 to 86,400 s from now; until then nothing of their keys is.
        """
        if not 0 <= delay_s <= DELAY_LIMIT_S:
            raise UsageError(f"delay_s is {delay_s}: 0 to {DELAY_LIMIT_S:,} seconds")
        told = self._say("nak", self._finished(messages), delay_s=delay_s)
        if told is not None:
            await told

    async def in_progress(self, *messages: ConsumedMessage) -> None:
        """Say that the program still works on messages: their time (`redeliver_s`) begins again.

        So does that of later messages of the same keys, and of no others: prefetch fewer where messages of other keys
        wait meanwhile. It does not wait for the hub.
        """
        offsets = [each.offset for each in messages if each.session == self._session and each.offset in self._seen]
        self._say("in_progress", offsets)

    async def close(self) -> None:
        """Send all acknowledgements, and be no member any more; other messages are for other members, at once."""
        if self._end is None:
            self._finish(ClosedError("the stream is closed"))
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        self._ready.clear()
        with suppress(HubError, TimeoutError):
            async with asyncio.timeout(self._close_timeout_s):
                while self._telling is not None:
                    await asyncio.wait([self._telling])
                if self._member:
                    member, self._member = self._member, 0
                    await self._ask("leave", {"member": member, "seen": list(self._seen)})

    async def _wait(self) -> None:
        if self._task is None and self._end is None:
            await self.open()
        while not self._ready:
            if self._end is not None:
                raise self._end.with_traceback(None)
            self._news.clear()
            await self._news.wait()

    def _hand_out(self) -> ConsumedMessage:
        message = self._ready.popleft()
        self._seen[message.offset] = message
        return message

    def _joining(self) -> dict[str, Any]:
        terms = self._terms
        agreed = {"prefixes": terms.prefixes, **terms.wishes} if terms.prefixes else None
        place = {"start": terms.start} if terms.time_us is None else {"time_us": terms.time_us}
        return {"name": terms.name, "terms": agreed, "messages": terms.prefetch, **place}

    async def _join(self, joining: dict[str, Any]) -> None:
        self._session += 1
        self._before, self._member = self._member or self._before, 0
        self._got = 0
        self._ready.clear()
        self._seen.clear()
        self._forget_words()
        joined = await self._ask("join", {**joining, "instead": self._before})
        self._member = joined["member"]

    async def _run(self) -> None:
        try:
            while True:
                await self._receive()
                # It must be there: one that was removed, or lost with the hub's disk, is not to begin anew unseen.
                await self._again()
        except HubError as error:
            self._finish(error)
        except Exception as error:  # noqa: BLE001 -- the reader of the stream must not wait for ever
            self._finish(InternalError(f"a bug of the client, please report it: {error!r}"))

    async def _again(self) -> None:
        while True:
            try:
                await self._join({**self._joining(), "terms": None})
            except (ConnectionLostError, RequestTimeoutError):
                if self._client_ended():
                    raise
            except ResponderGoneError:  # the hub that records cannot be reached from the one that is connected
                await asyncio.sleep(_AWAY_S)
            else:
                return

    async def _receive(self) -> None:
        while True:
            try:
                rows = await self._ask_for_more()
            except RequestTooBigError as error:  # a single message; it comes again, and fails, until it is given up
                self._reports.tell(RejectedError(CloseCode.TOO_BIG, f"consumer {self.name}: {error}"))
                self._got += 1
                continue
            except (ConnectionLostError, RequestTimeoutError):
                if self._client_ended():
                    raise
                return
            except ResponderGoneError:
                return
            if rows is None:
                return
            self._got += len(rows)
            for row in rows:
                await self._take(*row)
            if self._ready:
                self._news.set()

    async def _ask_for_more(self) -> list[list[Any]] | None:
        asked = {"member": self._member, "wait_ms": _WAIT_MS, "got": self._got}
        rows: list[list[Any]] | None = await self._ask("take", asked)
        return rows

    async def _take(  # noqa: PLR0913, PLR0917 -- as the hub says it
        self, offset: int, time_us: int, deliveries: int, topic: str, encoding: int, body: bytes
    ) -> None:
        session = self._session
        try:
            value = decode_body(encoding, body)
        except ValueError as error:
            self._reports.bad(BadMessage(topic, body, 1, str(error)))
            unread = ConsumedMessage.of(topic, None, offset, time_us, deliveries, session, self)
            self._seen[offset] = unread  # nobody can do anything with it, now or later
            await self.ack(unread)
        else:
            self._ready.append(ConsumedMessage.of(topic, value, offset, time_us, deliveries, session, self))

    def _finished(self, messages: tuple[ConsumedMessage, ...]) -> list[int]:
        offsets = []
        for message in messages:
            if message.session != self._session or self._seen.pop(message.offset, None) is None:
                self.late_acks += message.session != self._session
                continue
            offsets.append(message.offset)
        return offsets

    def _say(self, what: str, offsets: list[int], *, delay_s: float = 0.0) -> asyncio.Future[None] | None:
        """Tell the hub; return a future that is done once it has it, for a `nak`."""
        if not offsets:
            return None
        words = self._words
        told = self._loop.create_future() if what == "nak" else None
        if words and words[-1].what == what and told is None:
            words[-1].offsets.update(dict.fromkeys(offsets))
        else:
            words.append(_Word(what, dict.fromkeys(offsets), delay_s, told))
        if self._telling is None:
            self._telling = self._loop.create_task(self._tell())
        return told

    async def _tell(self) -> None:
        """Send words of the program; acknowledgements that come meanwhile go together."""
        try:
            while self._words and self._member:
                word = self._words.popleft()
                asked = {"member": self._member, "offsets": list(word.offsets)}
                if word.told is None:
                    await self._ask(word.what, asked)
                    continue
                try:
                    self._drop(await self._ask(word.what, {**asked, "delay_s": word.delay_s}))
                finally:
                    _settle(word)
        except HubError:
            pass  # messages without an acknowledgement come again
        finally:
            self._telling = None
            self._forget_words()

    def _drop(self, offsets: list[int]) -> None:
        gone = set(offsets)
        self._ready = deque(message for message in self._ready if message.offset not in gone)
        for offset in gone:
            self._seen.pop(offset, None)

    def _forget_words(self) -> None:
        while self._words:
            _settle(self._words.popleft())

    async def _ask(self, what: str, value: Any) -> Any:
        packed = encode_value(value)
        while True:
            try:
                return await self._requests.ask(_SERVICE + what, packed, _ANSWER_S)
            except RequestOverflowError:
                await asyncio.sleep(_BUSY_S)
            except NoResponderError as error:
                text = "the hub that is connected keeps no consumers: it has no journal (journal.path, journal.of)"
                raise RejectedError(CloseCode.NOT_ALLOWED, text) from error

    def _finish(self, error: HubError) -> None:
        if self._end is None:
            self._end = error
        self._news.set()
