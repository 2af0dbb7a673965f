"""`Probes`: what passes a hub, what it tells of it, and what it does not believe."""

from __future__ import annotations

import pytest

from hub.batch import Batch
from hub.delivery import Role
from hub.errors import CloseCode, RejectedError, UsageError
from hub.frame import HEADER_BYTES
from hub.handler import Handler
from hub.mesh.announcement import Announcement
from hub.origin import Origin
from hub.overflow import Overflow, QueueLimits
from hub.policy.language import read_policy
from peers.node.accounts import Peer
from peers.node.asked_probe import REPORTS_LIMIT, AskedProbe
from peers.node.probes import AT_ONCE, BURST, REMEMBERED, Probes
from peers.wire.probe import HOPS_LIMIT, LINKS_LIMIT, Probe, ProbeReport
from peers.wire.routing import decode_routing
from tests.hub.fakes import FakeOutlet, Turn, publish

HERE, WEST, EAST, NORTH = b"h" * 16, b"w" * 16, b"e" * 16, b"n" * 16
WALL_US = 1_700_000_000_000_000


class FakeLink:
    """Remembers what is told by it."""

    def __init__(self, far: bytes, *, knows_probes: bool = True) -> None:
        self.peer = Peer(far, far.decode()[0], "")
        self.knows_probes = knows_probes
        self.has_room = True
        self.told: list[ProbeReport] = []

    def tell(self, report: ProbeReport) -> bool:
        """Take a report, if there is room."""
        if self.has_room:
            self.told.append(report)
        return self.has_room


class Middle:
    """A hub between others, which are what the test says: west and east, and their links here."""

    def __init__(self) -> None:
        self.now_us = 1_000_000
        self.turn = Turn(hub_id=HERE)
        self.core = self.turn.core
        self.probes = Probes(self.core, lambda: self.now_us, lambda: WALL_US)
        self.links: dict[bytes, FakeLink] = {}
        self.handlers: dict[bytes, Handler] = {}
        self.outlets: dict[bytes, FakeOutlet] = {}

    def link(
        self, far: bytes, *wanted: str, knows_probes: bool = True, overflow: Overflow = Overflow.DROP_OLDEST
    ) -> None:
        """Link another hub, which wants something."""
        handler, outlet = self.turn.join(role=Role.LINK, messages=3, overflow=overflow)
        self.core.link(handler, far, lambda: None)
        link = FakeLink(far, knows_probes=knows_probes)
        self.probes.join(handler, link)
        self.links[far], self.handlers[far], self.outlets[far] = link, handler, outlet
        self.tell(far, far, (HERE,), *wanted)

    def tell(self, link: bytes, hub: bytes, neighbours: tuple[bytes, ...], *wanted: str) -> None:
        """Let a hub be announced by a link."""
        links = tuple((one, 1) for one in neighbours)
        self.core.mesh.hear(self.handlers[link], Announcement(hub, 0, 9, hub.decode()[0], links, wanted))
        self.core.mesh.check(0.0)
        self.core.flush()

    def hear(self, link: bytes, told: Probe | ProbeReport, origin: Origin | None = None) -> None:
        """Let a link bring something."""
        handler = self.handlers[link]
        handler.bring_from(origin or Origin(link, 1))
        self.probes.hear(handler, told)
        self.core.flush()

    def sent(self, far: bytes) -> list[Probe | ProbeReport | object]:
        """What was written to a link and is no message."""
        outlet = self.outlets[far]
        return [decode_routing(one.frames[HEADER_BYTES:]) for one in outlet.batches if not one.messages]

    def asked(self, topic: str = "/a") -> AskedProbe:
        """Ask."""
        asked = self.probes.ask(topic)
        self.core.flush()
        return asked


@pytest.fixture
def middle() -> Middle:
    """A hub that has a subscriber; west wants nothing, and east wants the same as that."""
    middle = Middle()
    middle.link(WEST)
    middle.link(EAST, "/a")
    middle.turn.join("/a")
    return middle


def report_of(hub: bytes, before: bytes, number: int, *links: bytes, origin: bytes = HERE) -> ProbeReport:
    """What a hub tells."""
    return ProbeReport(origin, number, hub, before, 1, 0, WALL_US, "taken", 0, tuple((one, "sent") for one in links), 0)


# What passes.


