"""`Client`: a program's connection to a hub, kept up, with its publications and subscriptions; `connect` makes it.

It belongs to one event loop; threads use `peers.client.blocking`. Messages leave in the order of the calls. Delivery is
at most once: messages in a connection that is lost before the hub has read them are gone. Methods import the modules
of features that few programs use, so that `hub pub` and its like start quickly.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from hub.errors import UsageError
from hub.journal.layout import Column
from hub.labels.rules import check_rule
from hub.messages.batch import Message
from hub.names.claim import check_name
from peers.client.exchange import ClientStatistics, Destination, Exchange, Remote
from peers.client.publications import target
from peers.client.requests import TIMEOUT_S, unfailed
from peers.client.routes import Addressed, Wanted
from peers.client.settings import PREFETCH, ClientSettings, Options
from peers.client.stream import CallbackSubscription, MessageStream
from peers.client.values import encode_value
from peers.wire.hello import Hello
from peers.wire.records import END_OF_TIME_US, FETCH_BYTES, Commit, Fetch, Stage

if TYPE_CHECKING:
    from peers.client.consumer_stream import ConsumerStream
    from peers.client.journal import Committed, History, JournalState
    from peers.client.names import KnownName, ServiceName
    from peers.client.service import Service, ServiceRequest
    from peers.client.store import Store
    from peers.client.writer import Writer
    from peers.shm.ring import Block


class Client:
    """A connection to a hub. Made by `peers.client.connect`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._reports = exchange.reports
        self._publishing = exchange.publishing
        self._subscriptions = exchange.subscriptions
        self._requests = exchange.requests

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Publishing.

    def publish_nowait(
        self, topic: str, value: Any, labels: Iterable[str] = (), *, sender: str = "", to: str = ""
    ) -> None:
        """Publish; never waits. It leaves at the end of this turn of the loop, or when there is a connection.

        Args:
            topic: Topic of the message.
            value: Anything that has a msgpack form.
            labels: At most 32, of 1 to 128 bytes each: a rule whose labels are among them matches it.
            sender: A name that this client owns, so that subscribers know the message to be from its owner.
            to: A name; only its owner gets the message.

        Raises:
            BusyError: `buffer_bytes` of publications wait already.
            InvalidTopicError: No client may publish to this topic.
            InvalidNameError: A label or a name is invalid, or there are too many labels.
            InvalidValueError: The value has no msgpack form.
            RejectedError: The value is larger than the hub's limit.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        where = target(topic, labels, sender, to) if labels or sender or to else topic
        self._publishing.put_nowait(where, encode_value(value))

    def publish_packed_nowait(
        self, topic: str, packed: bytes, labels: Iterable[str] = (), *, sender: str = "", to: str = ""
    ) -> None:
        """Publish a value that is msgpack already, and is not checked; otherwise as `publish_nowait`."""
        self._publishing.put_nowait(target(topic, labels, sender, to), packed)

    async def publish_packed(
        self, topic: str, packed: bytes, labels: Iterable[str] = (), *, sender: str = "", to: str = ""
    ) -> None:
        """Publish a value that is msgpack already, and is not checked; otherwise as `publish`."""
        await self._publishing.put(target(topic, labels, sender, to), packed)

    async def publish(
        self, topic: str, value: Any, labels: Iterable[str] = (), *, sender: str = "", to: str = ""
    ) -> None:
        """Publish as `publish_nowait`, but wait for room in the buffer, and let other tasks run after each 256 KiB.

        Cancellation: then the value is not published.
        """
        where = target(topic, labels, sender, to) if labels or sender or to else topic
        await self._publishing.put(where, encode_value(value))

    async def publish_confirmed(
        self, topic: str, value: Any, labels: Iterable[str] = (), *, sender: str = "", to: str = ""
    ) -> int:
        """Publish, and wait until the message is in the hub's journal; return its offset.

        Many at once (`asyncio.gather`) travel and are committed together; one after the other, each waits for a commit.

        Cancellation: the message may be recorded or not.

        Raises:
            RejectedError: It is not recorded: the hub has no journal, or not for this topic, or cannot write it. It may
                have been published all the same; the text says why.
            ConnectionLostError: It may be recorded or not.
            InvalidTopicError, InvalidValueError, ClosedError, PeerError: As `publish_nowait`.
        """
        return await self._publishing.put_confirmed(target(topic, labels, sender, to), encode_value(value))

    def writer(self, name: str) -> Writer:
        """Return a writer: it publishes messages that are recorded once each, over lost connections and restarts.

        Args:
            name: Its name at the hub, at most 127 bytes: the hub recognises a program that starts again, and gives the
                same numbers to the same messages, by it. One writer at a time may use it. Empty: a random name.

        Raises:
            UsageError: The name is too long.
        """
        from peers.client.writer import Writer  # noqa: PLC0415

        return Writer(self._exchange.journal, name, lambda: self._exchange.hub, lambda: self.ended)

    async def allocate(self, size_bytes: int) -> Block:
        """Return a block for bytes, to be filled and then published, asked or answered as any value.

        Over a Unix socket it is shared memory: nothing is copied on its way to clients of this machine that share
        memory, too. Elsewhere it travels as bytes. Waits for room: until earlier blocks were released, or are older
        than `lease_s`.

        Raises:
            UsageError: The block is larger than `ring_bytes`.
        """
        return await self._exchange.blocks.allocate(size_bytes)

    def allocate_nowait(self, size_bytes: int) -> Block:
        """As `allocate`, but raises `BusyError` instead of waiting."""
        return self._exchange.blocks.allocate_nowait(size_bytes)

    async def drain(self) -> None:
        """Wait until the operating system has all publications.

        Raises:
            ClosedError, PeerError: The client is closed, or has ended with an error, before that.
        """
        await self._publishing.drain()

    # Requests.

    async def request(self, topic: str, value: Any, *, timeout_s: float = TIMEOUT_S, name: bool = False) -> Any:
        """Ask the service of a topic (or with `name` the owner of that service name); return the reply.

        Raises:
            RequestError: There is none; its subclasses say why.
            ConnectionLostError: The request may have been carried out or not; it is not repeated.
            UsageError, PeerError: Nothing was asked.
        """
        return await self._requests.ask(topic, encode_value(value), timeout_s, named=name)

    async def request_packed(
        self, topic: str, packed: bytes, *, timeout_s: float = TIMEOUT_S, name: bool = False
    ) -> Any:
        """Ask with a value that is msgpack already, and is not checked; as `request`."""
        return await self._requests.ask(topic, packed, timeout_s, named=name)

    def request_nowait(
        self, topic: str, value: Any, *, timeout_s: float = TIMEOUT_S, name: bool = False
    ) -> asyncio.Future[Any]:
        """Ask, and wait for nothing: the future gets the result or the error of `request`.

        Raises:
            BusyError: `buffer_bytes` of requests wait already.
            RequestTooBigError: The value is larger than the hub's limit.
            UsageError, PeerError: The target or the timeout is invalid; the client has ended.
        """
        return self._requests.ask_nowait(topic, encode_value(value), timeout_s, named=name)

    def request_packed_nowait(
        self, topic: str, packed: bytes, *, timeout_s: float = TIMEOUT_S, name: bool = False
    ) -> asyncio.Future[Any]:
        """Ask with a value that is msgpack already; as `request_nowait`."""
        return self._requests.ask_nowait(topic, packed, timeout_s, named=name)

    async def request_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        timeout_s: float = TIMEOUT_S,
        name: bool = False,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Ask one service several things in one frame (of up to 1 MiB); return the replies in order.

        With `return_exceptions` errors stand in place of replies; else the first of them is raised, as by `request`.
        """
        answers = await self._requests.ask_many(topic, list(values), timeout_s, named=name)
        return answers if return_exceptions else unfailed(answers)

    def store(self, name: str, *, timeout_s: float = TIMEOUT_S) -> Store:
        """Return a store of the mesh, by its name; nothing is asked yet. See docs/stores.md.

        Raises:
            UsageError: The name is invalid.
        """
        from peers.client.store import Store  # noqa: PLC0415

        return Store(name, self._requests, self.subscribe, self._publishing.put_nowait, timeout_s)

    def serve(
        self, prefixes: Sequence[str] | str, function: Callable[[ServiceRequest], Any], *, concurrency: int = 1024
    ) -> Service:
        """Answer requests, for `async with client.serve("/sum", function)`; see `Service`.

        Args:
            prefixes: Of the topics; services under the same prefix share the load.
            function: Gets a request (`topic`, `value`) and returns the reply; an exception is the reason of a failure.
                A plain function is called in the turn that read the request, and must be quick; or it is async.
            concurrency: How many calls of an async function run at once; further ones wait.
        """
        return self._service(prefixes, function, concurrency, batches=False)

    def serve_batches(
        self, prefixes: Sequence[str] | str, function: Callable[[list[Any]], Any], *, concurrency: int = 1024
    ) -> Service:
        """Answer the requests that came together at once: `function` gets the values, returns as many replies."""
        return self._service(prefixes, function, concurrency, batches=True)

    def _service(
        self, prefixes: Sequence[str] | str, function: Callable[[Any], Any], concurrency: int, *, batches: bool
    ) -> Service:
        from peers.client.service import Service  # noqa: PLC0415

        return Service(
            self._exchange.services,
            prefixes,
            function,
            concurrency=concurrency,
            close_timeout_s=self._exchange.settings.close_timeout_s,
            batches=batches,
        )

    # Service names.

    async def claim(self, name: str, labels: Iterable[str] = (), *, queue: bool = False) -> ServiceName:
        """Claim a service name, for `async with await client.claim("org.example.Player")`.

        Without a connection it waits until there is one; over a later connection it is claimed again.

        Args:
            name: Two elements or more, such as `org.example.Player`.
            labels: Announced with it.
            queue: If another client owns it, wait in line: `ServiceName.wait_owned`.

        Raises:
            RejectedError: Another client owns it, or there are too many; the text says which.
            InvalidNameError, UsageError: The name or a label is invalid; this client has claimed it already.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        return await self._exchange.names.claim(name, labels, queue=queue)

    async def names(self, prefix: str = "") -> list[KnownName]:
        """List the service names that the hub knows, those of its peers among them; raises as `request`."""
        from peers.client.names import LISTED_UNDER, list_names  # noqa: PLC0415

        return await list_names(lambda page: self.request(LISTED_UNDER, page), prefix)

    # Subscribing.

    def subscribe(  # noqa: PLR0913 -- one for each property of a stream
        self,
        *prefixes: str | Iterable[str],
        buffer_bytes: int | None = None,
        from_offset: int | None = None,
        from_time: datetime | None = None,
        hub: str = "",
        recorded: bool = False,
        epoch: int = 0,
    ) -> MessageStream:
        """Subscribe to prefixes, for `async with client.subscribe("/zeek/") as messages`.

        Entering waits for the hub's confirmation, and raises as `MessageStream.open`.

        Args:
            prefixes: One or more, also as lists; the empty one matches everything.
            buffer_bytes: Size of unread messages at which the client stops reading; default `stream_bytes`.
            from_offset: Read the hub's journal from this offset on, for ever: each message as it is committed (some
                10 ms after it was published), with its offset and time (`RecordedMessage`), once, also over lost
                connections. Messages that the journal does not record do not come.
            from_time: The same, from the first record that is not older.
            hub: The journal of this hub of the mesh, by its name or id, instead of that of the hub that is connected.
            recorded: The same, from the present end of the journal, if no other place is given.
            epoch: The epoch of the journal to which `from_offset` belongs (`MessageStream.epoch`); 0 if unknown.
                If records before the offset are lost, the stream begins earlier, and `breaks` counts that.

        Raises:
            UsageError: No prefix; two places to begin, or one before the first; a hub, and no place to begin; an epoch
                without `from_offset`.
        """
        wanted = _several(prefixes)
        if epoch and from_offset is None:
            raise UsageError("epoch: it belongs to an offset; give from_offset as well")
        if from_offset is None and from_time is None and not recorded:
            if hub:
                raise UsageError("hub: live messages come from the whole mesh; give from_offset or from_time as well")
            return self._live_stream(wanted, buffer_bytes)
        if (from_offset is not None and from_time is not None) or min(from_offset or 0, epoch) < 0:
            raise UsageError("from_offset and epoch, which are 0 or more, and from_time exclude each other")
        from peers.client.journal import JournalStream, Start, time_us  # noqa: PLC0415
        from peers.transport.timing import Backoff  # noqa: PLC0415

        at_us = END_OF_TIME_US if from_offset is None and from_time is None else time_us(from_time)
        start = Start(from_offset or 0, at_us, hub, epoch)
        size = self._exchange.settings.stream_bytes if buffer_bytes is None else buffer_bytes
        source = JournalStream(self._exchange.journal, start, size, Backoff(), self._reports)
        return MessageStream(source, wanted, source.decode, size, source)

    def _live_stream(self, wanted: tuple[Wanted, ...], buffer_bytes: int | None) -> MessageStream:
        size = self._exchange.settings.stream_bytes if buffer_bytes is None else buffer_bytes
        return MessageStream(self._subscriptions, wanted, self._reports.decode, size)

    def subscribe_rule(
        self, labels: Iterable[str] = (), *, prefix: str = "", sender: str = "", buffer_bytes: int | None = None
    ) -> MessageStream:
        """Subscribe by a rule, for `async with client.subscribe_rule(["door", "urgent"]) as messages`.

        Args:
            labels: A message matches when it has all of them.
            prefix: And its topic begins with this.
            sender: And it has this name of its sender.
            buffer_bytes: As for `subscribe`.

        Raises:
            InvalidTopicError, InvalidNameError: A part of it is invalid, or it has neither labels nor a sender: use
                `subscribe` then.
        """
        return self._live_stream((check_rule(labels, prefix, sender),), buffer_bytes)

    def subscribe_name(self, name: str, *, buffer_bytes: int | None = None) -> MessageStream:
        """Subscribe to messages `to` a name, which the hub delivers while this client owns it; see `claim`.

        Other subscriptions of this client that match get those messages, too.

        Raises:
            InvalidNameError: The name is invalid.
        """
        return self._live_stream((Addressed(check_name(name)),), buffer_bytes)

    async def subscribe_callback(
        self, prefixes: tuple[str, ...] | list[str] | str, function: Callable[[Message], object]
    ) -> CallbackSubscription:
        """Subscribe a function, called with each message in the turn that read it.

        Raises:
            InvalidTopicError, RejectedError, ClosedError, PeerError: As `MessageStream.open`.
        """
        subscription = CallbackSubscription(self._subscriptions, _several((prefixes,)), self._reports.decode, function)
        await subscription.open()
        return subscription

    # The journal.

    def read(  # noqa: PLR0913 -- one for each property of a range
        self,
        *prefixes: str,
        start: int = 0,
        end: int | None = None,
        start_time: datetime | None = None,
        piece_bytes: int = FETCH_BYTES,
        hub: str = "",
        columns: Collection[Column] | None = None,
        epoch: int = 0,
    ) -> History:
        """Read a journal, for `async for record in client.read("/zeek/")`, or its `blocks()`.

        Iterating raises `GoneError` where `start` was deleted (its `first` is the oldest that is left), is not there
        yet, or records before it are lost (its `first` is the offset from which on there are others now), and
        `RejectedError` where the hub has no journal or cannot read it.

        Args:
            prefixes: Of the topics; without any, all records are read.
            start: First offset.
            end: The one behind the last; None for the end of the journal when reading begins.
            start_time: Instead of `start`: the first record that is not older.
            piece_bytes: Size of one answer of the hub.
            hub: Another hub of the mesh, by its name or id, whose journal is read. Iterating raises `RejectedError`
                where it is not known, or several have the name (1007), or cannot be reached now (1013): reading goes on
                at `next`.
            columns: Columns of the records: "offset", "time", "topic", "value"; None for all. Others are not sent: in a
                `Record` they are 0, empty, or None.
            epoch: The epoch of the journal to which `start` belongs (`History.epoch`, `JournalState.epoch`); 0 if
                unknown: then the loss of records before it goes unnoticed.

        Raises:
            InvalidTopicError: One of the prefixes is invalid.
            UsageError: There is no such column.
        """
        from peers.client.journal import History  # noqa: PLC0415

        return History(
            self._exchange.journal,
            prefixes,
            start=start,
            epoch=epoch,
            end=end,
            start_time=start_time,
            piece_bytes=piece_bytes,
            hub=hub,
            columns=columns,
            on_bad=self._reports.bad,
        )

    def consume(  # noqa: PLR0913 -- one for each property of a consumer
        self,
        name: str,
        *prefixes: str,
        from_offset: int | None = None,
        from_time: datetime | None = None,
        key: str | None = None,
        redeliver_s: float | None = None,
        deliveries: int | None = None,
        dead_letters: str | None = None,
        prefetch: int = PREFETCH,
    ) -> ConsumerStream:
        """Consume recorded messages, each at least once: `async with client.consume("orders", "/app/") as messages`.

        The hub keeps the consumer until it is removed: a later client of that name goes on where this one ended.
        Clients of the same name at the same time share the messages. Each message is to be acknowledged (`await
        message.ack()`), or is delivered again. Without a value, a property of an existing consumer stays as it is. See
        docs/consumers.md.

        Args:
            name: 1 to 128 letters, digits, `_`, `.`, `:`, `-`.
            prefixes: Of the topics. Without any, the consumer must exist.
            from_offset: Where a new consumer begins; by default with the next record.
            from_time: The same, from the first record that is not older.
            key: Messages that keep their order, and are with one client at a time: those of one "topic", "all", "none",
                or "field:NAME": those with the same value in a field.
            redeliver_s: How long a message may take to be acknowledged (30 s).
            deliveries: How often a message may fail before it is a dead letter (0: without limit).
            dead_letters: Topic of dead letters (empty: they are not published).
            prefetch: How many messages this client has at most that are not acknowledged.

        Raises:
            UsageError: Terms without prefixes; two places to begin, or one before the first.
        """
        from peers.client.consumer_stream import ConsumerStream, ConsumerTerms  # noqa: PLC0415
        from peers.client.journal import time_us  # noqa: PLC0415

        at_us = time_us(from_time)
        if (from_offset is not None and at_us is not None) or min(from_offset or 0, at_us or 0) < 0:
            raise UsageError("consume: give from_offset, which is 0 or more, or from_time, which is 1970 or later")
        wishes = {"key": key, "redeliver_s": redeliver_s, "deliveries": deliveries, "dead_letters": dead_letters}
        said = {wish: value for wish, value in wishes.items() if value is not None}
        if said and not prefixes:
            raise UsageError("consume: terms are for a consumer with prefixes; give these, too")
        terms = ConsumerTerms(name, prefixes, from_offset, at_us, prefetch, said)
        timeout_s = self._exchange.settings.close_timeout_s
        return ConsumerStream(self._requests, self._reports, terms, lambda: self.ended, timeout_s)

    async def remove_consumer(self, name: str) -> bool:
        """Have the hub forget a named consumer; return whether there was one. Its streams end.

        Raises:
            RequestError, ClosedError, PeerError: As `request`.
        """
        removed: bool = await self.request("$hub/consumers/remove", {"name": name})
        return removed

    async def journal(self, *, hub: str = "") -> JournalState:
        """Return the range of the hub's journal, or that of another hub of the mesh, by its name or id.

        Raises:
            RejectedError: It has none, or cannot read it.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        from peers.client.journal import JournalState  # noqa: PLC0415

        access = self._exchange.journal
        found = await access.fetch(Fetch(1, time=END_OF_TIME_US, bytes=0, hub=hub, journal=b""))
        return JournalState(found.journal or access.id, found.first, found.head, found.epoch)

    async def stage(self, transaction: str, part: int, frames: bytes) -> None:
        """Send messages that wait for `commit`, for at most the hub's `journal.staged_s`.

        Args:
            transaction: Its unique name, 1 to 255 bytes.
            part: Its part of this number; the messages of one part keep the order of the calls.
            frames: Whole MESSAGES frames (`hub.journal.block.frames_of_columns`), up to the hub's frame limit.

        Raises:
            RejectedError: A topic is not recorded, or too much is staged.
            ConnectionLostError, ClosedError, PeerError: It may be staged or not.
        """
        await self._exchange.journal.stage(Stage(0, transaction, part, frames))

    async def commit(self, transaction: str, parts: list[int], *, query: str = "", batch: int = 0) -> Committed:
        """Publish and record the staged messages, all or none.

        Args:
            transaction: As for `stage`.
            parts: The parts that belong to it; others are dropped.
            query: Name of the writer; empty for none.
            batch: Number of the batch: one that is not above the last one of this query is recognised, not repeated.

        Raises:
            RejectedError: A part is missing, or the journal cannot be written.
            ConnectionLostError, ClosedError, PeerError: It may be committed; with `query`, stage and commit again.
        """
        return await self._exchange.journal.commit(Commit(1, transaction, query, batch, parts))

    async def abort(self, transaction: str) -> None:
        """Drop staged messages; raises as `commit`."""
        await self._exchange.journal.commit(Commit(1, transaction, abort=True))

    # The rest.

    @property
    def hub(self) -> Hello | None:
        """HELLO of the hub that is connected, or was last."""
        return self._exchange.hub

    @property
    def dropped_messages(self) -> int:
        """How many messages for this client the hub has dropped."""
        return self._reports.dropped_messages

    def __repr__(self) -> str:
        return f"<{self._exchange!r}>"

    @property
    def ended(self) -> bool:
        """Whether the client is closed, or has ended with an error."""
        return self._exchange.ended is not None

    def statistics(self) -> ClientStatistics:
        return self._exchange.statistics()

    async def wait_closed(self) -> None:
        """Wait until the client is closed; raise `PeerError` if it ends with an error that no reconnect repairs."""
        await self._exchange.wait_closed()

    async def close(self) -> None:
        """Send publications, for at most `close_timeout_s`, then end the connection and all streams.

        It does not wait for a connection. Unsent messages are counted, and logged as a warning.
        """
        await self._exchange.close()


