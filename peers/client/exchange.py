"""`Exchange`: all that a client and its hub have to say to each other, and what becomes of it with the connection.

```
publishing, requests ─▶ Connection ─▶ hub ─▶ Connection ─▶ subscriptions, journal, requests, services, names
                            ▲ upkeep: lost ─▶ backoff ─▶ dial ─▶ each room is told: connected, disconnected, finish
```

Owner: one client, in its event loop. Each room has its own state; this is where they are put together, and where what
the hub says finds its room. Not here: what programs call (`peers.client.client`).
"""

from __future__ import annotations

import logging

from hub.errors import CloseCode, ClosedError, HubError, InternalError, PeerError, RejectedError
from hub.requests.layout import Reply, Request
from peers.backoff import Backoff
from peers.client.blocks import Blocks
from peers.client.connection import Connection, Told
from peers.client.conversation import Introduction, Refusal, Unreadable
from peers.client.dial import converse, dial, shares
from peers.client.endings import Ending
from peers.client.follower import Follower
from peers.client.journal import FIRST_REQUEST, JournalAccess
from peers.client.names import Names
from peers.client.no_topic import NoTopic
from peers.client.publishing import Publishing
from peers.client.requests import Requests
from peers.client.services import FIRST_REQUEST as FIRST_SERVICE
from peers.client.services import Services
from peers.client.settings import ClientSettings
from peers.client.sharing_connection import SharingConnection
from peers.client.statistics import ClientStatistics
from peers.client.subscriptions import Subscriptions
from peers.client.upkeep import Upkeep
from peers.client.values import BadMessage
from peers.client.voice import Voice
from peers.endpoints import Endpoint
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.records import Records

__all__ = ["Exchange"]

_log = logging.getLogger("peers.client")


