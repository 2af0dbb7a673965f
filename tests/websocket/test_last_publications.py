"""What a client had published over a WebSocket before it read the hub's Close."""

from __future__ import annotations

from websockets.frames import Close, Opcode
from websockets.http11 import Request

from hub.errors import CloseCode
from peers.verbs.publish import Publication
from peers.websocket.last_publications import LastPublications
from peers.websocket.session import Piece, Session
from peers.wire.events import Closing
from peers.wire.scanner import NEED_DATA
from tests.hubs.raw_websocket import frame, text, upgrade
from tests.websocket.reading import events_of

ONE = text({"type": "publish", "topic": "/a", "value": 1})
CLOSE = frame(Opcode.CLOSE, Close(CloseCode.GOING_AWAY, "").serialize())


def told() -> tuple[Session, LastPublications]:
    """A conversation that was told the end."""
    session = Session(10_000, 4096)
    (request,) = events_of(session, upgrade("hub.v1.json"))
    assert isinstance(request, Request)
    session.accept(request)
    session.take_outgoing()
    assert session.close_but_hear(CloseCode.GOING_AWAY, "the hub stops")
    assert session.take_outgoing().endswith(b"the hub stops")
    return session, LastPublications(session)


def say(session: Session, last: LastPublications, *data: bytes) -> list[object]:
    """Bring it bytes; return what it says, without what there is to be read."""
    found: list[object] = []
    for some in data:
        last.feed(some)
        while (event := last.next_event()) is not NEED_DATA:
            if isinstance(event, Piece):
                session.read()
            else:
                found.append(event)
    return found


def test_publications_go_on() -> None:
    """Also one that was cut."""
    session, last = told()
    assert last.closed
    first, second = say(session, last, ONE + ONE[:7], ONE[7:])
    assert isinstance(first, Publication)
    assert isinstance(second, Publication)
    assert not last.take_outgoing()


def test_nothing_is_answered() -> None:
    """Neither what wants to be confirmed, nor pings, nor anything else."""
    session, last = told()
    wanted = (
        text({"type": "publish", "topic": "/a", "value": 1, "request": 7}),
        text({"type": "subscribe", "prefixes": ["/a"], "request": 8}),
        text({"type": "ping", "request": 9}),
        frame(Opcode.PING, b"?"),
    )
    assert say(session, last, *wanted) == [None] * 4
    assert not last.has_outgoing


def test_the_end() -> None:
    """The client's Close, or what makes no sense, ends it; nothing behind that is looked at."""
    session, last = told()
    publication, closing = say(session, last, ONE + CLOSE + ONE, ONE)
    assert isinstance(publication, Publication)
    assert isinstance(closing, Closing)
    assert closing.by_far_side
    session, last = told()
    (closing,) = say(session, last, frame(Opcode.BINARY, b"?") + ONE, ONE)
    assert isinstance(closing, Closing)


def test_a_client_that_has_said_close_already() -> None:
    """It is told nothing more."""
    session = Session(10_000, 4096)
    assert not session.close_but_hear(CloseCode.GOING_AWAY, "")
    (request,) = events_of(session, upgrade("hub.v1.json"))
    assert isinstance(request, Request)
    session.accept(request)
    assert len(list(events_of(session, CLOSE))) == 1
    assert not session.close_but_hear(CloseCode.GOING_AWAY, "")