def _several(prefixes: Iterable[str | Iterable[str]]) -> tuple[str, ...]:
    several = tuple(chain.from_iterable([one] if isinstance(one, str | bytes) else one for one in prefixes))
    if not several:
        raise UsageError("subscribe to one prefix or more; the empty text matches everything")
    return several


class Connecting:
    """The result of `connect`: await it for a client, or enter it for one that is closed at the end.

    Each time it is awaited or entered it makes another client.
    """

    def __init__(self, destination: Destination, settings: ClientSettings) -> None:
        self._destination = destination
        self._settings = settings
        self._client: Client | None = None
        self._used = False  # True once it was awaited or entered: otherwise it warns in the end

    async def _open(self) -> Client:
        exchange = Exchange(self._destination, self._settings)
        await exchange.open()
        return Client(exchange)

    def __await__(self) -> Generator[Any, None, Client]:
        self._used = True
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        self._used = True
        self._client = await self._open()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()

    def __enter__(self) -> NoReturn:
        raise TypeError(
            "write `async with connect(...)`; without an event loop: `with peers.client.blocking.connect(...)`"
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing: this is never called, as `__enter__` raises."""

    def __getattr__(self, name: str) -> NoReturn:
        text = (
            "connect(...) is no client yet: write `async with connect(...) as client:` or `client = await connect(...)`"
        )
        raise AttributeError(f"{text}, then `client.{name}`", name=name, obj=self)

    def __del__(self) -> None:
        if not self._used:
            text = f"connect({self._destination.location!r}) was neither awaited nor entered: nothing was connected"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def connect(url: str, **options: Unpack[Options]) -> Connecting:
    """Make a client of the hub at `url`, for `async with` or for `await`.

    Args:
        url: `tcp://host:port`, `tls://host:port`, `unix:///path`, `ws://host:port[/path]` or `wss://host:port[/path]`.
        options: See `Options`.

    Raises:
        InvalidEndpointError: The URL is none of a hub.
        UsageError: An option makes no sense.
        ConnectionLostError, RejectedError, ProtocolError: When awaited or entered: there is no connection. The text
            says what to do. Only the first attempt raises; a connection that is lost later is made again.
    """
    settings = ClientSettings(**options)
    return Connecting(Remote(url, settings), settings)