class Exchange:
    """Of one client.

    Args:
        endpoint: Where the hub is.
        settings: See `peers.client.settings.Options`.
    """

    def __init__(self, endpoint: Endpoint, settings: ClientSettings) -> None:
        self.endpoint = endpoint
        self.settings = settings
        self.hub: Hello | None = None
        self.voice = Voice(settings)
        self.publishing = Publishing(settings.buffer_bytes)
        self.subscriptions = Subscriptions(NoTopic(self.voice.bad), self._awaiting)
        regulate = self.subscriptions.regulate
        self.journal = JournalAccess(regulate)
        self.requests = Requests(settings.buffer_bytes, self.publishing.write, regulate)
        self.services = Services(regulate)
        self.names = Names(regulate)
        self.blocks = Blocks(settings) if shares(endpoint, wanted=settings.shared_memory) else None
        self.followers: set[Follower] = set()
        self.upkeep = Upkeep(self._dial, self, settings.backoff or Backoff(), again=settings.reconnect)
        self.connection: Connection | None = None
        self.ended: HubError | None = None
        """Why the client does nothing more, if it does not."""
        self._connections = 0

    def statistics(self) -> ClientStatistics:
        """The client as it is now."""
        return ClientStatistics(
            connected=self.connection is not None,
            connections=self._connections,
            published_messages=self.publishing.publications.published_messages,
            buffered_bytes=self.publishing.publications.buffered_bytes,
            unsent_messages=self.publishing.unsent_messages,
            received_messages=self.subscriptions.received_messages,
            received_bytes=self.subscriptions.received_bytes,
            dropped_messages=self.voice.dropped_messages,
            rejected_messages=self.voice.rejected_messages,
            bad_messages=self.voice.bad_messages,
            prefixes=self.subscriptions.prefixes,
            paused=self.subscriptions.holding,
            pending_requests=self.requests.pending,
            late_replies=self.requests.late_replies,
            served_requests=self.services.requests,
        )

    async def wait_closed(self) -> None:
        """Wait until the client has ended: closed, or with an error that no reconnecting cures.

        Raises:
            PeerError: That error.
        """
        await self.upkeep.wait()
        if self.ended is not None and not isinstance(self.ended, ClosedError):
            raise self.ended.with_traceback(None)

    async def close(self) -> None:
        """Send what was published, for at most `close_timeout_s`, then end the connection and all streams.

        Without a connection nothing is waited for. What could not be sent is counted, and logged as a warning.
        """
        connection = self.connection
        try:
            if connection is not None:
                await self.publishing.wait_sent(self.settings.close_timeout_s)
        except BaseException:
            if connection is not None:
                connection.abort()
            raise
        finally:
            self.upkeep.cancel()
            self.finish(None)
        if connection is not None:
            await connection.wait_closed(CloseCode.DONE, "done", self.settings.close_timeout_s)
        for follower in list(self.followers):
            await follower.wait_closed()
        await self.upkeep.wait()

    # The connection.

    async def _dial(self) -> tuple[Connection, Hello]:
        settings = self.settings
        introduction = Introduction(settings.name, settings.token, settings.queue)

        routes = self.subscriptions.routes
        receive, flush = self.subscriptions.receive, self.services.flush

        def make() -> Connection:
            if self.blocks is not None:
                shared = self.blocks.converse(introduction, routes)
                return SharingConnection(shared, settings, receive, self._told, self._write, flush)
            conversation = converse(self.endpoint, introduction, routes)
            return Connection(conversation, settings, receive, self._told, self._write, flush)

        return await dial(self.endpoint, make, settings.connect_timeout_s)

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Called by the upkeep: there is a connection."""
        self.connection = connection
        self._connections += 1
        self.hub = hello
        too_large = self.publishing.publications.fit(hello.frame)
        if too_large:
            text = f"{too_large} values that waited are larger than the {hello.frame} bytes that this hub takes"
            self.voice.reject(RejectedError(CloseCode.TOO_BIG, text), too_large)
        self.subscriptions.connected(connection, hello.frame)
        self.journal.connected(connection, hello.journal)
        self.services.connected(connection, hello.frame)
        self.names.connected(connection)
        self.publishing.connected(connection)
        self.requests.connected(connection, hello.frame)
        self.voice.call(self.settings.on_connect, hello)

    def disconnected(self, ending: Ending, *, again: bool) -> None:
        """Called by the upkeep: the connection is lost."""
        self.connection = None
        self.publishing.disconnected()
        self.journal.disconnected()
        self.requests.disconnected()
        self.services.disconnected()
        self.names.disconnected()
        if again:
            self.subscriptions.disconnected()
        _log.warning("disconnected from %s: %s", self.endpoint.location, ending)
        self.voice.call(self.settings.on_disconnect, str(ending))

    def gave_up(self, error: PeerError | InternalError) -> None:
        """Called by the upkeep: there will be no connection any more."""
        self.finish(error)

    def finish(self, error: PeerError | InternalError | None) -> None:
        """The client does nothing more."""
        if self.ended is not None:
            return
        self.ended = error or ClosedError("the client is closed")
        self.connection = None
        if self.blocks is not None:
            self.blocks.close()
        self.publishing.finish(self.ended)
        self.journal.finish(error)
        self.requests.finish(self.ended)
        self.services.finish(error)
        self.names.finish(error)
        self.subscriptions.finish(error)
        for follower in list(self.followers):
            follower.finish(error)

    # What the hub says.

    def _write(self) -> None:
        """The operating system takes bytes again."""
        self.publishing.write()
        self.requests.write()

    def _awaiting(self) -> bool:
        """Whether the hub owes an answer, for which the connection must be read."""
        rooms = (self.journal, self.requests, self.services, self.names)
        return any(room.waiting for room in rooms)

    def _told(self, told: Told) -> None:
        if isinstance(told, Reply):
            self.requests.receive(told)
        elif isinstance(told, Request):
            self.services.receive(told)
        elif isinstance(told, Refusal):
            self.requests.refuse(told)
        elif not (isinstance(told, Notice) and self.names.takes(told)):
            self._notice(told)

    def _notice(self, notice: Notice | Records | Unreadable) -> None:
        if isinstance(notice, Unreadable):
            reason = "a batch does not hold the number of values it says"
            self.voice.bad(BadMessage("", b"", notice.messages, reason))
        elif isinstance(notice, Records) or notice.request >= FIRST_REQUEST:
            self.journal.receive(notice)
        elif notice.kind in {"recorded", "unrecorded"}:
            self.publishing.publications.receipts.answer(notice)
        elif notice.kind == "dropped":
            self.subscriptions.put_gap(notice.count)
            self.voice.drop(notice.count)
        elif notice.request:
            room = self.services if notice.request >= FIRST_SERVICE else self.subscriptions
            error = room.answer(notice)
            if error is not None and self.connection is not None:
                text = f"the hub now refuses what it had granted before: {error.text}"
                self.connection.leave(Ending(error.code, text))
        elif notice.kind == "error":
            self.voice.reject(RejectedError(notice.code, notice.text), max(1, notice.count))
