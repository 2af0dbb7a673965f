"""What a peer hub says of the mesh: a session that speaks it, what puts announcements together, and the mesh."""

from __future__ import annotations

import math
from contextlib import suppress

from hub.errors import RejectedError
from hub.frame import KIND_MESSAGES, encode_frame
from hub.mesh.announcement import Announcement, Digest, Wanted
from hub.mesh.mesh import Mesh
from hub.origin import Origin
from peers.wire.control import encode_origin
from peers.wire.events import Closing
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.routing import AnnouncementPart, Assembly, decode_routing, encode_routing
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Session
from tests.fuzz.hub_targets import refitted_frames
from tests.fuzz.target import Target
from tests.wire.pair import Table

__all__ = ["MESH_TARGETS"]

_LIMIT_BYTES = 4096
_PREFIXES_LIMIT = 20
_OWN, _HUB, _OTHER = b"w" * 16, b"h" * 16, b"o" * 16
_HELLO = Hello(protocol=1, role="hub", id=_OTHER, mesh=1).encode()


def _run(data: bytes) -> None:
    session = Session("hub", Table(), 1 << 20)
    session.feed(_HELLO + refitted_frames(data))
    assembly = Assembly(_PREFIXES_LIMIT)
    link = object()
    mesh: Mesh[object] = Mesh(_OWN, "own", on_trees=_nothing, on_interest=_nothing, on_due=_nothing)
    mesh.link_up(link, _OTHER)
    while (event := session.next_event()) is not NEED_DATA and not isinstance(event, Closing):
        match event:
            case AnnouncementPart():
                announcement = _add(assembly, event)
                if announcement is not None:
                    _hear(mesh, link, announcement)
            case Origin():
                assert len(event.hub) == len(_HUB)
                encode_origin(event)
                mesh.traffic.accepts(link, event.hub, event.epoch)
            case Digest() | Wanted():
                assert list(_heard(event)) == [event]
                _hear(mesh, link, event)
    session.take_outgoing()
    now_s = 0.0
    while now_s < math.inf:  # all that is due by time, up to the last hub that is forgotten
        for told in mesh.take(link):
            _heard(told)  # what is told can be read
        assert mesh.traffic.onward(_OWN, mesh.records) in {(), (link,)}
        now_s = mesh.check(now_s)
    assert set(mesh.records) - {_OWN} <= {_OTHER} | set(mesh.graph.reached), "a hub that cannot be reached is left"


def _nothing(*_: object) -> None:
    """Stand in for the hub."""


def _hear(mesh: Mesh[object], link: object, told: Announcement | Digest | Wanted) -> None:
    with suppress(RejectedError):
        mesh.hear(link, told)


def _add(assembly: Assembly, part: AnnouncementPart) -> Announcement | None:
    """Put together what there is, and see that it can be told on; return it."""
    try:
        announcement = assembly.add(part)
    except RejectedError:
        return None
    if announcement is None:
        return None
    assert len(announcement.added) <= _PREFIXES_LIMIT
    again = Assembly(_PREFIXES_LIMIT)
    heard = [again.add(told) for told in _heard(announcement) if isinstance(told, AnnouncementPart)]
    whole = announcement._replace(left_out=0)  # which is of what came here, and not told on
    assert heard == [None] * (len(heard) - 1) + [whole], "what is told on is not what was heard"
    assert again.entries == 0
    return announcement


def _heard(item: Announcement | Digest | Wanted) -> list[AnnouncementPart | Digest | Wanted]:
    return [decode_routing(frame[8:]) for frame in encode_routing(item, _LIMIT_BYTES)]


def _seeds() -> list[bytes]:
    def told(item: Announcement | Digest | Wanted, limit_bytes: int = _LIMIT_BYTES) -> bytes:
        return b"".join(encode_routing(item, limit_bytes))

    message = encode_frame(KIND_MESSAGES, b"\x01", key=b"/a")
    neighbours = ((_OTHER, 1), (b"x" * 16, 2**32 - 1))
    copy = Announcement(_HUB, 0, 7, "edge", neighbours, ("", "/a", "/ä"), ())
    delta = Announcement(_HUB, 7, 8, "", None, ("/b", "/c"), ("/a",))
    in_parts = told(copy, 1) + told(delta, 1)
    return [
        told(Digest(((_HUB, 1), (_OTHER, 2**32 - 1)))),
        told(Wanted(_HUB)),
        told(copy) + told(delta),
        in_parts,
        in_parts + told(Announcement(_OTHER, 0, 1, "", (), tuple(f"/{number}" for number in range(30)), ()), 1),
        message + encode_origin(Origin(_HUB, 3)) + message * 2 + encode_origin(Origin(_OTHER, 0)) + message,
        encode_frame(Kind.ROUTING, b"\x93\x03"),
        told(Announcement(_OTHER, 0, 1, "other", ((_OWN, 1), (_HUB, 2)), ("/a",))) + told(copy) + told(delta),
        told(Digest(())) + told(Announcement(_OWN, 0, 2**32 - 1, "twin", ())) + told(Wanted(_OWN)),
        told(Announcement(_OWN, 0, 9, "twin", ((_HUB, 1),))) + told(Wanted(_OWN)) + told(Digest(())),
    ]


MESH_TARGETS = (Target("mesh", _run, _seeds, [_HUB, _OTHER, b"$hub/", b"\xc2", b"\xc3", b"\xc0", b"\x90"]),)
