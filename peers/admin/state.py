"""The state of the hub, its losses, its last minutes and its connections, as services; and `$hub/statistics`.

`$hub/state` and `$hub/losses` are for users with the grant: they have names of clients. `who` takes about 8 µs a
connection, `PAGE` of them a turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.quotas import USERS_SHOWN
from hub.requests.hub_services import Later
from hub.statistics.events import STATISTICS_TOPIC, Event
from hub.statistics.losses import KEPT
from peers.admin.steps import Work, in_steps, service
from peers.server.server import Server, connection_of
from peers.server.ticker import counters_of


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    id: int | None = None
    limit: int = KEPT


@service("null")
def state(server: Server, _: Handler, __: None) -> dict[str, Any]:
    """Answer null with the fields of `hub.statistics.losses.State`, and `text`, the sentence."""
    return server.ticker.state.fields()


@service("null, or a map with `id` and `limit`", _Question)
def losses(server: Server, _: Handler, question: _Question) -> list[dict[str, Any]]:
    """Answer null, or a map with `id`, of a handler, and `limit`, with a list of maps, the newest first.

    Each is of one handler and second: `at` (s since 1970), `id`, `label`, `messages`, `why`.
    """
    began_s = server.wall_us() / 1e6 - server.loop.time()
    return [
        {
            "at": round(began_s + one.second, 3),
            "id": one.id,
            "label": one.label,
            "messages": one.messages,
            "why": one.why,
        }
        for one in server.ticker.losses.last(question.id, max(0, question.limit))
    ]


HANDLERS_PER_STEP: Final = 256  # Handlers of a message, and of a turn: about 64 KiB, and 3 ms


def totals(server: Server) -> dict[str, Any]:
    memory = server.memory.statistics()
    return {
        "hub": server.name,
        "at_s": server.loop.time(),
        "handlers": len(server.core.handlers),
        "memory_bytes": memory.resident_bytes,
        "memory_limit_bytes": memory.limit_bytes,
        "dropped_log_lines": server.log_statistics().dropped_lines_total,
        "users": [share._asdict() for share in server.core.quotas.largest(USERS_SHOWN)],
        "state": server.ticker.state.fields(),
        "links": [link.fields() for link in server.traffic.statistics(server.loop.time())],
    }


def rows(handlers: Sequence[Handler]) -> list[dict[str, Any]]:
    return [handler.statistics()._asdict() for handler in handlers]


def statistics(server: Server) -> Later:
    """Return the totals of a process, with `some`: all of its handlers."""

    def collected() -> Generator[None, None, dict[str, Any]]:
        handlers = list(server.core.handlers.values())
        found = totals(server) | {"handlers": len(handlers), "some": []}
        for first in range(0, len(handlers), HANDLERS_PER_STEP):
            found["some"] += rows(handlers[first : first + HANDLERS_PER_STEP])
            yield
        return found

    return in_steps(server, collected())


class _HistoryQuestion(msgspec.Struct, forbid_unknown_fields=True):
    after: int | None = None


@service("null, or a map with `after`", _HistoryQuestion)
def history(server: Server, _: Handler, question: _HistoryQuestion) -> dict[str, Any]:
    """Answer null, or a map with `after`, the number of a point, with `Ring.behind` and `clock_of`."""
    return server.ticker.history.behind(question.after) | clock_of(server)


def clock_of(server: Server) -> dict[str, float]:
    """Return one moment, since 1970 and by the clock that numbers points."""
    return {"now_s": server.wall_us() / 1e6, "clock_s": server.loop.time()}


PAGE: Final = 64  # Most connections in an answer by default. Sixteen answers are the most of a turn: 5 ms
LARGEST_PAGE: Final = 1024  # About 400 KiB, made over several turns
PREFIXES: Final = 1000  # Most that are listed of one connection


class _WhoPage(msgspec.Struct, forbid_unknown_fields=True):
    after: int = 0
    user: str | None = None
    limit: int | None = None
    id: int | None = None
    history: bool = False


@service("null, or a map with `after`, `limit`, `user`, `id` and `history`", _WhoPage)
def who(server: Server, _: Handler, page: _WhoPage) -> Any:
    """Answer with a list of maps, by id; fewer than the limit say that there are no more.

    The question is null, or a map with `after`, an id, `limit`, and `user`, for the connections of one user; or `id`,
    for one connection alone with up to `PREFIXES` prefixes, and `history`, for its figures of the last ten minutes.
    """
    if page.id is not None:
        one = server.core.handlers.get(page.id)
        if one is None or one.role is Role.LOCAL:
            return []
        found = _described(server, one) | {"sample": sorted(islice(one.shown_prefixes, PREFIXES))}
        past = server.ticker.recent.rings.behind(one.id) if page.history else None
        return [found if past is None else found | {"history": past | clock_of(server)}]
    limit = limit_of({} if page.limit is None else {"limit": page.limit})
    if limit > PAGE:
        return in_steps(server, _who_in_steps(server, page, limit))
    return _connections(server, page, page.after, limit)


def limit_of(value: Any) -> int:
    asked = value.get("limit", PAGE) if isinstance(value, dict) else PAGE
    return min(max(1, asked), LARGEST_PAGE) if isinstance(asked, int) else PAGE


def _who_in_steps(server: Server, page: _WhoPage, limit: int) -> Generator[None, None, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    after = page.after
    while len(rows) < limit:
        some = _connections(server, page, after, min(PAGE, limit - len(rows)))
        rows += some
        if not some:
            break
        after = some[-1]["id"]
        yield
    return rows


def _connections(server: Server, page: _WhoPage, after: int, limit: int) -> list[dict[str, Any]]:
    handlers = server.core.handlers
    ids = list(handlers)  # in their order, since numbers only grow
    found = (handlers[number] for number in islice(ids, bisect_right(ids, after), None))
    shown = (
        one
        for one in found
        if one.role is not Role.LOCAL
        and (page.user is None or (one.rights is not None and one.rights.user.name == page.user))
    )
    return [_described(server, one) for one in islice(shown, limit)]


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


class Telling:
    """Announces `$hub/statistics` once a second while it has subscribers, `HANDLERS_PER_STEP` handlers a turn.

    Where the hub is several processes, each has the handlers of all of them for its own subscribers.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_telling = False

    def tick(self) -> None:
        """Begin, if there are subscribers and the last look is over."""
        if not self._is_telling and self._server.core.system_events.is_wanted(STATISTICS_TOPIC):
            self._is_telling = True
            in_steps(self._server, self._tell()).then(self._end)

    def _end(self) -> None:
        self._is_telling = False

    def _tell(self) -> Work[None]:
        server = self._server
        some: Sequence[Any]
        look: Callable[[Sequence[Any]], list[Any]]
        if server.whole is None:
            head, some, look = totals(server), list(server.core.handlers.values()), rows
        else:
            head = dict((yield server.whole.ask("statistics")))
            some, look = head.pop("some"), list
        head["handlers"] = len(some)
        for first in range(0, max(1, len(some)), HANDLERS_PER_STEP):
            if first:
                yield None
                for field in ("users", "links", "state"):
                    head.pop(field, None)
            shown = look(some[first : first + HANDLERS_PER_STEP])
            server.core.system_events.announce(Event(STATISTICS_TOPIC, head | {"first": first, "some": shown}))
