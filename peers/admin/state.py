"""The state of the hub in figures and in one sentence, its last losses, its last minutes, and `$hub/statistics`.

`$hub/state` and `$hub/losses` are for users with the grant: they tell what clients call themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import msgspec

from hub.handlers.handler import Handler
from hub.quotas import USERS_SHOWN
from hub.requests.hub_services import Later
from hub.statistics.events import STATISTICS_TOPIC, Event
from hub.statistics.losses import KEPT
from peers.admin.steps import in_steps, service
from peers.server.server import Server


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

    Each is what one handler has lost in one second: `at` (s since 1970), `id`, `label`, `messages`, `why`.
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


# What `$hub/statistics` tells: each handler with its counters, and what the process takes.


HANDLERS_PER_STEP: Final = 256  # Handlers of a message, and of a turn: about 64 KiB, and 3 ms


def totals(server: Server) -> dict[str, Any]:
    """Return the figures of a process as a whole."""
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


# What the hub as a whole has done over the last ten minutes.


class _HistoryQuestion(msgspec.Struct, forbid_unknown_fields=True):
    after: int | None = None


@service("null, or a map with `after`", _HistoryQuestion)
def history(server: Server, _: Handler, question: _HistoryQuestion) -> dict[str, Any]:
    """Answer null, or a map with `after`, the number of a point, with `Ring.behind` and `clock_of`."""
    return server.ticker.history.behind(question.after) | clock_of(server)


def clock_of(server: Server) -> dict[str, float]:
    """Return one moment, since 1970 and by the clock that numbers points."""
    return {"now_s": server.wall_us() / 1e6, "clock_s": server.loop.time()}


class Telling:
    """Announces `$hub/statistics` once a second while it has subscribers, a message a turn.

    Where the hub is several processes, each tells its own subscribers of all of them.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._telling: Iterator[int] | None = None  # Set while the messages of one look are published
        self._is_asking = False  # Whether the other processes of the hub are asked

    def tick(self) -> None:
        """Begin, if there are subscribers and the last look is over."""
        server = self._server
        if self._telling is not None or self._is_asking or not server.core.system_events.is_wanted(STATISTICS_TOPIC):
            return
        if server.whole is None:
            handlers = list(server.core.handlers.values())
            self._begin(totals(server), len(handlers), lambda first, stop: rows(handlers[first:stop]))
        else:
            self._is_asking = True
            later = server.whole.ask("statistics")
            later.then(lambda: self._take(later))

    def _take(self, later: Later) -> None:
        """Take the answer of the processes of the hub; if it failed, the next second asks again."""
        self._is_asking = False
        if later.error is None:
            found = dict(later.value)
            some = found.pop("some")
            self._begin(found, len(some), lambda first, stop: some[first:stop])

    def _begin(self, head: dict[str, Any], count: int, look: Callable[[int, int], list[Any]]) -> None:
        self._telling = self._messages(head | {"handlers": count}, count, look)
        self._next()

    def _next(self) -> None:
        """Tell of some handlers, and of the next ones in the next turn: thousands take 0.1 s."""
        if self._telling is None:
            return
        if next(self._telling, None) is None:
            self._telling = None
        else:
            self._server.after_turn(self._next)

    def _messages(self, head: dict[str, Any], count: int, look: Callable[[int, int], list[Any]]) -> Iterator[int]:
        for first in range(0, max(1, count), HANDLERS_PER_STEP):
            if first:
                head.pop("users", None)
                head.pop("links", None)
                head.pop("state", None)
            some = look(first, first + HANDLERS_PER_STEP)
            self._server.core.system_events.announce(Event(STATISTICS_TOPIC, head | {"first": first, "some": some}))
            yield first
