"""`change`: what another policy would change for everybody who is connected now.

```
each connection ─┬─ would be nobody any more ─────────────────────────▶ closed
                 └─ what it holds, judged by its new rights ──────────▶ losing, lost
each user ───────── what he may do by both policies, path by path ────▶ users who may do less, or more
```

It goes the way of a reload (`peers.daemon.reviewing`, `hub.review`), but takes nothing away. Who comes meanwhile is not
looked at. What a user may do is compared apart from what his connections hold, as nobody remembers what they publish.

Owner: the task of `peers.admin.policy`. Invariants: the answer has at most `ROWS` connections and as many users, with
`SHOWN` texts each; its sums are of all. Cost: 2 µs for each thing that is held, 4 µs for each path of a user, `SLICE`
of these a turn: so whoever uses the hub waits some milliseconds at most (docs/policy.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from hub.handler import Handler
from hub.policy.difference import Differences
from hub.policy.grants import User
from hub.policy.policy import Rights
from hub.topics import printable
from peers.node.audit import By
from peers.node.node import Connected, Node
from peers.users.access import Access

__all__ = ["ROWS", "SHOWN", "SLICE", "change", "merged", "sentence"]

ROWS: Final = 50
"""Most connections, and most users, that are told one by one."""

SHOWN: Final = 8
"""Most things of each that are named."""

SLICE: Final = 300
"""How many units of work are done in a turn; one is something that is held, and is judged in 2 µs."""

_PER_CONNECTION = 5
"""Units: who somebody is."""

_ADMIN = "administer the hub"


async def change(node: Node, access: Access, by: By) -> dict[str, Any]:
    """Return what would change.

    Args:
        node: Whose connections are looked at.
        access: What would recognise, and give rights.
        by: Who asks: what he himself would lose is said.
    """
    found = _Change(node, access, by)
    units = 0
    for connection in list(node.connections):
        for spent in found.look(connection):
            units += spent
            if units >= SLICE:
                units = 0
                await asyncio.sleep(0)
    return found.fields()


class _Change:
    """What was found so far."""

    def __init__(self, node: Node, access: Access, by: By) -> None:
        self._node = node
        self._access = access
        self._by = by
        self._sums = dict.fromkeys(("connections", "unasked", "closed", "losing", "lost", "held"), 0)
        self._sums |= dict.fromkeys(("users", "users_losing", "users_gaining", "users_uncompared", "unheard"), 0)
        self._connections: list[dict[str, Any]] = []
        self._users: list[dict[str, Any]] = []
        self._compared: set[tuple[User, User]] = set()
        self._differences = Differences()
        self._you: dict[str, bool] | None = None

    def look(self, connection: Connected) -> Iterator[int]:
        """Look at one connection; yield how many units of work that was, in steps."""
        handler, identity = connection.handler, connection.identity
        if handler is None or handler.closed:
            return
        yield _PER_CONNECTION
        self._sums["connections"] += 1
        if identity is None:  # this hub has dialled it: nobody was asked who he is
            self._sums["unasked"] += 1
            return
        rights = self._access.rights(identity)
        if not self._access.is_current(identity) or rights is None or (handler.is_link and not rights.may_link):
            self._note(handler, is_closed=True)
            return
        if handler is self._by:
            self._you = {"closed": False, "admin": rights.is_admin}
        lost: list[str] = []
        count = held = 0
        for one in self._node.core.authority.would_lose(handler, rights):
            yield 1
            held += 1
            if one is not None:
                count += 1
                if len(lost) < SHOWN:
                    lost.append(one)
        if count:
            self._sums["lost"] += count
            self._sums["held"] += held
            self._note(handler, lost, count)
        if handler.rights is not None:
            yield from self._compare(handler.rights, rights)

    def _note(
        self, handler: Handler, lost: list[str] | None = None, count: int = 0, *, is_closed: bool = False
    ) -> None:
        """Take note of a connection that would lose something, or be closed."""
        self._sums["closed" if is_closed else "losing"] += 1
        if is_closed and handler is self._by:
            self._you = {"closed": True, "admin": False}
        if len(self._connections) < ROWS:
            user = "" if handler.rights is None else handler.rights.user.name
            row = {"id": handler.id, "name": handler.name, "address": handler.address, "user": user}
            self._connections.append(row | {"closed": is_closed, "loses": lost or [], "lost": count})

    def _compare(self, before: Rights, after: Rights) -> Iterator[int]:
        """Compare what a user may do, once for all of his connections with the same roles."""
        pair = (before.user, after.user)
        if pair in self._compared:
            return
        self._compared.add(pair)
        self._sums["users"] += 1
        found = yield from self._differences.of(before, after)
        loses = [f"{action.value} {printable(path)}" for action, path in found.loses]
        gains = [f"{action.value} {printable(path)}" for action, path in found.gains]
        if before.is_admin is not after.is_admin:
            (loses if before.is_admin else gains).insert(0, _ADMIN)
        self._sums["users_losing"] += bool(loses)
        self._sums["users_gaining"] += bool(gains)
        self._sums["users_uncompared"] += not found.is_complete
        if (loses or gains or not found.is_complete) and len(self._users) < ROWS:
            row = {"user": after.user.name, "roles": sorted(after.user.roles), "complete": found.is_complete}
            row |= {"loses": loses[:SHOWN], "lost": len(loses), "gains": gains[:SHOWN], "gained": len(gains)}
            self._users.append(row)

    def fields(self) -> dict[str, Any]:
        """Return all of it."""
        told = self._sums | {"rows": self._connections, "user_rows": self._users, "you": self._you}
        return {"text": sentence(told)} | told


def sentence(told: dict[str, Any]) -> str:
    """Say what would change, for people."""
    of_all = f"of {_counted(told['connections'], 'connection')}"
    parts = []
    if told["closed"]:
        parts.append(f"{told['closed']:,} {of_all} would be closed")
    if told["losing"]:
        what = f"{told['lost']:,} of the {told['held']:,} prefixes, rules and names that they hold"
        parts.append(f"{told['losing']:,} {of_all} would lose {what}")
    users = [f"{told[key]:,} might do {word}" for key, word in _OF_USERS if told[key]]
    if users:
        parts.append(f"of {_counted(told['users'], 'user')} {', '.join(users)}")
    said = "; ".join(parts) or f"nothing changes for {_counted(told['connections'], 'connection')}"
    left_out = told["users_uncompared"]
    more = f" {_counted(left_out, 'user')} could not be compared: there are too many paths." if left_out else ""
    unheard = told["unheard"]
    if unheard:
        more += f" {_counted(unheard, 'process')} of this hub gave no answer: what is connected there is not counted."
    return f"With this policy {said}.{more}{_of_you(told['you'])}"


_OF_USERS = (("users_losing", "less"), ("users_gaining", "more"))


def _of_you(you: dict[str, bool] | None) -> str:
    if you is None or you["admin"]:
        return ""
    return " You would be closed yourself." if you["closed"] else " You would not be an admin any more."


def _counted(count: int, noun: str) -> str:
    plural = "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}" + plural * (count != 1)


def merged(parts: Sequence[dict[str, Any]], unheard: int = 0) -> dict[str, Any]:
    """Return the change for all processes of a hub. A user with connections at several of them counts at each.

    Args:
        parts: What processes say.
        unheard: How many others have not answered.
    """
    told = dict(parts[0])
    for part in parts[1:]:
        for key, value in part.items():
            if isinstance(value, int):
                told[key] += value
    for key in ("rows", "user_rows"):
        told[key] = [row for part in parts for row in part[key]][:ROWS]
    told["unheard"] = unheard
    told["you"] = next((part["you"] for part in parts if part["you"] is not None), None)
    return told | {"text": sentence(told)}
