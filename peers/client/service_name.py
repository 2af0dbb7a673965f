"""`ServiceName`: a name that a client has claimed, as a program holds it.

Owner: whoever has claimed it, in the client's event loop. Invariants: once it is ended it is never owned again; whoever
waits is woken by each change. Not here: what the hub is asked and tells (`peers.client.names`).
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self

from hub.errors import HubError
from hub.labels import check_labels
from hub.names.claim import Wish
from peers.client.waiters import Waiters

__all__ = ["ServiceName"]


class Register(Protocol):
    """The names of a client, as far as one of them needs the others."""

    async def relabel(self, claimed: ServiceName, labels: tuple[str, ...]) -> None:
        """Claim a name again with other labels."""

    async def release(self, claimed: ServiceName) -> None:
        """Give a name up."""


class ServiceName:
    """A name that this client has claimed, for `async with await client.claim("org.example.Player")`.

    Made by `Client.claim`. Leaving the `async with` releases it.
    """

    def __init__(self, names: Register, wish: Wish) -> None:
        self.name = wish.name
        self.labels = tuple(wish.labels)
        self.queue = wish.queue
        self.reason = ""
        """Why the name is not owned, or not any more; for people."""
        self._names = names
        # True while this client owns the name, as far as it was told.
        self._owned = False
        # Why the name is not claimed any more; None while it is.
        self._ended: HubError | None = None
        # Those who wait until it is owned, or lost.
        self._changes = Waiters()

    def __repr__(self) -> str:
        return f"<ServiceName {self.name} {'owned' if self._owned else self.reason or 'not owned'}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.release()

    @property
    def owned(self) -> bool:
        """Whether this client owns it now, as far as it was told."""
        return self._owned

    async def wait_owned(self) -> None:
        """Wait until this client owns it.

        Raises:
            RejectedError: It is lost for good: another hub's claim was earlier, or somebody else had it when the
                connection was made anew, and this claim does not wait.
            ClosedError, PeerError: It was released; the client is closed, or has ended with an error.
        """
        while not self._owned:
            if self._ended is not None:
                raise self._ended.with_traceback(None)
            await self._changes.wait()

    async def wait_lost(self) -> str:
        """Wait until this client does not own it; return why. A lost connection is one of the reasons."""
        while self._owned:
            await self._changes.wait()
        return self.reason

    async def relabel(self, labels: Iterable[str]) -> None:
        """Announce the name with other labels.

        Raises:
            InvalidNameError: One of them is none.
            ClosedError: It was released, or lost.
            RejectedError, PeerError: As `Client.claim`.
        """
        await self._names.relabel(self, check_labels(labels))

    async def release(self) -> None:
        """Give the name up, or wait for it no longer. May be called twice, and when it is lost."""
        await self._names.release(self)

    # For `Names`.

    @property
    def wish(self) -> Wish:
        """The words with which the hub is asked for the name."""
        return Wish(self.name, self.labels, self.queue)

    @property
    def ended(self) -> HubError | None:
        """Why this client does not claim the name any more; None while it does."""
        return self._ended

    def stand(self, reason: str = "", *, owned: bool) -> None:
        """Take note of how the claim stands now."""
        self._owned = owned
        self.reason = reason
        self._changes.wake()

    def end(self, error: HubError) -> None:
        """Take note that the name is not claimed any more."""
        self._ended = self._ended or error
        self._owned = False
        self.reason = self.reason or str(error)
        self._changes.wake()