def test_it_goes_where_a_message_goes(middle: Middle) -> None:
    """On to who wants it, with one hop more and the time that it was here; and what it was like is told back."""
    middle.hear(WEST, Probe(5, "/a/b", 3, 77))
    assert middle.sent(EAST) == [Probe(5, "/a/b", 4, 0)]
    assert middle.sent(WEST) == []
    assert middle.outlets[EAST].batches[0].origin == Origin(WEST, 1)
    told = ProbeReport(WEST, 5, HERE, WEST, 3, 77, WALL_US, "taken", 1, ((EAST, "sent"),), 0)
    assert middle.links[WEST].told == [told]
    assert middle.probes.passed_total == 1
    middle.hear(WEST, Probe(6, "/b", 1, 0))
    assert middle.links[WEST].told[1].links == ()
    assert middle.links[WEST].told[1].unwanted == 1
    assert len(middle.sent(EAST)) == 1


def test_no_subscriber_gets_it(middle: Middle) -> None:
    """It is for hubs alone."""
    _, outlet = middle.turn.join("")
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    middle.asked()
    assert outlet.told == []


def test_it_waits_where_messages_wait(middle: Middle) -> None:
    """Behind those that came before it, for as long; the clock of this hub says how long that was."""
    middle.handlers[EAST].pause()
    publish(middle.core, "/a", "before")
    asked = middle.asked()
    publish(middle.core, "/a", "behind")
    middle.now_us += 5_000
    middle.handlers[EAST].resume()
    before, probe, behind = middle.outlets[EAST].batches
    assert [before.messages, probe.messages, behind.messages] == [1, 0, 1]
    assert middle.sent(EAST) == [Probe(asked.number, "/a", 1, 5_000)]


@pytest.mark.parametrize("overflow", Overflow)
def test_a_queue_that_is_full(overflow: Overflow) -> None:
    """Nothing is lost for a probe: it is not sent, and that is told."""
    middle = Middle()
    middle.link(WEST)
    middle.link(EAST, "/a", overflow=overflow)
    east = middle.handlers[EAST]
    east.pause()
    whole = Batch.of("/a", ["x" * 100]).size_bytes
    east.limits = QueueLimits(messages=3, bytes=whole, overflow=overflow)
    publish(middle.core, "/a", "x" * 100)
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    assert middle.links[WEST].told[0].links == ((EAST, "full"),)
    assert (east.closed, east.dropped_messages, east.queued_messages) == (False, 0, 1)


def test_a_hub_that_knows_no_probes() -> None:
    """It is told of, and no probe goes there."""
    middle = Middle()
    middle.link(WEST)
    middle.link(EAST, "/a", knows_probes=False)
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    assert middle.links[WEST].told[0].links == ((EAST, "earlier"),)
    assert middle.sent(EAST) == []
    with pytest.raises(RejectedError, match="has not said that it knows them") as refused:
        middle.hear(EAST, Probe(1, "/a", 1, 0))
    assert refused.value.code == CloseCode.NOT_ALLOWED


def test_too_many_hops(middle: Middle) -> None:
    """It ends here."""
    middle.hear(WEST, Probe(1, "/a", HOPS_LIMIT, 0))
    assert middle.links[WEST].told[0].links == ((EAST, "too far"),)
    assert middle.sent(EAST) == []


def test_many_links() -> None:
    """It goes to all of them; the first are told of."""
    middle = Middle()
    middle.link(WEST)
    for number in range(LINKS_LIMIT + 3):
        middle.link(b"%16d" % number, "/a")
    middle.core.mesh.check(1.0)  # so many links are announced together, and are used from then on
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    assert all(len(middle.sent(far)) == 1 for far in middle.links if far != WEST)
    assert len(middle.links[WEST].told[0].links) == LINKS_LIMIT


# What is not taken.


def test_epochs(middle: Middle) -> None:
    """It is taken as a message is: from the upstream of its epoch, which it may be the first to fix."""
    middle.tell(WEST, NORTH, (WEST, EAST))
    told = middle.links[EAST].told
    middle.hear(WEST, Probe(1, "/a", 1, 0), Origin(NORTH, 5))
    middle.hear(EAST, Probe(2, "/a", 1, 0), Origin(NORTH, 5))
    assert told[-1].outcome == "another way"
    middle.hear(EAST, Probe(3, "/a", 1, 0), Origin(NORTH, 6))
    assert told[-1].outcome == "taken"
    middle.hear(WEST, Probe(4, "/a", 1, 0), Origin(NORTH, 5))
    assert middle.links[WEST].told[-1].outcome == "overtaken"
    assert middle.links[WEST].told[-1].links == ()
    assert middle.core.mesh.traffic.overtaken_messages == middle.core.mesh.traffic.repeated_messages == 0
    assert (middle.probes.passed_total, middle.probes.refused_total) == (2, 0)


