"""Which messages of links are taken, and who here is told of those that are lost."""

from __future__ import annotations

import pytest

from hub.delivery import Role
from hub.handler import Handler
from hub.intake import Gaps, Intake
from hub.mesh.upstream import Upstreams
from hub.origin import Origin
from tests.hub.fakes import Turn, handler_of

FAR = b"f" * 16
OLD, NEW = Origin(FAR, 1), Origin(FAR, 2)


class FakeTraffic:
    """Takes what its upstreams do, of hubs that are all known; remembers what was refused."""

    def __init__(self) -> None:
        self.upstreams: Upstreams[Handler] = Upstreams()
        self.refused: list[tuple[Origin, int]] = []

    def accepts(self, link: Handler, origin: bytes, epoch: int) -> bool:
        """Ask the upstreams alone."""
        return self.upstreams.accepts(link, origin, epoch)

    def is_lost(self, link: Handler, origin: bytes, epoch: int) -> bool:
        """Ask the upstreams alone."""
        return self.upstreams.is_lost(link, origin, epoch)

    def refuse(self, _: Handler, origin: Origin, messages: int) -> None:
        """Remember it."""
        self.refused.append((origin, messages))

    def way(self, _: Handler, origin: bytes) -> bytes:
        """Lead where the hub's messages go, whatever link brings them."""
        return origin


class Links:
    """Two links to other hubs, and a subscriber of this one."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.subscriber, self.outlet = self.turn.join("/a")
        self.traffic = FakeTraffic()
        self.dirty: list[Gaps] = []
        self.intake = Intake(self.traffic, Gaps(self.dirty.append))  # type: ignore[arg-type]
        self.one, self.other = handler_of(role=Role.LINK), handler_of(role=Role.LINK)

    def bring(self, link: Handler, origin: Origin | None, messages: int = 1) -> bool:
        """Have a link bring messages of a topic, as the core does."""
        link.origin = origin
        if self.intake.accepts(link, messages):
            return True
        self.intake.tell_gaps(link, [(self.turn.core.routes.find("/a"), messages)])
        return False

    def gaps(self) -> list[int]:
        """End the read; return the gaps that the subscriber was told of."""
        for gaps in self.dirty:
            gaps.flush()
        self.dirty.clear()
        self.turn.core.flush()
        return self.outlet.gaps


@pytest.fixture
def links() -> Links:
    """A hub with two links."""
    return Links()


def test_what_is_taken_is_remembered_on_the_link(links: Links) -> None:
    """With its way, as long as no upstream changes."""
    assert links.bring(links.one, OLD)
    assert (links.one.accepted_at, links.one.way) == (links.traffic.upstreams.turnover, FAR)
    assert links.bring(links.other, NEW)
    assert links.one.accepted_at != links.traffic.upstreams.turnover
    assert links.traffic.refused == []
    assert links.gaps() == []


def test_a_link_that_says_nothing_of_origins_is_believed(links: Links) -> None:
    """What it brings goes no further."""
    links.one.way = FAR
    assert links.bring(links.one, None)
    assert links.one.way is None
    assert not links.intake.is_lost(links.one)


def test_what_was_overtaken_is_a_gap(links: Links) -> None:
    """Of all that a read has brought, once; and it has arrived, as far as the link is concerned."""
    links.bring(links.one, OLD)
    links.bring(links.other, NEW)
    assert not links.bring(links.one, OLD, 3)
    assert not links.bring(links.one, OLD, 4)
    assert links.intake.is_lost(links.one)
    assert links.traffic.refused == [(OLD, 3), (OLD, 4)]
    assert links.one.published_messages == 7
    assert links.gaps() == [7]


def test_what_may_come_by_another_link_is_no_gap(links: Links) -> None:
    """Nobody can tell whether it was lost."""
    links.bring(links.one, OLD)
    assert not links.bring(links.other, OLD, 3)
    assert links.traffic.refused == [(OLD, 3)]
    assert links.gaps() == []


def test_what_a_link_may_not_bring_is_missed_by_nobody(links: Links) -> None:
    """It would not have got here either."""
    links.bring(links.one, OLD)
    links.bring(links.other, NEW)
    links.one.publishes_in = frozenset()
    assert not links.bring(links.one, OLD)
    assert links.gaps() == []
