"""`Reports`: what is told of probes waits, in its order and bounded, until the peer reads."""

from __future__ import annotations

import msgspec
import pytest

from hub.frame import HEADER_BYTES
from peers.links.reports import WAITING_LIMIT, Reports
from peers.wire.probe import ProbeReport, encode_probe
from peers.wire.routing import decode_routing
from tests.wire.pair import frames_of

_HUB, _OTHER = b"h" * 16, b"o" * 16


def report(number: int, links: int = 0) -> ProbeReport:
    """One of many."""
    told = tuple((bytes([link]) * 16, "sent") for link in range(links))
    return ProbeReport(_HUB, number, _OTHER, _HUB, 1, 0, 0, "taken", 0, told, 0)


def taken(reports: Reports) -> list[object]:
    """The next portion."""
    return [decode_routing(frame.body) for frame in frames_of(reports.take())]


def test_they_go_in_their_order() -> None:
    """In portions; whoever writes is told while there is more."""
    due: list[Reports] = []
    reports = Reports(due.append, 1 << 20)
    told = [report(number, links=number % 3) for number in range(100)]
    assert all(reports.tell(one) for one in told)
    due.clear()
    first = taken(reports)
    assert due == [reports]
    assert first + taken(reports) == told
    assert due == [reports]
    assert reports.take() == b""


def test_so_many_wait() -> None:
    """Further ones are not taken, until there is room."""
    reports = Reports(lambda _: None, 1 << 20)
    assert all(reports.tell(report(number)) for number in range(WAITING_LIMIT))
    assert not reports.tell(report(1))
    reports.take()
    assert reports.tell(report(1))


@pytest.mark.parametrize(("spare_bytes", "links"), [(0, 9), (-1, 0)])
def test_small_frames(spare_bytes: int, links: int) -> None:
    """What is too large for the peer is told without links, and, where that is too large, too, not at all."""
    whole = report(1, links=9)
    reports = Reports(lambda _: None, len(encode_probe(whole)) - HEADER_BYTES + spare_bytes)
    assert reports.tell(whole)
    assert taken(reports) == [msgspec.structs.replace(whole, links=whole.links[:links])]
    assert not Reports(lambda _: None, 10).tell(whole)