def test_policies(middle: Middle) -> None:
    """What a link may not bring is not taken, and what it may not take is not sent; both are told."""
    roles = {
        "west": {"link": {"bring": ["/a"], "take": ["*"]}},
        "east": {"link": {"bring": ["*"], "take": ["/b"]}},
    }
    policy = read_policy({"roles": roles}, "a test")
    middle.core.authority.adopt(policy)
    for far, role in ((WEST, "west"), (EAST, "east")):
        middle.core.authority.give_rights(middle.handlers[far], policy.rights(role, (role,)))
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    middle.hear(WEST, Probe(2, "/b", 1, 0))
    taken, kept_back = middle.links[WEST].told
    assert (taken.outcome, taken.links, taken.unwanted) == ("taken", ((EAST, "policy"),), 0)
    assert (kept_back.outcome, kept_back.subscribers) == ("policy", 0)
    assert middle.sent(EAST) == []
    assert middle.asked().passage.links == ((EAST, "policy"),)


ODD = {
    "of this hub itself": (Origin(HERE, 1), "which is this hub itself"),
    "of a hub that nobody knows": (Origin(b"x" * 16, 1), "which is not known here"),
    "again": (Origin(WEST, 1), "which has come before"),
}


@pytest.mark.parametrize(("origin", "why"), ODD.values(), ids=ODD.keys())
def test_what_cannot_be(middle: Middle, origin: Origin, why: str) -> None:
    """Is refused with one line, counted, and goes nowhere."""
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    with pytest.raises(RejectedError, match=why) as refused:
        middle.hear(WEST, Probe(1, "/a", 1, 0), origin)
    assert "\n" not in refused.value.text
    assert middle.probes.refused_total == 1
    assert len(middle.sent(EAST)) == len(middle.links[WEST].told) == 1


def test_too_many_at_once(middle: Middle) -> None:
    """Those of one link are passed on at a pace; further ones are told of as busy. Each link has a pace of its own."""
    for number in range(BURST + 5):
        middle.hear(WEST, Probe(number, "/a", 1, 0))
    outcomes = [one.outcome for one in middle.links[WEST].told]
    assert outcomes == ["taken"] * BURST + ["busy"] * 5
    assert middle.probes.refused_total == 5
    assert len(middle.sent(EAST)) == BURST
    middle.hear(EAST, Probe(1, "/a", 1, 0))
    assert middle.links[EAST].told[0].outcome == "taken"
    middle.now_us += 200_000
    middle.hear(WEST, Probe(99, "/a", 1, 0))
    assert middle.links[WEST].told[-1].outcome == "taken"


# The way back.


def test_reports_go_back_the_way_of_the_probe(middle: Middle) -> None:
    """Of what was sent on, by the link that it was sent on; nothing else is believed."""
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    report = report_of(NORTH, EAST, 1, origin=WEST)
    middle.hear(EAST, report)
    assert middle.links[WEST].told[1:] == [report]
    for link, odd in (
        (WEST, report),
        (EAST, report_of(NORTH, EAST, 2, origin=WEST)),
        (EAST, report_of(NORTH, EAST, 1, origin=EAST)),
    ):
        middle.hear(link, odd)
    assert middle.links[WEST].told[2:] == []
    assert (middle.probes.reports_total, middle.probes.dropped_reports_total) == (1, 3)


def test_endless_reports(middle: Middle) -> None:
    """So many go back as there may be hubs; and none where there is no room."""
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    for number in range(REPORTS_LIMIT + 5):
        middle.hear(EAST, report_of(b"%16d" % number, EAST, 1, origin=WEST))
    assert len(middle.links[WEST].told) == 1 + REPORTS_LIMIT
    assert middle.probes.dropped_reports_total == 5
    middle.links[WEST].has_room = False
    middle.hear(WEST, Probe(2, "/a", 1, 0))
    assert middle.probes.dropped_reports_total == 6


def test_only_so_many_are_remembered(middle: Middle) -> None:
    """The way back of the oldest is forgotten first."""
    for number in range(REMEMBERED + 1):
        middle.now_us += 1_000_000
        middle.hear(WEST, Probe(number, "/a", 1, 0))
    told = middle.links[WEST].told
    told.clear()
    middle.hear(EAST, report_of(NORTH, EAST, 0, origin=WEST))
    assert told == []
    middle.hear(EAST, report_of(NORTH, EAST, 1, origin=WEST))
    assert len(told) == 1


