"""`Links`: the links to peer hubs; two links to the same hub would carry every message twice, so one is closed.

Both hubs follow the same rules:

| case | kept |
|---|---|
| the far side has this hub's own id | none: 4010 |
| both have dialled each other at once | the one that the hub with the lower id has dialled; the other is closed: 4009 |
| one link is in use already | that one, if it proves that it is alive: the new one is closed: 4009; else the new one |

A link is in use when any frame after HELLO has come in. The proof is a PING: one hub may notice a cut line first and
dial again, while the other keeps the old link. The new link waits for the answer, for the end of the old link, or for
`PROOF_S`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, Protocol

from hub.errors import CloseCode, RejectedError
from peers.server.keepalive import Keepalive

PROOF_S: Final = 1.0  # A hundred times what a busy hub needs, and less than the far side takes to dial again
_TOKEN_BYTES = 8


class Link(Protocol):
    """A connection to a peer hub."""

    dialled: bool  # Whether this side has dialled; never changed

    @property
    def used(self) -> bool:
        """Whether a frame after HELLO has come in, or this side has dialled and got its answer."""

    def ask(self, token: bytes) -> None:
        """Send a PING with `token`; `Links.answered` gets its answer."""

    def proceed(self) -> None:
        """Take the far side in, as its place is free now; harmless if the link is over by now."""

    def refuse(self, code: int, text: str) -> None: ...


class _Trial:
    """Between the link that stands, which was sent a PING with a token, and a newer one, which waits."""

    def __init__(self, links: Links, hub_id: bytes, older: Link, newer: Link, token: bytes) -> None:
        self._links = links
        self.hub_id, self.older, self.newer, self.token = hub_id, older, newer, token
        self.due_s = -1  # The slot in the wheel of deadlines, which alone sets it

    def check(self, now_s: float) -> float:  # noqa: ARG002 -- it is watched for this one moment
        self._links.replace(self)
        return math.inf


class Links:
    """Links by the id of the far hub."""

    def __init__(self, own_id: bytes, keepalive: Keepalive, later: Callable[[Callable[[], object]], object]) -> None:
        self._own_id = own_id
        self._keepalive = keepalive
        self._later = later
        self._links: dict[bytes, Link] = {}  # The link that stands to each hub
        # The trial between two links to a hub, from the HELLO of the newer link until it is decided
        self._trials: dict[bytes, _Trial] = {}
        # By token: hubs that have not answered the PING, and the callback once all have
        self._sweeps: dict[bytes, tuple[set[bytes], Callable[[], object]]] = {}
        self._tokens = count(1)  # Each is used once, so that no late answer counts for another trial

    def __len__(self) -> int:
        return len(self._links)

    def find(self, hub_id: bytes) -> Link | None:
        return self._links.get(hub_id)

    def __contains__(self, hub_id: bytes) -> bool:
        return hub_id in self._links

    def add(self, hub_id: bytes, link: Link, now_s: float) -> bool:
        """Add a link whose far side has sent HELLO; return whether it stands.

        If not, it must wait: a call of `proceed` or `refuse` follows. Raises a `RejectedError` if the far side is this
        hub.
        """
        if hub_id == self._own_id:
            raise RejectedError(CloseCode.SAME_HUB, "a hub does not peer with itself")
        older = self._links.get(hub_id)
        if older is None:
            self._links[hub_id] = link
            return True
        dialled_by_lower = link.dialled == (self._own_id < hub_id)
        if older.used or older.dialled == link.dialled or not dialled_by_lower:
            before = self._trials.get(hub_id)
            if before is not None:  # the far side has dialled once more, and believes in its last link only
                self._end_trial(before)
                before.newer.refuse(CloseCode.ALREADY_CONNECTED, _already(hub_id))
            token = next(self._tokens).to_bytes(_TOKEN_BYTES)
            trial = self._trials[hub_id] = _Trial(self, hub_id, older, link, token)
            self._keepalive.watch(trial, now_s + PROOF_S)
            older.ask(token)
            return False
        self._links[hub_id] = link
        older.refuse(CloseCode.ALREADY_CONNECTED, _already(hub_id))
        return True

    def answered(self, hub_id: bytes, link: Link, token: bytes) -> None:
        """Take a link's answer to a PING. If it was on trial, it stays, and the waiting link is refused."""
        trial = self._trials.get(hub_id)
        if trial is not None and trial.older is link and trial.token == token:
            self._end_trial(trial)
            trial.newer.refuse(CloseCode.ALREADY_CONNECTED, _already(hub_id))
        if token in self._sweeps:
            self._swept(token, hub_id)

    def sweep(self, hubs: Iterable[bytes], act: Callable[[], object]) -> None:
        """Send a PING over links, and call `act` once each is answered, or gone.

        By then all earlier messages have arrived at both ends, unless they wait in a queue.
        """
        token = next(self._tokens).to_bytes(_TOKEN_BYTES)
        asked = {hub: link for hub in hubs if (link := self._links.get(hub)) is not None}
        if not asked:
            self._later(act)
            return
        self._sweeps[token] = (set(asked), act)
        for link in asked.values():
            link.ask(token)

    def _swept(self, token: bytes, hub_id: bytes) -> None:
        hubs, act = self._sweeps[token]
        hubs.discard(hub_id)
        if not hubs:
            del self._sweeps[token]
            act()

    def remove(self, hub_id: bytes, link: Link) -> bool:
        """Forget a link that is over; return whether it was the one that stood.

        If another link waits for its place, that one stands from now on, and proceeds after this turn.
        """
        trial = self._trials.get(hub_id)
        if trial is not None and trial.newer is link:
            self._end_trial(trial)
        if self._links.get(hub_id) is not link:
            return False
        del self._links[hub_id]
        for token in list(self._sweeps):
            self._swept(token, hub_id)
        if trial is not None:
            self.replace(trial)
        return True

    def replace(self, trial: _Trial) -> None:
        """Let the waiting link take the place of the older one, which is gone or does not answer."""
        self._end_trial(trial)
        older = self._links.get(trial.hub_id)
        self._links[trial.hub_id] = trial.newer
        if older is not None:
            text = f"no answer within {PROOF_S:g} s: another link of hub {trial.hub_id.hex()} takes its place"
            older.refuse(CloseCode.ALREADY_CONNECTED, text)
        self._later(trial.newer.proceed)

    def _end_trial(self, trial: _Trial) -> None:
        if self._trials.get(trial.hub_id) is trial:
            del self._trials[trial.hub_id]
            self._keepalive.forget(trial)


def _already(hub_id: bytes) -> str:
    return f"already connected: one link between two hubs is enough, hub {hub_id.hex()} has one"


class Vacancies:
    """Diallers whose peer is linked already wait here until a link ends, and then dial at once."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, limit_s: float) -> None:
        """Wait until a link ends, but no longer than `limit_s`, which may be infinite."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await asyncio.wait((future,), timeout=None if math.isinf(limit_s) else limit_s)
        finally:
            if future in self._waiting:
                self._waiting.remove(future)
