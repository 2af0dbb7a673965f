"""Questions to a hub of several processes: `Gathering` at the core asks all, `FromWorker` at a worker asks the core.

```
client ─▶ worker ── FromWorker ── control ──▶ core ── Gathering ─┬─ control ─▶ each worker ── Parts
                                                                 └─ Parts (its own)
```

Each question gets one answer, within `ANSWER_S`, merged by `MERGES`; a process that is gone, or does not answer in
time, is left out and counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric, generate_latest

from hub.errors import HubError, InternalError, PeerError, UsageError
from hub.handlers.handler import Handler
from hub.quotas import USERS_SHOWN
from hub.requests.hub_services import Later
from hub.statistics.history import merged
from hub.statistics.losses import KEPT, State
from hub.topics import RESERVED
from peers.admin.access import USERS, audited, events_limit, kick, users
from peers.admin.graph import links_here
from peers.admin.services import NODES_TOPIC, journal, nodes, served_here, settings
from peers.admin.state import history, limit_of, losses, state, statistics, who
from peers.admin.steps import awaited, in_steps
from peers.admin.topics import counted_here, subscribers_here
from peers.daemon.reviewing import identities
from peers.journal.recorder import JOURNAL_TOPIC
from peers.server.audit import By, who_did
from peers.server.metrics import COUNTER, GAUGE, Row, families, registry
from peers.server.server import Server, Whole
from peers.stores.stores import STORES_TOPIC
from peers.workers.control import Control

# Metrics as msgpack carries them: name, text, type, and samples with name, labels and value
Plain = list[tuple[str, str, str, list[tuple[str, dict[str, str], float]]]]
ANSWER_S: Final = 2.0  # How long a process may take to answer: a hundred times what it takes with thousands of clients
CORE_S: Final = 2 * ANSWER_S  # How long a worker waits for the core, which may wait for others
_TAKES_ITS_TIME = frozenset({"reload"})
Part = Callable[[Any, Any], Any]  # Answers a question for one process: who asks, and with what value
_OF_ALL = ("who", "users", "kick", "audit")  # Services that all processes of a hub answer together; for admins
_OF_ALL_BY_GRANT = ("state", "losses", "history")  # Likewise, for users to whom the policy grants them


class WorkerCounts(NamedTuple):
    """Numbers of workers."""

    up: int
    limit: int
    started_total: int
    ended_total: int
    silent_total: int


def plain(server: Server) -> Plain:
    return [
        (one.name, one.documentation, one.type, [(sample.name, sample.labels, sample.value) for sample in one.samples])
        for one in registry(server).collect()
    ]


def exposition_of_all(counts: WorkerCounts, parts: Iterable[tuple[str, Plain]]) -> bytes:
    """Return the metrics of all processes as Prometheus text, each with the name of its process as `worker`."""
    found: dict[str, Metric] = {}
    for label, part in parts:
        for name, text, kind, samples in part:
            family = found.setdefault(name, Metric(name, text, kind))
            for sample, labels, value in samples:
                family.add_sample(sample, {"worker": label} | labels, value)
    whole = CollectorRegistry()
    whole.register(_Collected([*families(WORKERS, counts), *found.values()]))
    return generate_latest(whole)


class _Collected:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics

    describe = collect


WORKERS: tuple[Row[WorkerCounts], ...] = (
    Row("hub_workers", GAUGE, "Workers that serve.", lambda s: s.up),
    Row("hub_workers_limit", GAUGE, "Configured number of workers.", lambda s: s.limit),
    Row("hub_workers_started", COUNTER, "Worker processes started.", lambda s: s.started_total),
    Row("hub_workers_ended", COUNTER, "Worker processes ended, except because the hub stops.", lambda s: s.ended_total),
    Row("hub_workers_timeouts", COUNTER, "Answers of workers that did not arrive in time.", lambda s: s.silent_total),
)


def merged_page(parts: Sequence[list[dict[str, Any]]], value: Any = None) -> list[dict[str, Any]]:
    """Return the first rows of all pages, which begin behind the same id."""
    rows = sorted((row for part in parts for row in part), key=lambda row: row["id"])
    return rows[: limit_of(value)]


def _audited(parts: Sequence[list[dict[str, Any]]], value: Any) -> list[dict[str, Any]]:
    """Return the newest events: as many as are asked for, and those of the same moment as the last."""
    events = sorted((event for part in parts for event in part), key=lambda event: -event["at"])
    limit = events_limit(value)
    return [event for place, event in enumerate(events) if place < limit or event["at"] == events[limit - 1]["at"]]


def _users(parts: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the first users of all pages: the page of each process has the users that are in the result."""
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for row in part:
            before = found.get(row["user"])
            found[row["user"]] = row if before is None else _same_user(before, row)
    return [found[name] for name in sorted(found)[:USERS]]