def test_a_link_that_is_gone(middle: Middle) -> None:
    """Nothing is kept of it; what was on its way back is dropped."""
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    gone = middle.handlers[WEST]
    middle.probes.leave(gone)
    middle.probes.leave(gone)
    middle.hear(EAST, report_of(NORTH, EAST, 1, origin=WEST))
    assert len(middle.links[WEST].told) == 1
    assert middle.probes.dropped_reports_total == 1
    assert middle.probes.linked() == {EAST: "e"}


# Those of this hub.


def test_round_trips(middle: Middle) -> None:
    """Are measured by the clock of the hub that asks. It is complete when all have told that it was sent to."""
    middle.tell(EAST, NORTH, (EAST,), "/a")
    completed: list[bool] = []
    asked = middle.asked()
    asked.on_complete = lambda: completed.append(True)
    assert asked.passage.links == ((EAST, "sent"),)
    middle.now_us += 300
    middle.hear(EAST, report_of(EAST, HERE, asked.number, NORTH))
    assert not completed
    middle.now_us += 400
    middle.hear(EAST, report_of(NORTH, EAST, asked.number))
    assert completed == [True]
    assert [(hub, one.round_trip_us) for hub, one in asked.reported.items()] == [(EAST, 300), (NORTH, 700)]


def test_reports_that_nobody_waits_for(middle: Middle) -> None:
    """By another link, twice, of this hub itself, of another probe, or too late: dropped, and counted."""
    asked = middle.asked()
    report = report_of(EAST, HERE, asked.number)
    middle.hear(WEST, report)
    middle.hear(EAST, report_of(HERE, EAST, asked.number))
    middle.hear(EAST, report_of(EAST, HERE, asked.number + 1))
    assert not asked.is_complete
    middle.hear(EAST, report)
    middle.hear(EAST, report)
    assert asked.is_complete
    middle.probes.end(asked)
    middle.probes.end(asked)
    middle.hear(EAST, report_of(NORTH, EAST, asked.number))
    assert list(asked.reported) == [EAST]
    assert (middle.probes.reports_total, middle.probes.dropped_reports_total) == (1, 5)


def test_so_many_hubs_may_tell(middle: Middle) -> None:
    """Further ones are dropped."""
    asked = middle.asked()
    for number in range(REPORTS_LIMIT + 2):
        middle.hear(EAST, report_of(b"%16d" % number, EAST, asked.number))
    assert len(asked.reported) == REPORTS_LIMIT
    assert middle.probes.dropped_reports_total == 2


def test_asking_too_often(middle: Middle) -> None:
    """So many at a time, and at a pace."""
    asked = [middle.asked() for _ in range(AT_ONCE)]
    with pytest.raises(UsageError, match="16 probes are on their way already"):
        middle.asked()
    for one in asked:
        middle.probes.end(one)
    for _ in range(BURST - AT_ONCE):
        middle.probes.end(middle.asked())
    with pytest.raises(UsageError, match="8 a second are sent in the long run"):
        middle.asked()
    middle.now_us += 1_000_000
    middle.asked()
    assert middle.probes.asked_total == BURST + 1


def test_a_hub_without_links() -> None:
    """There is nothing to wait for."""
    middle = Middle()
    middle.turn.join("/a")
    asked = middle.asked()
    assert (asked.is_complete, asked.prospect.subscribers, asked.passage.links) == (True, 1, ())


def test_a_leaf_that_is_left_to_another_hub(middle: Middle) -> None:
    """Nothing goes there, so it does not count."""
    leaf, _ = middle.turn.join("/a", role=Role.LEAF)
    assert middle.asked().prospect.subscribers == 2
    leaf.leave_out(left=True)
    assert middle.asked().prospect.subscribers == 1


def test_a_hub_without_a_mesh() -> None:
    """It gets what enters here, and is told of as of an earlier version; nothing that passes goes there."""
    middle = Middle()
    middle.link(WEST)
    handler, _ = middle.turn.join("/a", role=Role.LINK)
    middle.probes.join(handler, FakeLink(NORTH, knows_probes=False))
    assert middle.asked().passage.links == ((NORTH, "earlier"),)
    middle.hear(WEST, Probe(1, "/a", 1, 0))
    assert middle.links[WEST].told[0].links == ()
