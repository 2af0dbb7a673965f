"""`who`: the connections of a hub, a page at a time: their users, how these are known, and what they have done.

About 8 µs a connection, `PAGE` of them a turn. Of one connection that is asked for by its id, all prefixes are listed,
too, up to `PREFIXES`, and its figures of the last ten minutes on demand (`hub.statistics.history`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from peers.admin.state import clock_of
from peers.admin.steps import in_steps, service
from peers.server.server import Server, connection_of
from peers.server.ticker import counters_of

PAGE: Final = 64  # Most connections in an answer by default. Sixteen answers are the most of a turn: 5 ms
LARGEST_PAGE: Final = 1024  # About 400 KiB, made over several turns
PREFIXES: Final = 1000  # Most that are listed of one connection


class _Page(msgspec.Struct, forbid_unknown_fields=True):
    after: int = 0
    user: str | None = None
    limit: int | None = None
    id: int | None = None
    history: bool = False


@service("null, or a map with `after`, `limit`, `user`, `id` and `history`", _Page)
def who(server: Server, _: Handler, page: _Page) -> Any:
    """Answer with a list of maps, by id; fewer than the limit say that there are no more.

    The question is null, or a map with `after`, an id, `limit`, and `user`, for the connections of one user; or `id`,
    for one connection alone, and `history`, whether to tell what it did before.
    """
    if page.id is not None:
        one = server.core.handlers.get(page.id)
        return [] if one is None or one.role is Role.LOCAL else [_in_full(server, one, with_history=page.history)]
    limit = limit_of({} if page.limit is None else {"limit": page.limit})
    if limit > PAGE:
        return in_steps(server, _in_steps(server, page, limit))
    return _rows(server, page, page.after, limit)


def limit_of(value: Any) -> int:
    asked = value.get("limit", PAGE) if isinstance(value, dict) else PAGE
    return min(max(1, asked), LARGEST_PAGE) if isinstance(asked, int) else PAGE


def _in_steps(server: Server, page: _Page, limit: int) -> Generator[None, None, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    after = page.after
    while len(rows) < limit:
        some = _rows(server, page, after, min(PAGE, limit - len(rows)))
        rows += some
        if not some:
            break
        after = some[-1]["id"]
        yield
    return rows


def _rows(server: Server, page: _Page, after: int, limit: int) -> list[dict[str, Any]]:
    handlers = server.core.handlers
    ids = list(handlers)  # in their order, since numbers only grow
    found = (handlers[number] for number in islice(ids, bisect_right(ids, after), None))
    shown = (one for one in found if one.role is not Role.LOCAL and _is_of(one, page.user))
    return [_described(server, one) for one in islice(shown, limit)]


def _in_full(server: Server, handler: Handler, *, with_history: bool) -> dict[str, Any]:
    found = _described(server, handler) | {"sample": sorted(islice(handler.shown_prefixes, PREFIXES))}
    history = server.ticker.recent.rings.behind(handler.id) if with_history else None
    return found if history is None else found | {"history": history | clock_of(server)}


def _is_of(handler: Handler, user: str | None) -> bool:
    return user is None or (handler.rights is not None and handler.rights.user.name == user)


def _described(server: Server, handler: Handler) -> dict[str, Any]:
    connection = connection_of(handler)
    rights = handler.rights
    counted: Mapping[str, Any] = handler.statistics()._asdict()
    rates = server.ticker.recent.rates(handler.id, connection.since_s, counters_of(handler), server.loop.time())
    return dict(counted) | {
        "user": rights.user.name if rights is not None else "",
        "how": connection.how,
        "protocol": connection.protocol,
        "queue": {"messages": handler.limits.messages, "bytes": handler.limits.bytes},
        "received_bytes": connection.read_bytes,
        "software": connection.software,
        "since": round(server.wall_us() / 1e6 - (server.loop.time() - connection.since_s), 3),
        "rules": sum(1 for _ in server.core.rules.of(handler)),
        "rates": rates,
        "history": None,
    }
