"""`Names`: the service names that a client claims, and what becomes of them.

```
claim ─▶ CLAIM ─▶ hub ─▶ confirmed, confirmed "queued", error       NOTICE owned, queued, lost ─▶ ServiceName
release ─▶ RELEASE ─▶ hub                                           a new connection: claimed again
```

Owner: one client, in its event loop. Invariants: a client has one claim to a name; with the connection all names are
given up, and over the next one they are claimed again, in the same words: another client may own one by then.

Not here: what a program holds of a claim (`peers.client.service_name`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from hub.errors import CloseCode, ClosedError, HubError, RejectedError, UsageError
from hub.labels import check_labels
from hub.names.claim import Wish
from hub.names.grammar import check_name
from peers.client.connection import Connection
from peers.client.numbering import NAMES, Numbers
from peers.client.service_name import ServiceName
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.names import NameClaim, NameRelease

__all__ = ["Names"]

_STANDINGS = frozenset({"owned", "queued", "lost"})
"""What a hub tells of a claim without being asked."""

_log = logging.getLogger("peers.client")


class _Change(NamedTuple):
    """A change that the hub was asked for and has not answered."""

    answer: asyncio.Future[HubError | None]
    claimed: ServiceName
    claims: bool
    """True for a claim, False for a release."""
    again: bool
    """Whether it was granted before, over an earlier connection."""


class Names:
    """The service names of one client.

    Args:
        on_waiting: Called when `waiting` may have changed.
    """

    def __init__(self, on_waiting: Callable[[], None]) -> None:
        self._on_waiting = on_waiting
        self._loop = asyncio.get_running_loop()
        # The connection that is open; None from `disconnected` until the next one.
        self._connection: Connection | None = None
        # Names that are claimed: from `claim` on, until they are released or lost.
        self._claimed: dict[str, ServiceName] = {}
        # Those of them that the hub has confirmed, over this connection or the one before.
        self._granted: dict[ServiceName, None] = {}
        # Number of a request to the hub → the change that it asks for; it goes with the answer.
        self._changes: dict[int, _Change] = {}
        self._numbers = Numbers(NAMES)
        # Why nothing is claimed any more; None until `finish`.
        self._ended: HubError | None = None

    @property
    def waiting(self) -> bool:
        """Whether an answer of the hub's is awaited: then the connection must be read."""
        return bool(self._changes)

    # For the client's users.

    async def claim(self, name: str, labels: Iterable[str], *, queue: bool) -> ServiceName:
        """Claim a name; see `Client.claim`. Cancellation: takes it back."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        wish = Wish(check_name(name), check_labels(labels), queue)
        if name in self._claimed:
            raise UsageError(f"this client has claimed {name} already; relabel that, or release it")
        claimed = self._claimed[name] = ServiceName(self, wish)
        try:
            await self._done(self._ask(claimed))
        except HubError:
            self._drop(claimed)
            raise
        except BaseException:
            self._drop(claimed)
            self._ask(claimed, claims=False)
            raise
        return claimed

    async def relabel(self, claimed: ServiceName, labels: tuple[str, ...]) -> None:
        """Claim a name again with other labels; see `ServiceName.relabel`."""
        if claimed.ended is not None:
            raise claimed.ended.with_traceback(None)
        before, claimed.labels = claimed.labels, labels
        try:
            await self._done(self._ask(claimed))
        except RejectedError:
            claimed.labels = before
            raise

    async def release(self, claimed: ServiceName) -> None:
        """Give a name up; see `ServiceName.release`."""
        if self._claimed.get(claimed.name) is not claimed:
            return
        self._drop(claimed)
        claimed.stand("it was released", owned=False)
        claimed.end(ClosedError(f"the name {claimed.name} was released"))
        if self._connection is not None:
            await asyncio.wait([self._ask(claimed, claims=False)])

    # For the client.

    def takes(self, notice: Notice) -> bool:
        """Take a notice of the hub if it is about names; return whether it is."""
        if notice.kind in _STANDINGS:
            self._tell(notice)
        elif notice.request in NAMES:
            self._answer(notice)
        else:
            return False
        return True

    def _answer(self, notice: Notice) -> None:
        """Take the hub's answer to a claim or a release."""
        change = self._changes.pop(notice.request, None)
        if change is None:
            return
        claimed = change.claimed
        error = RejectedError(notice.code, notice.text) if notice.kind == "error" else None
        if change.claims and self._claimed.get(claimed.name) is claimed:
            if error is None:
                self._granted[claimed] = None
                claimed.stand("queued" if notice.text else "", owned=not notice.text)
            elif change.again:
                self._lose(claimed, error)
        if not change.answer.done():
            change.answer.set_result(error)
        self._on_waiting()

    def _tell(self, notice: Notice) -> None:
        """Take note of how a claim stands now, as the hub tells."""
        claimed = self._claimed.get(notice.name)
        if claimed is None:  # released meanwhile
            return
        if notice.kind == "lost":
            self._lose(claimed, RejectedError(CloseCode.NOT_ALLOWED, notice.text))
        else:
            claimed.stand(notice.text, owned=notice.kind == "owned")

    def connected(self, connection: Connection, hello: Hello) -> None:  # noqa: ARG002 -- as all parts
        """Claim everything anew over a new connection."""
        self._connection = connection
        for number, change in self._changes.items():
            self._send(number, change)
        for claimed in list(self._granted):
            self._ask(claimed, again=True)

    def disconnected(self, *, again: bool) -> None:  # noqa: ARG002 -- as all parts
        """Take note that all names are lost with the connection."""
        self._connection = None
        for number, change in list(self._changes.items()):
            if not change.claims or change.claimed in self._granted:
                del self._changes[number]
                if not change.answer.done():
                    change.answer.set_result(None)  # it is claimed anew, with its labels as they are by then
        for claimed in self._granted:
            claimed.stand("the connection was lost", owned=False)

    def finish(self, ended: HubError) -> None:
        """Tell those who wait that nothing comes any more."""
        self._ended = ended
        self._connection = None
        for change in self._changes.values():
            if not change.answer.done():
                change.answer.set_result(self._ended)
        self._changes.clear()
        for claimed in self._claimed.values():
            claimed.end(self._ended)
        self._claimed.clear()
        self._granted.clear()

    # Inside.

    async def _done(self, answer: asyncio.Future[HubError | None]) -> None:
        await asyncio.wait([answer])
        error = answer.result()
        if error is not None:
            raise error.with_traceback(None)

    def _lose(self, claimed: ServiceName, error: RejectedError) -> None:
        self._drop(claimed)
        claimed.stand(error.text, owned=False)
        claimed.end(error)
        _log.warning("the name %s is lost: %s", claimed.name, error.text)

    def _drop(self, claimed: ServiceName) -> None:
        if self._claimed.get(claimed.name) is claimed:
            del self._claimed[claimed.name]
        self._granted.pop(claimed, None)
        for number, change in list(self._changes.items()):
            if change.claimed is claimed and change.claims:
                del self._changes[number]
                if not change.answer.done():
                    change.answer.set_result(ClosedError(f"the name {claimed.name} was released"))

    def _ask(
        self, claimed: ServiceName, *, claims: bool = True, again: bool = False
    ) -> asyncio.Future[HubError | None]:
        number = self._numbers.next()
        change = _Change(self._loop.create_future(), claimed, claims, again)
        if claims or self._connection is not None:
            self._changes[number] = change
            self._send(number, change)
        return change.answer

    def _send(self, number: int, change: _Change) -> None:
        connection = self._connection
        if connection is None:
            return
        if change.claims:
            connection.conversation.claim(NameClaim(number, change.claimed.wish))
        else:
            connection.conversation.release(NameRelease(number, change.claimed.name))
        connection.write_outgoing()
        self._on_waiting()
