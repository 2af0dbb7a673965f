"""`SpareDialler`: dials spares, and lets them go, as `hub.mesh.spares` says.

```
every second: Spares.look ─┬─ dial ───▶ resolve ─▶ connect ─▶ link? ─┬─ linked ─▶ ... ─▶ lost
                           │                                         └─ failed
                           └─ let go ─▶ the link costs so much that nothing takes it ─▶ 4 s later: CLOSE
```

What is let go ends in order: messages take their other ways first, and what is queued is written.

Owner of the state: its task, made by the daemon where `mesh.degree` is set. Invariant: of each attempt that `Spares`
has ordered it is told the end. Not here: which addresses are dialled, and who is trusted (`peers.connections.learned`).
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from functools import partial
from typing import Final

from hub.errors import CloseCode
from hub.mesh.announcement import SEQ_LIMIT
from hub.mesh.spares import Dial, View
from peers.connections.connection import Connection
from peers.connections.dialler import CONNECT_TIMEOUT_S, Dialler, HubAttempt, PeerHub
from peers.connections.learned import Learned
from peers.node.node import Node
from peers.transport.endpoints import Endpoint
from peers.transport.tasks import end_all

__all__ = ["LOOK_EVERY_S", "SpareDialler"]

LOOK_EVERY_S: Final = 1.0
"""How often it is looked what is to be done, seconds."""

_CLEAR_S: Final = 4.0
"""How long a link that is let go is still there after messages take other ways, seconds: others have heard by then."""

_HIGHEST_COST: Final = SEQ_LIMIT
"""What such a link costs: the most that ROUTING can say, so that any other way is nearer."""

_TOLD_LIMIT: Final = 1024
"""Of how many addresses it is remembered what was said of them last; of more it may be said again."""

_LET_GO: Final = "this spare link is not needed any more"
_CROSSED: Final = f"({int(CloseCode.ALREADY_CONNECTED)})"


class SpareDialler:
    """Of one hub.

    Args:
        node: The hub.
        learned: Says which addresses it dials.
    """

    def __init__(self, node: Node, learned: Learned) -> None:
        self._node = node
        self._learned = learned
        # Attempt → whom it was to reach, and its task; until the link is lost that has come of it, or none has. Of a
        # hub there may be several: somebody else may have answered where it was dialled before.
        self._attempts: dict[HubAttempt, tuple[Dial, asyncio.Task[None]]] = {}
        # Those that have led to a link, which `Spares` knows.
        self._linked: set[HubAttempt] = set()
        # The spares that messages have left, each with the time at which it is closed; ascending.
        self._closing: deque[tuple[float, Connection]] = deque()
        # Address → why there was no link, as the log has it.
        self._told: OrderedDict[str, str] = OrderedDict()

    async def run(self) -> None:
        """Dial and let go until cancelled, or until the hub stops."""
        try:
            while not self._node.draining:
                self.look()
                await asyncio.sleep(random.uniform(LOOK_EVERY_S / 2, LOOK_EVERY_S))  # noqa: S311 -- spread, not secrecy
        finally:
            tasks = [task for _, task in self._attempts.values()]
            await end_all(tasks)

    def look(self) -> None:
        """Do what is to be done now."""
        node = self._node
        mesh, now_s = node.core.mesh, node.loop.time()
        for attempt, (ordered, _) in self._attempts.items():
            self._note_link(ordered, attempt)
        while self._closing and self._closing[0][0] <= now_s:
            _, connection = self._closing.popleft()
            if connection in node.connections:  # otherwise it has ended by itself
                connection.drain(_LET_GO)
        graph = mesh.graph
        addresses = {hub: record.addresses for hub, record in mesh.records.items()}
        linked = node.links.__contains__
        view = View(graph.links, graph.reached, graph.changes, linked, addresses, self._learned.may_dial)
        dial, let_go = node.spares.look(view, now_s)
        if let_go is not None:
            self._let_go(let_go)
        if dial is not None:
            self._dial(dial)

    # Dialling.

    def _dial(self, dial: Dial) -> None:
        node = self._node
        endpoint = Endpoint.parse_advertised(dial.address)
        objection = partial(self._learned.objection, dial.hub)
        peer = PeerHub(node, endpoint, node.settings.queue, objection)
        attempt = peer.attempt()
        task = node.loop.create_task(self._stay(dial, endpoint, peer, attempt), name=f"spare link to {dial.address}")
        self._attempts[attempt] = dial, task

    async def _stay(self, dial: Dial, endpoint: Endpoint, peer: PeerHub, attempt: HubAttempt) -> None:
        """See an attempt through, and the link that comes of it."""
        reason = "cancelled"
        try:
            reason = await self._outcome(endpoint, peer, attempt)
        finally:
            del self._attempts[attempt]
            self._note_end(dial, attempt, reason)

    async def _outcome(self, endpoint: Endpoint, peer: PeerHub, attempt: HubAttempt) -> str:
        """Return why there is no link, or none any more."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                address = await self._learned.find(endpoint)
        except TimeoutError:
            return f"its name was not resolved within {CONNECT_TIMEOUT_S:g} s"
        except (OSError, UnicodeError) as error:
            return getattr(error, "strerror", None) or str(error)
        return await Dialler(self._node, endpoint, peer, address=address).stay(attempt.connection)

    def _note_link(self, dial: Dial, attempt: HubAttempt) -> None:
        """Tell of a link as soon as there is one."""
        if attempt not in self._linked and attempt.was_linked:
            node, address = self._node, attempt.connection.address
            self._linked.add(attempt)
            node.spares.linked(dial.hub, attempt.far_id, node.loop.time())
            node.log.info("spare link", address=address, hub=attempt.far_id.hex())
            self._told.pop(address, None)

    def _note_end(self, dial: Dial, attempt: HubAttempt, reason: str) -> None:
        spares, now_s = self._node.spares, self._node.loop.time()
        self._note_link(dial, attempt)
        if attempt in self._linked:
            self._linked.remove(attempt)
            spares.lost(attempt.far_id, now_s)
            return
        spares.failed(dial.hub, now_s)
        if reason.endswith(_CROSSED) or self._node.draining or self._told.get(dial.address) == reason:
            return
        self._told[dial.address] = reason
        self._told.move_to_end(dial.address)
        if len(self._told) > _TOLD_LIMIT:
            self._told.popitem(last=False)
        self._node.log.warning("no spare link", address=dial.address, hub=dial.hub.hex(), reason=reason)

    # Letting go.

    def _let_go(self, far: bytes) -> None:
        """Have messages take other ways than a spare, and end it then."""
        node = self._node
        for attempt in self._attempts:
            connection = attempt.connection
            if attempt.was_linked and attempt.far_id == far and connection.handler is not None:
                node.log.info("spare link let go", address=connection.address, hub=far.hex())
                node.core.mesh.set_cost(connection.handler, _HIGHEST_COST)
                self._closing.append((node.loop.time() + _CLEAR_S, connection))
