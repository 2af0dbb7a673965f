"""What a peer hub says of the mesh: a session that speaks it, and what puts announcements together."""

from __future__ import annotations

from hub.errors import RejectedError
from hub.frame import KIND_MESSAGES, encode_frame
from hub.mesh.announcement import Announcement, Digest, Wanted
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.origin import Origin, encode_origin
from peers.wire.routing import AnnouncementPart, Assembly, decode_routing, encode_routing
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Closing, Session
from tests.fuzz.hub_targets import refitted_frames
from tests.fuzz.target import Target
from tests.wire.pair import Table

__all__ = ["MESH_TARGETS"]

_LIMIT_BYTES = 4096
_PREFIXES_LIMIT = 20
_HUB, _OTHER = b"h" * 16, b"o" * 16
_HELLO = Hello(protocol=1, role="hub", id=_OTHER, mesh=1).encode()


def _run(data: bytes) -> None:
    session = Session("hub", Table(), 1 << 20)
    session.mesh = 1
    session.feed(_HELLO + refitted_frames(data))
    assembly = Assembly(_PREFIXES_LIMIT)
    while (event := session.next_event()) is not NEED_DATA and not isinstance(event, Closing):
        match event:
            case AnnouncementPart():
                _add(assembly, event)
            case Origin():
                assert len(event.hub) == len(_HUB)
                encode_origin(event)
            case Digest() | Wanted():
                assert list(_heard(event)) == [event]
    session.take_outgoing()


def _add(assembly: Assembly, part: AnnouncementPart) -> None:
    """Put together what there is, and see that it can be told on."""
    try:
        announcement = assembly.add(part)
    except RejectedError:
        return
    if announcement is None:
        return
    assert len(announcement.added) <= _PREFIXES_LIMIT
    again = Assembly(_PREFIXES_LIMIT)
    heard = [again.add(told) for told in _heard(announcement) if isinstance(told, AnnouncementPart)]
    assert heard == [None] * (len(heard) - 1) + [announcement], "what is told on is not what was heard"
    assert again.entries == 0


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
    ]


MESH_TARGETS = (Target("mesh", _run, _seeds, [_HUB, _OTHER, b"$hub/", b"\xc2", b"\xc3", b"\xc0", b"\x90"]),)
