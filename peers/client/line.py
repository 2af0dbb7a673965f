"""`Line`: a client of its own for one stream, and `Subscribing`: such a client that subscribes, for a follower.

A line subscribes once in its life, so that all that it brings was recorded from the offset on that the hub's
confirmation bears: over a connection with other subscriptions, messages that were queued for them could come behind it.

Owner: one follower. Invariant: after the end of the connection nothing is told but that end. Not here: when a line is
made, and what is done with what it brings (`peers.client.follower`).
"""

from __future__ import annotations

from typing import Protocol

from hub.batch import Batch
from hub.errors import HubError
from hub.topics import RESERVED
from peers.client.journal import JournalAccess
from peers.client.subscriptions import Subscriptions
from peers.wire.hello import Hello

__all__ = ["Line", "Subscribing"]

_JOURNAL_EVENTS = RESERVED + "journal"
"""Where a hub tells that its journal has failed."""


class Line(Protocol):
    """A connection with its parts, as far as they are needed here."""

    journal: JournalAccess
    subscriptions: Subscriptions

    @property
    def hub(self) -> Hello | None:
        """The words with which the hub has introduced itself."""

    async def open(self) -> None:
        """Connect to the hub."""

    async def close(self) -> None:
        """End the connection to the hub."""


class Owner(Protocol):
    """The stream that a line brings messages for. Each call says which line it is, as an old one may still speak."""

    def receive(self, line: Subscribing, batch: Batch) -> None:
        """Take messages that were delivered."""

    def missed(self, line: Subscribing, messages: int) -> None:
        """Take note that messages were lost on their way here."""

    def doubt(self, line: Subscribing) -> None:
        """Take note that the journal has failed, or works again: offsets told before may have been given again."""

    def lost(self, line: Subscribing, error: HubError | None) -> None:
        """Take note that the connection has ended."""


class Subscribing:
    """One connection that subscribes for a stream, once in its life: the sink of what it brings.

    Args:
        owner: Told of everything that comes, and of the end.
    """

    __slots__ = ("_owner", "client", "journal_id")

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        # The client that the connection belongs to; None until `open` has connected it.
        self.client: Line | None = None
        # The id of the journal of the hub that it is connected with; empty before that.
        self.journal_id = b""

    async def open(self, client: Line, prefixes: tuple[str, ...]) -> int | None:
        """Subscribe; return the offset where that begins, None if nobody knows.

        Raises:
            RejectedError, ConnectionLostError, ProtocolError: The hub refuses, or there is none.
        """
        await client.open()
        self.client = client
        self.journal_id = client.hub.journal if client.hub is not None else b""
        subscriptions = client.subscriptions
        await subscriptions.open(self, prefixes)
        offset = subscriptions.began
        await subscriptions.open(_Doubts(self._owner, self), (_JOURNAL_EVENTS,))
        still = subscriptions.began
        return None if offset is None or still is None or still < offset else offset

    def hold(self) -> None:
        """Read nothing more from the connection."""
        if self.client is not None:
            self.client.subscriptions.hold(self)

    def let_go(self) -> None:
        """Read on from the connection."""
        if self.client is not None:
            self.client.subscriptions.let_go(self)

    def put(self, batch: Batch) -> None:
        """Pass on messages that were delivered."""
        self._owner.receive(self, batch)

    def put_gap(self, lost_messages: int) -> None:
        """Pass on that messages were lost here."""
        self._owner.missed(self, lost_messages)

    def put_break(self) -> None:
        """Do nothing: this is never called, as such a connection is not made anew."""

    def finish(self, error: Exception | None) -> None:
        """Pass on that the connection has ended."""
        self._owner.lost(self, error if isinstance(error, HubError) else None)


class _Doubts:
    """The sink of what a hub tells of its journal."""

    __slots__ = ("_line", "_owner")

    def __init__(self, owner: Owner, line: Subscribing) -> None:
        self._owner = owner
        # The connection over which the hub tells it.
        self._line = line

    def put(self, batch: Batch) -> None:  # noqa: ARG002 -- as others
        """Doubt the offsets: the journal has failed, or works again."""
        self._owner.doubt(self._line)

    def put_gap(self, lost_messages: int) -> None:
        """Do nothing: the other sink is told, too."""

    def put_break(self) -> None:
        """Do nothing: this is never called, as such a connection is not made anew."""

    def finish(self, error: Exception | None) -> None:
        """Do nothing: the other sink is told, too."""
