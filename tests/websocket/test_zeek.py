"""The client's side of the API, without a socket."""

from __future__ import annotations

import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from peers.websocket.zeek_bridge import (
    Acknowledged,
    BridgeSession,
    Event,
    Failure,
    Opened,
    Publication,
)
from peers.wire.events import Closing
from tests.hubs.raw_websocket import frame
from tests.websocket.reading import events_of
from tests.websocket.zeek.messages import ACK, count


class Conversation:
    def __init__(self) -> None:
        self.session = BridgeSession("zeek.example", 27759, 100_000)
        self.server = ServerProtocol(max_size=None)
        self.frames: list[tuple[Opcode, bytes]] = []
        self.request: Request | None = None
        self.take()

    def take(self) -> None:
        self.server.receive_data(self.session.take_outgoing())
        for event in self.server.events_received():
            if isinstance(event, Request):
                self.request = event
            elif isinstance(event, Frame):
                self.frames.append((event.opcode, bytes(event.data)))

    def say(self, data: bytes) -> list[Event]:
        events = list(events_of(self.session, data))
        self.take()
        return events

    def open(self) -> list[Event]:
        assert self.request is not None
        self.server.send_response(self.server.accept(self.request))
        return self.say(b"".join(self.server.data_to_send()))


def text(payload: bytes | str) -> bytes:
    return frame(Opcode.TEXT, payload.encode() if isinstance(payload, str) else payload, masked=False)


def opened() -> Conversation:
    talk = Conversation()
    assert talk.open() == [Opened()]
    talk.session.ask(["/a"])
    (acknowledged,) = talk.say(text(ACK))
    assert isinstance(acknowledged, Acknowledged)
    return talk


@pytest.mark.parametrize("end", [frame(Opcode.CLOSE, b"\x03\xe8", masked=False), b"\xff\xff"], ids=["Close", "garbage"])
@pytest.mark.parametrize("before", [b"", text(ACK), text(ACK) + text(count("/a", 1))], ids=["answer", "ack", "data"])
def test_what_is_said_to_a_zeek_that_has_ended_behind_that(before: bytes, end: bytes) -> None:
    talk = Conversation()
    assert talk.request is not None
    talk.server.send_response(talk.server.accept(talk.request))
    talk.session.feed(b"".join(talk.server.data_to_send()) + before + end)
    assert talk.session.next_event() == Opened()
    talk.session.ask(["/a"])
    while not isinstance(event := talk.session.next_event(), Closing):
        talk.session.send([count("/b", 2)])
        talk.session.ping()
        assert event is not None
    talk.take()
    assert [opcode for opcode, _ in talk.frames] == [Opcode.CLOSE]


def test_cut_anywhere_the_events_are_the_same() -> None:
    stream = b"".join(
        (
            text(ACK),
            frame(Opcode.TEXT, count("/a", 1)[:20], fin=False, masked=False),
            frame(Opcode.PING, b"x", masked=False),
            frame(Opcode.CONT, count("/a", 1)[20:], masked=False),
            text('{"type":"error","code":"deserialization_failed","context":"input #1 x"}'),
            frame(Opcode.CLOSE, b"\x03\xe8bye", masked=False),
        )
    )
    found = []
    for step in (1, 7, len(stream)):
        talk = Conversation()
        talk.open()
        found.append([event for at in range(0, len(stream), step) for event in talk.say(stream[at : at + step])])
        assert (Opcode.PONG, b"x") in talk.frames
        assert talk.frames[-1] == (Opcode.CLOSE, b"\x03\xe8bye")
    assert found[0] == found[1] == found[2]
    assert [type(event) for event in found[0]] == [Acknowledged, Publication, Failure, Closing]
    assert found[0][2] == Failure("deserialization_failed: input #1 x", outward=True)
    assert found[0][3] == Closing(1000, "bye", by_far_side=True)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 37\r\n\r\ninvalid path; try /v1/messages/json\r\n",
            "server rejected WebSocket connection: HTTP 400: invalid path; try /v1/messages/json",
        ),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "missing Connection header"),
        (b"SSH-2.0-OpenSSH\r\n", "did not receive a valid HTTP response"),
    ],
)
def test_no_handshake(answer: bytes, reason: str) -> None:
    talk = Conversation()
    (closing,) = talk.say(answer)
    assert isinstance(closing, Closing)
    assert closing.text.startswith(reason)
    assert talk.session.closed
    assert talk.say(answer) == []


@pytest.mark.parametrize(
    ("payload", "failure"),
    [
        (b"What?", Failure("contained malformed JSON -> Expecting value: line 1 column 1 (char 0)", outward=False)),
        (b"5", Failure("expected a JSON object", outward=False)),
        (b'{"type":"data-message","topic":"/a"}', Failure("contained invalid data", outward=False)),
        (
            b'{"type":"data-message","topic":"/a","@data-type":"real","data":inf}',
            Failure("contained malformed JSON -> Expecting value: line 1 column 64 (char 63)", outward=False),
        ),
        (count("x" * 1025, 1), Failure("a topic of 1025 bytes, the limit is 1024 bytes", outward=False)),
        (
            b'{"type":"error","code":"c","context":"\\u001b[1m' + b"x" * 300 + b'"}',
            Failure("c: ?[1m" + "x" * 193, outward=True),
        ),
    ],
)
def test_what_costs_one_message(payload: bytes, failure: Failure) -> None:
    talk = opened()
    found, after = talk.say(text(payload) + text(count("/a", 1)))
    assert found == failure
    assert isinstance(after, Publication)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(Opcode.BINARY, b"x", masked=False), 1003),
        (frame(3, b"x", masked=False), 1002),
        (text(b"x" * 100_001), 1009),
        (frame(Opcode.CONT, b"x", masked=False), 1002),
    ],
)
def test_what_ends_it(data: bytes, code: int) -> None:
    talk = opened()
    (closing,) = talk.say(data)
    assert isinstance(closing, Closing)
    assert closing.code == code
    assert talk.frames[-1][0] is Opcode.CLOSE


def test_closed_before_it_began() -> None:
    session = BridgeSession("zeek.example", 27759, 1000)
    session.close(1001, "no")
    session.send([b"x"])
    session.ping()
    assert session.take_outgoing() == b""
