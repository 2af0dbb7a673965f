"""`Followers`: the streams of one client that begin in the journal, as a part of it that ends with it.

Owner: one client. Invariant: a follower is here from its first connection until the last one is closed, so that a
client that closes leaves no connection behind. Not here: what a follower does (`peers.client.follower`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from hub.errors import ClosedError, HubError
from peers.client.connection import Connection
from peers.client.line import Line
from peers.transport.backoff import Backoff
from peers.wire.hello import Hello

__all__ = ["Followers", "Terms"]


class OwnConnections(Protocol):
    """A stream that has connections of its own, beside that of its client."""

    def finish(self, error: HubError | None) -> None:
        """End the stream: nothing more comes."""

    async def wait_closed(self) -> None:
        """Wait until its connections are closed."""


class Followers:
    """The streams of one client that begin in the journal, and have connections: a part (`peers.client.part`)."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        # Followers that have begun to make connections and not closed them all.
        self._open: set[OwnConnections] = set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, follower: OwnConnections) -> None:
        """Take in a follower that begins to make connections."""
        self._open.add(follower)

    def discard(self, follower: OwnConnections) -> None:
        """Let a follower go whose connections are closed, and that makes no more."""
        self._open.discard(follower)

    async def wait_closed(self) -> None:
        """Wait until the connections of those that have ended are closed."""
        for follower in list(self._open):
            await follower.wait_closed()

    @property
    def waiting(self) -> bool:
        """False: followers ask over connections of their own."""
        return False

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Do nothing: followers have connections of their own."""

    def disconnected(self, *, again: bool) -> None:
        """Do nothing: followers have connections of their own."""

    def finish(self, ended: HubError) -> None:
        """End all followers with their client."""
        for follower in list(self._open):
            follower.finish(None if isinstance(ended, ClosedError) else ended)


class Terms(NamedTuple):
    """The things that a follower is given by its client."""

    connect: Callable[[bool, Callable[[Hello], object]], Line]
    """Makes a client that is not connected yet: whether it reconnects, and what is called when it is connected."""
    again: bool
    """Whether what is lost is made anew."""
    backoff: Backoff
    on_dropped: Callable[[int], None]
    followers: Followers
    """The followers of the client, which this one joins."""
