"""`MERGES`: how the answers of several processes of a hub become one. Pure functions; no state.

Each takes the answers of the processes that have answered, that of the core first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from hub.quotas import USERS_SHOWN
from hub.statistics.history import merged
from hub.statistics.losses import KEPT, State
from peers.admin import access
from peers.admin import who as all_who
from peers.server.metrics import registry

# Metrics as msgpack carries them: name, text, type, and samples with name, labels and value.
Plain = list[tuple[str, str, str, list[tuple[str, dict[str, str], float]]]]


class WorkerCounts(NamedTuple):
    """Numbers of workers."""

    up: int
    limit: int
    started_total: int
    ended_total: int
    silent_total: int


def plain(node: Any) -> Plain:
    return [
        (one.name, one.documentation, one.type, [(sample.name, sample.labels, sample.value) for sample in one.samples])
        for one in registry(node).collect()
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
    whole.register(_Collected([*worker_metrics(counts), *found.values()]))
    return generate_latest(whole)


class _Collected:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        return self._families


def worker_metrics(counts: WorkerCounts) -> Iterator[Metric]:
    yield GaugeMetricFamily("hub_workers", "Workers that serve.", value=counts.up)
    yield GaugeMetricFamily("hub_workers_limit", "Configured number of workers.", value=counts.limit)
    yield CounterMetricFamily("hub_workers_started", "Worker processes started.", value=counts.started_total)
    yield CounterMetricFamily(
        "hub_workers_ended", "Worker processes ended, except because the hub stops.", value=counts.ended_total
    )
    yield CounterMetricFamily(
        "hub_workers_silent", "Answers of workers that did not arrive in time.", value=counts.silent_total
    )


def merged_page(parts: Sequence[list[dict[str, Any]]], value: Any = None) -> list[dict[str, Any]]:
    """Return the page of all: each has the first behind the same id, and no two have one id."""
    rows = sorted((row for part in parts for row in part), key=lambda row: row["id"])
    return rows[: all_who.limit_of(value)]


def _audited(parts: Sequence[list[dict[str, Any]]], value: Any) -> list[dict[str, Any]]:
    """Return the newest events of all: as many as are asked for, and those of the same moment as the last."""
    events = sorted((event for part in parts for event in part), key=lambda event: -event["at"])
    limit = access.events_limit(value)
    return [event for place, event in enumerate(events) if place < limit or event["at"] == events[limit - 1]["at"]]


# What is added up of a user; his roles are those that somebody has recognised him with.
_SUMMED = ("connections", "queued_bytes", "published_messages", "dropped_messages")


def _users(parts: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the page of all: of those users who are in it, each process has told what they have there."""
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for row in part:
            before = found.get(row["user"])
            found[row["user"]] = row if before is None else _same_user(before, row)
    return [found[name] for name in sorted(found)[: access.USERS]]


def _same_user(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    sums = {name: one[name] + other[name] for name in _SUMMED}
    return dict(one) | sums | {"roles": sorted({*one["roles"], *other["roles"]})}


def _kicked(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    return {"kicked": sum(part["kicked"] for part in parts)}


def _drained(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return how many clients there are, and how long the slowest takes."""
    return {
        "clients": sum(part["clients"] for part in parts),
        "seconds": max((part["seconds"] for part in parts), default=0.0),
    }


def _statistics(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return all handlers; name and clock are those of the first process, which is the core."""
    return dict(parts[0]) | {
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
    """Return the losses of all, the newest first, as many as one process has room for."""
    return sorted((loss for part in parts for loss in part), key=lambda loss: -loss["at"])[:KEPT]


def _added(parts: Sequence[Sequence[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*parts, strict=True)]


_NOBODY: Final = {"user": "", "users": 0, "held": {}, "refused_total": 0, "held_back_s": 0.0}


def _largest(shares: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add up what users hold, those who hold most first; the others, who have no name, are one row at the end."""
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
    """Return why the hub is not ready, empty if it is; `parts` has the same of each process."""
    for name, reason in parts:
        if reason:
            return reason if name == "core" else f"worker {name}: {reason}"
    answered = len({name for name, _ in parts} - {"core"})
    return "" if answered >= counts.limit else f"{answered} of {counts.limit} workers serve"


# Those that depend on what was asked, by what that was; they are told its value, too.
PAGES: Final[Mapping[str, Callable[[Sequence[Any], Any], Any]]] = {"who": merged_page, "audit": _audited}

# By what was asked. What topics bring, and who serves what, is put together by the process that was asked
# (`peers.admin`): the core has enough to do. Identities are judged by a reload.
MERGES: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "users": _users,
    "kick": _kicked,
    "drain": _drained,
    "statistics": _statistics,
    "state": _state,
    "losses": _losses,
    "history": merged,
    "topics": list,
    "services": list,
    "links": list,
    "identities": list,
    "subscribers": _added,
}
