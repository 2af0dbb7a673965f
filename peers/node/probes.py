"""`Probes`: frames that take the way of a message to find out about it, and what hubs tell of them.

```
ask ─▶ Passing, behind what waits for each link ─▶ hear: what becomes of a message here? ─▶ tell, the way back
                                                         └─▶ Passing, to where a message would go on
```

A probe is taken, or not, as a message of its topic is that comes by the same link at the same time: by the upstream of
its origin and epoch, which it fixes as a message does, and by what the link may bring. It goes on by the same route,
and waits in the same queues; it goes to no subscriber. It never makes a queue drop anything, nor close: where there is
no room for it, it is not sent on, which is told.

What a hub tells goes back by the links on which the probe has come, which are remembered: so nobody is told of a probe
who has not sent it on, and nobody is believed to whom it was not sent.

Owner: the node. Invariants: no probe goes on twice at a hub. What is kept is bounded: `REMEMBERED` probes of others,
`AT_ONCE` of this hub. Cost: about 0.1 ms a probe; nothing for messages.

Not here: the bytes (`peers.wire.probe`), when a report is written (`peers.links.reports`), how long this hub waits for
them and what it makes of them (`peers.admin.probe`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple, Protocol

from hub.core import Core
from hub.errors import CloseCode, RejectedError, UsageError
from hub.handler import Handler
from hub.mesh.pace import Pace
from hub.origin import Origin
from hub.passing import Passing
from hub.prospect import Outcome, Prospect
from peers.node.accounts import Peer
from peers.node.asked_probe import REPORTS_LIMIT, AskedProbe, Passage
from peers.wire.probe import HOPS_LIMIT, LINKS_LIMIT, PROBE_BYTES, Probe, ProbeReport, encode_probe

__all__ = ["AT_ONCE", "BURST", "EVERY_S", "REMEMBERED", "ProbeLink", "Probes"]

AT_ONCE: Final = 16
"""Most probes of this hub whose reports are awaited at a time."""

BURST: Final = 20
EVERY_S: Final = 0.125
"""How many probes are passed on at once, for each link and for this hub itself, and then one in so many seconds: a
probe may make each hub of the mesh tell of it."""

REMEMBERED: Final = 1_024
"""Most probes of other hubs whose way back is remembered; the oldest goes first."""

_BUSY: Final = "busy"
_NUMBER_LIMIT: Final = 2**32 - 1
_LATEST_US: Final = 2**53


class ProbeLink(Protocol):
    """A link to a peer hub, with a mesh or without."""

    peer: Peer
    """The hub at its far side."""
    knows_probes: bool
    """Whether it is of a version that knows them."""

    def tell(self, report: ProbeReport) -> bool:
        """Tell the far side, ahead of messages that wait; return False if there is no room for it."""


class _Linked(NamedTuple):
    link: ProbeLink
    pace: Pace


class _Passed:
    """A probe of another hub that has gone on here."""

    __slots__ = ("back", "left", "sent")

    def __init__(self, back: Handler, sent: frozenset[Handler]) -> None:
        # The link by which it has come.
        self.back = back
        # Those by which it has gone on.
        self.sent = sent
        # How many more reports may go back.
        self.left = REPORTS_LIMIT


class Probes:
    """Those of one hub, and those that pass it.

    Args:
        core: Says what becomes of a message.
        clock_us: A clock that does not go back, µs; by it round trips are measured.
        wall_us: The time of day, µs since 1970.
    """

    __slots__ = (
        "_asked",
        "_clock_us",
        "_core",
        "_linked",
        "_numbers",
        "_pace",
        "_passed",
        "_wall_us",
        "asked_total",
        "dropped_reports_total",
        "passed_total",
        "refused_total",
        "reports_total",
    )

    def __init__(self, core: Core, clock_us: Callable[[], int], wall_us: Callable[[], int]) -> None:
        self._core = core
        self._clock_us = clock_us
        self._wall_us = wall_us
        # The links to peer hubs, from `join` to `leave`.
        self._linked: dict[Handler, _Linked] = {}
        # Origin and number → a probe of another hub, the oldest first.
        self._passed: dict[tuple[bytes, int], _Passed] = {}
        # Number → a probe of this hub, from `ask` to `end`.
        self._asked: dict[int, AskedProbe] = {}
        self._numbers = count(1)
        self._pace = Pace(BURST, EVERY_S)
        self.asked_total = 0
        """How many probes began here since the start."""
        self.passed_total = 0
        """How many of other hubs were taken as a message would be."""
        self.refused_total = 0
        """How many of other hubs were refused: too many, or such as cannot be. The others were not taken as messages
        would not be."""
        self.reports_total = 0
        """How many reports of other hubs were taken, or passed on."""
        self.dropped_reports_total = 0
        """How many were dropped: late, too many, or of what was not asked."""

    # Links.

    def join(self, handler: Handler, link: ProbeLink) -> None:
        """A link is up."""
        self._linked[handler] = _Linked(link, Pace(BURST, EVERY_S))

    def leave(self, handler: Handler) -> None:
        """A link is gone; it does no harm if it was none."""
        if self._linked.pop(handler, None) is not None:
            gone = [key for key, passed in self._passed.items() if passed.back is handler]
            for key in gone:
                del self._passed[key]

    def linked(self) -> dict[bytes, str]:
        """Return the names of the hubs that are linked with this one, by their ids."""
        return {one.link.peer.hub: one.link.peer.name for one in self._linked.values()}

    # Probes of this hub.

    @property
    def awaited(self) -> int:
        """How many probes of this hub are told of now."""
        return len(self._asked)

    def ask(self, topic: str) -> AskedProbe:
        """Send a probe on the way of a message that enters here.

        Args:
            topic: Of that message; checked.

        Returns:
            What is known of it; more comes until `end` is called with it.

        Raises:
            UsageError: There are too many.
        """
        now_us = self._clock_us()
        if len(self._asked) >= AT_ONCE:
            raise UsageError(f"{AT_ONCE} probes are on their way already: ask again")
        if not self._is_time(self._pace, now_us):
            raise UsageError(f"probes came too fast, {1 / EVERY_S:g} a second are sent in the long run: ask again")
        self.asked_total += 1
        number = next(self._numbers) & _NUMBER_LIMIT
        prospect = self._core.prospect(topic)
        passage = self._send_on(prospect, self._core.mesh.origin, Probe(number, topic, 1, 0), now_us, None)
        asked = self._asked[number] = AskedProbe(number, now_us, self._wall_us(), prospect, passage)
        return asked

    def end(self, asked: AskedProbe) -> None:
        """Nobody waits for more; it does no harm if that was said before."""
        self._asked.pop(asked.number, None)

    # What peers say.

    def hear(self, handler: Handler, told: Probe | ProbeReport) -> None:
        """Take what a link brings.

        Raises:
            RejectedError: It cannot be, and the far side is told so; nothing else follows.
        """
        linked = self._linked.get(handler)
        origin = handler.origin
        if linked is None or origin is None or not linked.link.knows_probes:
            raise RejectedError(
                CloseCode.NOT_ALLOWED, "ROUTING: a probe, of a hub that has not said that it knows them"
            )
        if isinstance(told, ProbeReport):
            self._hear_report(handler, told)
        else:
            self._hear_probe(handler, linked, origin, told)

    def _hear_probe(self, handler: Handler, linked: _Linked, origin: Origin, probe: Probe) -> None:
        self._check(origin.hub, probe)
        now_us = self._clock_us()
        prospect, passage = Prospect(Outcome.TAKEN), Passage((), frozenset(), 0)
        outcome: str = _BUSY
        if self._is_time(linked.pace, now_us):
            prospect = self._core.prospect(probe.topic, handler)
            outcome = prospect.outcome.value
        else:
            self.refused_total += 1
        if outcome == Outcome.TAKEN.value:
            self.passed_total += 1
            passage = self._send_on(prospect, origin, probe, now_us, handler)
            self._remember(origin.hub, probe.number, _Passed(handler, passage.sent))
        report = ProbeReport(
            origin=origin.hub,
            number=probe.number,
            hub=self._core.mesh.hub,
            before=linked.link.peer.hub,
            hops=probe.hops,
            waited_us=probe.waited_us,
            at_us=self._wall_us(),
            outcome=outcome,
            subscribers=prospect.subscribers,
            links=passage.links[:LINKS_LIMIT],
            unwanted=passage.unwanted,
        )
        self._tell(linked.link, report)

    def _check(self, origin: bytes, probe: Probe) -> None:
        """Look whether there can be such a probe.

        Raises:
            RejectedError: There cannot.
        """
        if origin == self._core.mesh.hub:
            why = "which is this hub itself"
        elif origin not in self._core.mesh.records:
            why = "which is not known here"
        elif (origin, probe.number) in self._passed:
            why = "which has come before"
        else:
            return
        self.refused_total += 1
        raise RejectedError(CloseCode.BAD_DATA, f"ROUTING: probe {probe.number} of hub {origin.hex()}, {why}")

    def _remember(self, origin: bytes, number: int, passed: _Passed) -> None:
        while len(self._passed) >= REMEMBERED:
            del self._passed[next(iter(self._passed))]
        self._passed[origin, number] = passed

    def _send_on(
        self, prospect: Prospect, origin: Origin, probe: Probe, since_us: int, source: Handler | None
    ) -> Passage:
        """Send a probe to where a message goes on.

        Args:
            prospect: Says where that is.
            origin: Where it has entered the mesh.
            probe: As it has come, or, where this hub asks, as it goes.
            since_us: When it has come.
            source: The link that has brought it; None where this hub asks.
        """
        hops = probe.hops + (source is not None)

        def made() -> bytes:
            waited_us = min(_LATEST_US, max(0, self._clock_us() - since_us))
            return encode_probe(Probe(probe.number, probe.topic, hops, waited_us))

        passing = Passing(made, PROBE_BYTES, origin)
        links: list[tuple[bytes, str]] = []
        sent: list[Handler] = []
        for handler in prospect.onward:
            linked = self._linked.get(handler)
            if linked is None:  # its connection is about to end
                continue
            if not linked.link.knows_probes:
                state = "earlier"
            elif hops > HOPS_LIMIT:
                state = "too far"
            elif not handler.has_room_for(passing):
                state = "full"
            else:
                state = "sent"
                handler.offer(passing)
                sent.append(handler)
            links.append((linked.link.peer.hub, state))
        links += [(self._linked[one].link.peer.hub, "policy") for one in prospect.barred if one in self._linked]
        leading = sum(one.is_meshed for one in (*prospect.onward, *prospect.barred))
        unwanted = len(self._core.mesh.links) - leading - (source is not None)
        return Passage(tuple(links), frozenset(sent), max(0, unwanted))

    def _hear_report(self, handler: Handler, report: ProbeReport) -> None:
        if report.origin == self._core.mesh.hub:
            asked = self._asked.get(report.number)
            is_other = report.hub != self._core.mesh.hub
            is_taken = asked is not None and is_other and asked.take(handler, report, self._clock_us())
            self.reports_total += is_taken
            self.dropped_reports_total += not is_taken
            return
        passed = self._passed.get((report.origin, report.number))
        if passed is None or handler not in passed.sent or not passed.left:
            self.dropped_reports_total += 1
            return
        passed.left -= 1
        self.reports_total += 1
        self._tell(self._linked[passed.back].link, report)

    def _tell(self, link: ProbeLink, report: ProbeReport) -> None:
        if not link.tell(report):
            self.dropped_reports_total += 1

    @staticmethod
    def _is_time(pace: Pace, now_us: int) -> bool:
        """Return whether one more may be sent on now; if so, it is."""
        now_s = now_us / 1e6
        if pace.ready_s(now_s) > now_s:
            return False
        pace.use(now_s)
        return True
