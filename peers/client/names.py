"""`Names`: the service names that a client claims; `ServiceName`: one of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from hub.errors import CloseCode, ClosedError, ConnectionLostError, HubError, RejectedError, UsageError
from hub.names.claim import Wish, check_labels, check_name
from peers.client.conversation import ABNORMAL, NAMES, Changes, Verb, granted, wake
from peers.wire.control import NameClaim, NameRelease, Notice
from peers.wire.hello import Hello

if TYPE_CHECKING:
    from peers.client.connection import Connection

LISTED_UNDER = "$hub/names"  # The service of a hub that lists names
_LIST_LIMIT = 1000  # Most names in an answer of a hub; fewer mean that there are no more


class KnownName(NamedTuple):
    """A name that has an owner."""

    name: str
    labels: tuple[str, ...]
    owner: int  # Id of the client at its hub, as in `$hub/client/joined`
    hub: bytes  # Id of that hub


async def list_names(ask: Callable[[dict[str, str]], Awaitable[Any]], prefix: str) -> list[KnownName]:
    found: list[KnownName] = []
    while True:
        page = await ask({"prefix": prefix, "after": found[-1].name if found else ""})
        try:
            found += [
                KnownName(each["name"], tuple(each["labels"]), each["owner"], bytes.fromhex(each["hub"]))
                for each in page
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectionLostError(ABNORMAL, f"{LISTED_UNDER}: an answer that is no list of names") from error
        if len(page) < _LIST_LIMIT:
            return found


class ServiceName:
    """A name that this client has claimed, for `async with await client.claim("org.example.Player")`.

    Made by `Client.claim`. Leaving the `async with` releases it.
    """

    def __init__(self, names: Names, wish: Wish) -> None:
        self.name = wish.name
        self.labels = tuple(wish.labels)
        self.queue = wish.queue
        self.reason = ""  # Why the name is not owned; for people
        self._names = names
        self._owned = False
        self._ended: HubError | None = None
        self._changes = asyncio.Event()

    def __repr__(self) -> str:
        return f"<ServiceName {self.name} {'owned' if self._owned else self.reason or 'not owned'}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    @property
    def owned(self) -> bool:
        """Whether this client owns it now, as far as it knows."""
        return self._owned

    async def wait_owned(self) -> None:
        """Wait until this client owns it.

        Raises:
            RejectedError: It is lost for good: another hub's claim was earlier, or another client had it after a
                reconnect, and this claim does not wait.
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
        """Announce the name with other labels; raises as `Client.claim`, and `ClosedError` if it was released."""
        await self._names.relabel(self, check_labels(labels))

    async def release(self) -> None:
        """Give the name up, or wait for it no longer. May be called twice, and when it is lost."""
        await self._names.release(self)

    @property
    def wish(self) -> Wish:
        return Wish(self.name, self.labels, self.queue)

    @property
    def ended(self) -> HubError | None:
        return self._ended

    def stand(self, reason: str = "", *, owned: bool) -> None:
        self._owned = owned
        self.reason = reason
        wake(self._changes)

    def end(self, error: HubError) -> None:
        self._ended = self._ended or error
        self._owned = False
        self.reason = self.reason or str(error)
        wake(self._changes)


_log = logging.getLogger("peers.client")


class Names:
    """The service names of one client, which has one claim to each.

    They are lost with the connection, and claimed again over the next one: another client may own one by then.
    """

    def __init__(self) -> None:
        self._changes: Changes[ServiceName] = Changes(NAMES)
        # Names that are claimed: from `claim` on, until they are released or lost.
        self._claimed: dict[str, ServiceName] = {}
        # Those of them that the hub has confirmed, over this connection or the one before.
        self._granted: dict[ServiceName, None] = {}

    @property
    def waiting(self) -> bool:
        return bool(self._changes)

    async def claim(self, name: str, labels: Iterable[str], *, queue: bool) -> ServiceName:
        """Claim a name; see `Client.claim`. Cancellation: takes it back."""
        self._changes.check_open()
        wish = Wish(check_name(name), check_labels(labels), queue)
        if name in self._claimed:
            raise UsageError(f"this client has claimed {name} already; relabel that, or release it")
        claimed = self._claimed[name] = ServiceName(self, wish)
        try:
            await granted(self._ask(claimed))
        except HubError:
            self._drop(claimed)
            raise
        except BaseException:
            self._drop(claimed)
            self._ask(claimed, claims=False)
            raise
        return claimed

    async def relabel(self, claimed: ServiceName, labels: tuple[str, ...]) -> None:
        if claimed.ended is not None:
            raise claimed.ended.with_traceback(None)
        before, claimed.labels = claimed.labels, labels
        try:
            await granted(self._ask(claimed))
        except RejectedError:
            claimed.labels = before
            raise

    async def release(self, claimed: ServiceName) -> None:
        if self._claimed.get(claimed.name) is not claimed:
            return
        self._drop(claimed)
        claimed.stand("it was released", owned=False)
        claimed.end(ClosedError(f"the name {claimed.name} was released"))
        if self._changes.connection is not None:
            await asyncio.wait([self._ask(claimed, claims=False)])

    def receive(self, notice: Notice) -> None:
        """Take a notice about names: the answer to a request, or news of a claim."""
        if notice.request in NAMES:
            self._answer(notice)
            return
        claimed = self._claimed.get(notice.name)
        if claimed is None:  # released meanwhile
            return
        if notice.kind == "lost":
            self._lose(claimed, RejectedError(CloseCode.NOT_ALLOWED, notice.text))
        else:
            claimed.stand(notice.text, owned=notice.kind == "owned")

    def _answer(self, notice: Notice) -> None:
        taken = self._changes.take(notice)
        if taken is None:
            return
        change, error = taken
        claimed = change.about
        if change.adds and self._claimed.get(claimed.name) is claimed:
            if error is None:
                self._granted[claimed] = None
                claimed.stand("queued" if notice.text else "", owned=not notice.text)
            elif change.again:
                self._lose(claimed, error)

    def connected(self, connection: Connection, hello: Hello) -> None:  # noqa: ARG002 -- as all parts
        self._changes.connected(connection)
        for claimed in list(self._granted):
            self._ask(claimed, again=True)

    def disconnected(self) -> None:
        self._changes.disconnected()
        self._changes.drop(lambda change: change.about in self._granted)  # claimed again, with the labels of then
        for claimed in self._granted:
            claimed.stand("the connection was lost", owned=False)

    def finish(self, ended: HubError) -> None:
        self._changes.finish(ended)
        for claimed in self._claimed.values():
            claimed.end(ended)
        self._claimed.clear()
        self._granted.clear()

    def _lose(self, claimed: ServiceName, error: RejectedError) -> None:
        self._drop(claimed)
        claimed.stand(error.text, owned=False)
        claimed.end(error)
        _log.warning("the name %s is lost: %s", claimed.name, error.text)

    def _drop(self, claimed: ServiceName) -> None:
        if self._claimed.get(claimed.name) is claimed:
            del self._claimed[claimed.name]
        self._granted.pop(claimed, None)
        error = ClosedError(f"the name {claimed.name} was released")
        self._changes.drop(lambda change: change.about is claimed and change.adds, error)

    def _ask(
        self, claimed: ServiceName, *, claims: bool = True, again: bool = False
    ) -> asyncio.Future[HubError | None]:
        def verb(number: int) -> Verb:
            return NameClaim(number, claimed.wish) if claims else NameRelease(number, claimed.name)

        return self._changes.ask(claimed, verb, adds=claims, again=again)
