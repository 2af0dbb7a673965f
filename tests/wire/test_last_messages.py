"""What a client had sent before it read the hub's last word."""

from __future__ import annotations

from hub.errors import CloseCode
from hub.frame import FLAG_CONFIRM, HEADER, encode_frame
from hub.stretch import Run, Stretch
from peers.wire.control import encode_close
from peers.wire.events import Closing
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.last_messages import LastMessages
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Session
from tests.wire.pair import Table, Way, message

HELLO = Hello(protocol=1, role="client").encode()


def told(unread: bytes = b"") -> tuple[Session[Way], LastMessages[Way]]:
    """A session with a client that was told the end, while this was fed and not looked at."""
    session: Session[Way] = Session("hub", Table({b"/a": "one", b"/b": "two"}), 1000)
    session.feed(HELLO)
    assert isinstance(session.next_event(), Hello)
    session.feed(unread)
    return session, LastMessages(session.close_but_hear(CloseCode.GOING_AWAY, "the hub stops"))


def events(last: LastMessages[Way]) -> list[object]:
    """All that it says."""
    found: list[object] = []
    while (event := last.next_event()) is not NEED_DATA:
        found.append(event)
    return found


def test_messages_go_on() -> None:
    """Those that were fed before, those that come later, and one that was cut."""
    one = message(b"/a")
    session, last = told(one + one[:5])
    assert session.take_outgoing() == encode_close(CloseCode.GOING_AWAY, "the hub stops")
    assert last.closed
    (run,) = events(last)
    assert isinstance(run, Run)
    assert (run.messages, last.held_bytes) == (1, 5)
    last.feed(one[5:] + message(b"/b") + one)
    assert last.has_more
    first, stretch = events(last)
    assert isinstance(first, Run)
    assert isinstance(stretch, Stretch)
    assert stretch.messages == [1, 1]
    assert not last.has_more


def test_nothing_is_answered() -> None:
    """Neither PING, nor what wants to be confirmed, nor a kind that nobody knows."""
    session, last = told()
    session.take_outgoing()
    last.feed(encode_frame(Kind.PING, b"?") + message(b"/a", flags=FLAG_CONFIRM) + encode_frame(77, b""))
    assert events(last) == [None, None, None]
    assert not last.has_outgoing
    assert not last.take_outgoing()
    assert not session.take_outgoing()


def test_the_end() -> None:
    """CLOSE of the client, or what makes no sense, ends it; nothing behind that is looked at."""
    _, last = told(encode_close(CloseCode.DONE, "done") + message(b"/a"))
    assert events(last) == [Closing(CloseCode.DONE, "done", by_far_side=True)]
    _, last = told(HEADER.pack(5000, Kind.MESSAGES, 0, 2) + b"/a")
    (closing,) = events(last)
    assert isinstance(closing, Closing)
    assert closing.code == CloseCode.TOO_BIG