def _same_user(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    sums = {
        name: one[name] + other[name]
        for name in ("connections", "queued_bytes", "published_messages", "dropped_messages")
    }
    return dict(one) | sums | {"roles": sorted({*one["roles"], *other["roles"]})}


def _drained(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    return {
        "clients": sum(part["clients"] for part in parts),
        "seconds": max((part["seconds"] for part in parts), default=0.0),
    }


def _statistics(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return dict(parts[0]) | {  # name and clock are those of the core
        "memory_bytes": sum(part["memory_bytes"] for part in parts),
        "memory_limit_bytes": sum(part["memory_limit_bytes"] for part in parts),
        "dropped_log_lines": sum(part["dropped_log_lines"] for part in parts),
        "users": _largest([share for part in parts for share in part["users"]]),
        "state": _state([part["state"] for part in parts]),
        "links": [link for part in parts for link in part["links"]],
        "some": [row for part in parts for row in part["some"]],
    }


def _state(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return reduce(State.plus, map(State.of, parts)).fields()


def _losses(parts: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return sorted((loss for part in parts for loss in part), key=lambda loss: -loss["at"])[:KEPT]


_NOBODY: Final = {"user": "", "users": 0, "held": {}, "refused_total": 0, "held_back_s": 0.0}


def _largest(shares: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add up holdings of users, the largest first; other users are one row without a name at the end."""
    found: dict[str, dict[str, Any]] = {}
    for share in shares:
        before = found.get(share["user"])
        found[share["user"]] = dict(share) if before is None else _same_holdings(before, share)
    others = found.pop("", _NOBODY)
    named = sorted(found.values(), key=lambda one: -sum(one["held"].values()))
    for one in named[USERS_SHOWN:]:
        others = _same_holdings(others, one)
    return named[:USERS_SHOWN] + ([dict(others)] if others["users"] else [])


def _same_holdings(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return dict(one) | {
        "users": one["users"] if one["user"] else one["users"] + other["users"],
        "held": dict(Counter(one["held"]) + Counter(other["held"])),
        "refused_total": one["refused_total"] + other["refused_total"],
        "held_back_s": one["held_back_s"] + other["held_back_s"],
    }


def why_unready(counts: WorkerCounts, parts: Sequence[tuple[str, str]]) -> str:
    """Return why the hub is not ready, empty if it is; `parts` has the reasons of each process."""
    for name, reason in parts:
        if reason:
            return reason if name == "core" else f"worker {name}: {reason}"
    answered = len({name for name, _ in parts} - {"core"})
    return "" if answered >= counts.limit else f"{answered} of {counts.limit} workers serve"


# Merges that need the value of the question.
PAGES: Final[Mapping[str, Callable[[Sequence[Any], Any], Any]]] = {"who": merged_page, "audit": _audited}

# Lists are merged by the process that was asked (`peers.admin`): the core has enough to do.
MERGES: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "users": _users,
    "kick": lambda parts: {"kicked": sum(part["kicked"] for part in parts)},
    "drain": _drained,
    "statistics": _statistics,
    "state": _state,
    "losses": _losses,
    "history": merged,
    "topics": list,
    "services": list,
    "links": list,
    "identities": list,
    "subscribers": lambda parts: [[sum(counts) for counts in zip(*parts, strict=True)]],
}


class Parts:
    """Answers of one process."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.functions: dict[str, Part] = {
            "metrics": lambda _by, _value: plain(server),
            "ready": lambda _by, _value: server.unready,
            "statistics": lambda _by, _value: statistics(server),
            "who": who(server),
            "users": users(server),
            "state": state(server),
            "losses": losses(server),
            "history": history(server),
            "kick": kick(server),
            "services": lambda _by, after: in_steps(server, served_here(server, after)),
            "links": lambda _by, _value: links_here(server),
            "identities": lambda _by, _value: identities(server),
            "topics": lambda _by, under: in_steps(server, counted_here(server, under)),
            "subscribers": lambda _by, prefixes: in_steps(server, subscribers_here(server, prefixes)),
            "audit": audited(server),
        }

    def answer(self, question: Any) -> Any:
        what, value, by = question
        asker: By = self._server.core.handlers.get(by.get("id", 0)) or by
        return self.functions[what](asker, value)


class Gathering:
    """Asks all processes, at the core: itself, and the `workers` by their numbers."""

    def __init__(
        self,
        server: Server,
        workers: Callable[[], Iterable[tuple[int, Control]]],
        counts: Callable[[int], WorkerCounts],
    ) -> None:
        self._server = server
        self._loop = server.loop
        self._workers = workers
        self._counts = counts
        self._tasks: set[asyncio.Task[None]] = set()
        self.parts = Parts(server)
        self.of_core: dict[str, Part] = {
            "alive": lambda _by, _value: server.clock_trouble,
            "stores": lambda _by, _value: server.stores.listed(),
            "nodes": nodes(server),
            "journal": journal(server),
            "settings": settings(server),
        }
        self.afterwards: dict[str, Callable[[By], None]] = {}  # What the core does once all have answered
        self.silent_total = 0  # Answers that did not come in time

    def ask(self, what: str, value: Any = None, by: Handler | None = None) -> Later:
        return self.answer([what, value, {} if by is None else who_did(by)])

    def answer(self, question: Any) -> Later:
        """Answer a question to a worker, or to the core."""
        later = Later()
        task = self._loop.create_task(self._gather(question, later), name="ask all processes")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return later

    async def _gather(self, question: Any, later: Later) -> None:
        what, value, by = question
        try:
            if what in self.of_core:
                later.give(await awaited(self.of_core[what](by or None, value)))
                return
            answers = await self._answers(question)
            counts = self._counts(self.silent_total)
            if what == "metrics":
                later.give(exposition_of_all(counts, answers))
            elif what == "ready":
                later.give(why_unready(counts, answers))
            else:
                parts = [answer for _, answer in answers]
                later.give(PAGES[what](parts, value) if what in PAGES else MERGES[what](parts))
            if what in self.afterwards:  # the asker has the answer by then
                self.afterwards[what](by)
        except HubError as error:
            later.fail(error)
        except Exception as error:
            self._server.log.exception(
                "a request to the hub failed because of a bug, please report it", error=repr(error)
            )
            later.fail(InternalError("a bug of the hub, please report it; its log has more"))

    async def _answers(self, question: Any) -> list[tuple[str, Any]]:
        """Return the answers of the processes by name, that of the core first; if there are none, raise the reason."""
        asked = {str(number): control.ask("part", question) for number, control in self._workers()}
        answers, reasons = [], []
        try:
            answers.append(("core", await awaited(self.parts.answer(question))))
        except HubError as error:
            reasons.append(error)
        if asked:
            await asyncio.wait(asked.values(), timeout=ANSWER_S)
        silent = 0
        for name, one in asked.items():
            if not one.done():
                one.cancel()
                silent += 1
            elif (failure := one.exception()) is None:
                answers.append((name, one.result()))
            elif not isinstance(failure, PeerError):  # that is a worker that is gone
                reasons.append(UsageError(str(failure)))
        self.silent_total += silent
        if not answers:
            raise reasons[0] if reasons else UsageError("no process of this hub has answered")
        return answers


class FromWorker:
    """Asks all processes, at a worker."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def ask(self, what: str, value: Any = None, by: Handler | None = None) -> Later:
        later = Later()
        asked = self._control.ask("whole", [what, value, {} if by is None else who_did(by)])
        limit = None
        if what not in _TAKES_ITS_TIME:
            limit = asked.get_loop().call_later(CORE_S, asked.cancel)

        def settle(asked: asyncio.Future[Any]) -> None:
            if limit is not None:
                limit.cancel()
            if asked.cancelled():
                later.fail(UsageError(f"the core of this hub has not answered within {CORE_S:g} s"))
                return
            error = asked.exception()
            if error is None:
                later.give(asked.result())
            else:
                later.fail(UsageError(str(error)))

        asked.add_done_callback(settle)
        return later


def share_services(server: Server, whole: Whole, others: Iterable[str] = ()) -> None:
    """Let a process answer questions of admins for the whole hub."""
    server.whole = whole
    services = server.core.requests.hub_services
    for what in (*_OF_ALL, "settings", *others):
        services.add(RESERVED + what, _asking(whole, what), for_admins=True)
    for what in _OF_ALL_BY_GRANT:
        services.add(RESERVED + what, _asking(whole, what))
    for topic, what in ((STORES_TOPIC, "stores"), (NODES_TOPIC, "nodes"), (JOURNAL_TOPIC, "journal")):
        services.add(topic, _asking(whole, what))


def _asking(whole: Whole, what: str) -> Callable[[Handler, Any], Later]:
    return lambda handler, value: whole.ask(what, value, handler)
