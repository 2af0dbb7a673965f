"""`probe`: the way of a topic's messages through the mesh, and how long each part of it takes, found out by a probe.

```
topic ─▶ node.probes.ask ─▶ reports, until all have come or the time is over ─┐
           what this hub knows of the mesh: who else should have had it ──────┴─▶ a row for each hub
```

Asked as `$hub/mesh/probe`, by admins: it tells whether anybody anywhere wants a topic, and what policies keep back.

**What is measured**, and what is derived: `round_trip_ms` is measured by the clock of this hub alone, from when the
probe began to when the report has come; `waited_ms` by the clock of the hub before, from when the probe came there to
when it was written, behind the messages that waited. `link_ms` is what is left of the round trip if that of the hub
before, and the wait there, are taken off: both ways over one link, and what both hubs take to read. So clocks that
differ do no harm. `at` is the clock of the hub that tells, as it is.

Owner: nobody; the timer is the loop's. Cost: see `peers.node.probes`; about 5 µs for each hub of the answer. Not here:
hubs without a mesh are rows only where this hub is linked with them; subscriptions by labels, names, requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from hub.errors import UsageError
from hub.handler import Handler
from hub.mesh.tree import passed
from hub.prospect import Outcome
from hub.requests.hub_services import Function
from hub.requests.later import Later
from hub.topics import RESERVED, check_topic
from peers.node.asked_probe import AskedProbe, Reported
from peers.node.node import Node

__all__ = ["ROWS_LIMIT", "USUAL_WAIT_S", "WAIT_LIMIT_S", "probe"]

USUAL_WAIT_S: Final = 2.0
"""How long reports are waited for, unless the question says something else, seconds."""

WAIT_LIMIT_S: Final = 10.0
"""The longest that they are waited for."""

_LEAST_WAIT_S: Final = 0.01

ROWS_LIMIT: Final = 5_000
"""Most hubs in an answer: more than a mesh has by default (`hub.limits`), whatever hubs tell of others."""


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    wait: float = USUAL_WAIT_S


def probe(node: Node) -> Function:
    """Return the service.

    It takes a map with `topic`, and perhaps `wait`, seconds. It gives a list of maps, the hub that was asked first, and
    each other hub behind the one before it.
    """

    def answer(_: Handler, value: Any) -> Any:
        question = _question(value)
        asked = node.probes.ask(question.topic)
        if asked.is_complete:
            node.probes.end(asked)
            return _rows(node, question.topic, asked)
        later = Later()

        def end() -> None:
            timer.cancel()
            asked.on_complete = None  # it knows of this function, which knows of it
            node.probes.end(asked)
            later.give(_rows(node, question.topic, asked))

        timer = node.loop.call_later(question.wait, end)
        asked.on_complete = end
        return later

    return answer


def _question(value: Any) -> _Question:
    try:
        question = msgspec.convert(value, _Question)
    except msgspec.ValidationError as error:
        raise UsageError(f"expected a map with `topic`, and `wait`, seconds: {error}") from error
    if not _LEAST_WAIT_S <= question.wait <= WAIT_LIMIT_S:
        raise UsageError(f"wait {question.wait:g}: expected {_LEAST_WAIT_S:g} to {WAIT_LIMIT_S:g} seconds")
    if question.topic.startswith(RESERVED):
        raise UsageError(f"topics under {RESERVED} are each hub's own: they do not cross links")
    check_topic(question.topic)
    return question


def _rows(node: Node, topic: str, asked: AskedProbe) -> list[dict[str, Any]]:
    found = _Found(node, asked)
    return (found.reported() + found.named() + found.expected(topic))[:ROWS_LIMIT]


class _Found:
    """The rows of one answer; each hub has one."""

    def __init__(self, node: Node, asked: AskedProbe) -> None:
        self._node = node
        self._asked = asked
        self._names = node.probes.linked() | {hub: record.name for hub, record in node.core.mesh.records.items()}
        # The hubs that have a row.
        self._seen: set[bytes] = set()
        # Hub → the links that it has told of.
        self._links = {node.id: asked.passage.links} | {hub: one.report.links for hub, one in asked.reported.items()}

    def _row(self, hub: bytes, before: bytes | None, hops: int | None, outcome: str, **told: Any) -> dict[str, Any]:
        self._seen.add(hub)
        untold = dict.fromkeys(("subscribers", "round_trip_ms", "waited_ms", "link_ms", "at", "links", "unwanted"))
        return (
            {
                "hub": hub.hex(),
                "name": self._names.get(hub, ""),
                "own": hub == self._node.id,
                "before": None if before is None else before.hex(),
                "hops": hops,
                "outcome": outcome,
            }
            | untold
            | told
        )

    def reported(self) -> list[dict[str, Any]]:
        """Return rows of this hub, and of those that have told of the probe, the nearest first."""
        asked = self._asked
        own = self._row(
            self._node.id,
            None,
            0,
            asked.prospect.outcome.value,
            subscribers=asked.prospect.subscribers,
            round_trip_ms=0.0,
            at=asked.at_us / 1e6,
            links=self._told_links(asked.passage.links),
            unwanted=asked.passage.unwanted,
        )
        nearest = sorted(asked.reported.values(), key=lambda one: (one.report.hops, one.report.hub))
        return [own, *(self._reported(one) for one in nearest)]

    def _reported(self, one: Reported) -> dict[str, Any]:
        report = one.report
        before = self._asked.reported.get(report.before)
        known_us = 0 if report.before == self._node.id else None if before is None else before.round_trip_us
        link_us = None if known_us is None else max(0, one.round_trip_us - known_us - report.waited_us)
        return self._row(
            report.hub,
            report.before,
            report.hops,
            report.outcome,
            subscribers=report.subscribers if report.outcome == Outcome.TAKEN else None,
            round_trip_ms=one.round_trip_us / 1e3,
            waited_ms=report.waited_us / 1e3,
            link_ms=None if link_us is None else link_us / 1e3,
            at=report.at_us / 1e6,
            links=self._told_links(report.links),
            unwanted=report.unwanted,
        )

    def _told_links(self, links: Iterable[tuple[bytes, str]]) -> list[dict[str, str]]:
        return [{"hub": hub.hex(), "name": self._names.get(hub, ""), "state": state} for hub, state in links]

    def named(self) -> list[dict[str, Any]]:
        """Return rows of hubs that others have told of, and that have told nothing themselves."""
        rows: list[dict[str, Any]] = []
        for before, links in self._links.items():
            one = self._asked.reported.get(before)
            hops = 1 + (0 if one is None else one.report.hops)
            for hub, state in links:
                if hub not in self._seen and len(rows) < ROWS_LIMIT:
                    rows.append(self._row(hub, before, hops, "silent" if state == "sent" else state))
        return rows

    def expected(self, topic: str) -> list[dict[str, Any]]:
        """Return rows of further hubs that should have had it, as far as this hub knows; nearest first."""
        mesh = self._node.core.mesh
        tree = mesh.graph.tree
        wanting = self._node.core.routes.find(topic).far
        on_the_way = passed(tree, wanting)
        hops = {self._node.id: 0}
        rows: list[dict[str, Any]] = []
        for hub, before in tree.items():
            if hub in on_the_way and hub != self._node.id:
                hops[hub] = hops.get(before, 0) + 1
                if hub not in self._seen:
                    rows.append(self._row(hub, before, hops[hub], "not reached"))
        return rows + [self._row(hub, None, None, "unreachable") for hub in wanting if hub not in self._seen]
