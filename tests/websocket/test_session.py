"""The rules of a conversation, without a socket."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from hub.errors import CloseCode
from peers.commands.commands import Publication
from peers.connections.http_pages import plain
from peers.transport import fragments
from peers.websocket.messages import Confirmed, Hello
from peers.websocket.session import Event, Phase, Session
from peers.wire.events import Closing, SubscriptionChange
from tests.hubs.raw_websocket import decode, frame, request, text, upgrade
from tests.websocket.reading import events_of

FRAME_LIMIT = 10_000
HANDSHAKE_LIMIT = 4096


class Conversation:
    def __init__(self, subprotocol: str = "hub.v1.json", *, opened: bool = True, is_known: bool = True) -> None:
        self.session = Session(FRAME_LIMIT, HANDSHAKE_LIMIT)
        self._is_known = is_known
        self.head = b""
        self.frames: list[tuple[Opcode, bytes]] = []
        self._client = ClientProtocol(parse_uri("ws://h/"), state=OPEN, max_size=None)
        if opened:
            (found,) = self.say(upgrade(subprotocol))
            assert isinstance(found, Request)
            assert self.head.startswith(b"HTTP/1.1 101 ")

    def say(self, data: bytes) -> list[Event]:
        events = []
        for event in events_of(self.session, data):
            if isinstance(event, Request):
                self.session.accept(event, is_known=self._is_known)
            elif isinstance(event, Hello):
                self.session.let_in()
            events.append(event)
        self.take()
        return events

    def take(self) -> None:
        data = self.session.take_outgoing()
        if data.startswith(b"HTTP/"):
            head, end, data = data.partition(b"\r\n\r\n")
            self.head = head + end if head.startswith(b"HTTP/1.1 101") else head + end + data
            data = data if head.startswith(b"HTTP/1.1 101") else b""
        self._client.receive_data(data)
        self.frames += [
            (one.opcode, bytes(one.data)) for one in self._client.events_received() if isinstance(one, Frame)
        ]

    @property
    def messages(self) -> list[Any]:
        return [decode(opcode, payload) for opcode, payload in self.frames if opcode in {Opcode.TEXT, Opcode.BINARY}]

    @property
    def closed_with(self) -> tuple[int, str]:
        opcode, payload = self.frames[-1]
        assert opcode is Opcode.CLOSE
        assert self.session.closed
        return int.from_bytes(payload[:2], "big"), payload[2:].decode()


def test_cut_anywhere_the_events_are_the_same() -> None:
    stream = b"".join(
        (
            upgrade(),
            text({"type": "publish", "topic": "/a", "values": [1, 2]}),
            frame(Opcode.PING, b"x"),
            frame(Opcode.TEXT, b'{"type":"subs', fin=False),
            frame(Opcode.PONG),
            frame(Opcode.CONT, b'cribe","prefixes":', fin=False),
            frame(Opcode.CONT, b'["/a"]}'),
            text({"type": "ping", "request": 5}),
            text({"type": "nope", "request": 6}),
            frame(Opcode.CLOSE, b"\x03\xe8bye"),
            text({"type": "ping", "request": 7}),
        )
    )
    whole = Conversation(opened=False)
    expected = [event for event in whole.say(stream) if not isinstance(event, Request)]
    assert [type(event) for event in expected] == [Publication, SubscriptionChange, Closing]
    for step in (1, 7):
        pieces = Conversation(opened=False)
        found = [event for at in range(0, len(stream), step) for event in pieces.say(stream[at : at + step])]
        assert [event for event in found if not isinstance(event, Request)] == expected
        assert pieces.frames == whole.frames
    assert whole.messages == [
        {"type": "pong", "request": 5},
        whole.messages[1] | {"type": "error", "code": 1007, "request": 6},
    ]
    assert whole.closed_with == (1000, "bye")


STRANGERS = {
    "whole": [frame(Opcode.TEXT, b" " * (HANDSHAKE_LIMIT + 1))],
    "not complete": [frame(Opcode.TEXT, b" " * FRAME_LIMIT)[: HANDSHAKE_LIMIT + 100]],
    "in fragments": [
        frame(Opcode.TEXT, b" " * HANDSHAKE_LIMIT, fin=False),
        frame(Opcode.PING),
        frame(Opcode.CONT, b" ", fin=False),
    ],
}


@pytest.mark.parametrize("frames", STRANGERS.values(), ids=STRANGERS.keys())
def test_large_messages_of_somebody_who_is_not_known(frames: list[bytes]) -> None:
    talk = Conversation(opened=False, is_known=False)
    talk.say(upgrade())
    found = [event for one in frames for event in talk.say(one)]
    assert [type(event) for event in found] == [Closing]
    code, reason = talk.closed_with
    assert (code, f"more than {HANDSHAKE_LIMIT} bytes before authentication" in reason) == (1009, True)


def test_frames_behind_the_request_wait_for_the_answer() -> None:
    talk = Conversation(opened=False)
    request_, *rest = talk.say(upgrade() + frame(Opcode.PING, b"early") + text({"type": "ping", "request": 1}))
    assert isinstance(request_, Request)
    assert not rest
    assert talk.messages == [{"type": "pong", "request": 1}]
    assert (Opcode.PONG, b"early") in talk.frames

    session = Session(FRAME_LIMIT, HANDSHAKE_LIMIT)
    events = events_of(session, request("/") + frame(Opcode.PING, b"early") + request("/v1/../secret"))
    assert isinstance(next(events), Request)
    session.respond(plain(HTTPStatus.NOT_FOUND, "no"))
    assert list(events) == []
    answer = session.take_outgoing()
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert answer.endswith(b"\r\n\r\nno\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n\r\n", 400),
        (request("/", "POST", "Content-Length: 5") + b"12345", 400),
        (b"GET /" + b"x" * 5000, 431),
        (upgrade(""), 400),
        (upgrade("other"), 400),
        (upgrade("hub.v2.json, other"), 400),
        (upgrade().replace(b"Sec-WebSocket-Key", b"X-Key"), 400),
        (upgrade().replace(b"dGhl", b"????"), 400),
        (upgrade().replace(b"Version: 13", b"Version: 8"), 400),
        (upgrade().replace(b"Upgrade: websocket", b"Upgrade: h2c"), 426),
        (upgrade().replace(b"GET ", b"PUT "), 405),
        (upgrade().replace(b"HTTP/1.1", b"HTTP/1.0"), 505),
    ],
)
def test_what_is_no_handshake_is_answered(data: bytes, status: int) -> None:
    talk = Conversation(opened=False)
    talk.say(data + frame(Opcode.PING))
    assert talk.head.startswith(f"HTTP/1.1 {status} ".encode())
    assert talk.frames == []
    assert talk.session.closed


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (frame(Opcode.TEXT, b"{}", masked=False), 1002, "mask"),
        (frame(Opcode.PING, b"", fin=False), 1002, "fragmented control frame"),
        (frame(Opcode.CLOSE, b"\x00\x01"), 1002, "status code"),
        (frame(Opcode.TEXT, bytes(FRAME_LIMIT + 1)), 1009, str(FRAME_LIMIT)),
        (b"\x81\xff\xff" + bytes(11), 1009, ""),
        (b"\x81\xff\x00\x00\x01\x00\x00\x00\x00\x00" + bytes(4), 1009, ""),
        (frame(Opcode.TEXT, bytes(6000), fin=False) + frame(Opcode.CONT, bytes(6000)), 1009, ""),
        (frame(Opcode.BINARY, b"\x80"), 1003, "hub.v1.json"),
        (frame(Opcode.BINARY, b"\x80", fin=False), 1003, "hub.v1.json"),
        (frame(Opcode.TEXT, b"nonsense"), 1007, "not JSON: "),
        (frame(Opcode.TEXT, b'"\xff"'), 1007, "not UTF-8 at byte 1"),
        (frame(Opcode.TEXT, b"[" * 5000), 1007, "nested too deep"),
        (frame(Opcode.CLOSE, b"\x03\xe8\xff"), 1007, ""),
    ],
)
def test_what_makes_no_sense_ends_it(data: bytes, code: int, reason: str) -> None:
    talk = Conversation()
    events = talk.say(text({"type": "ping", "request": 1}) + data)
    assert talk.messages == [{"type": "pong", "request": 1}]
    found_code, found_reason = talk.closed_with
    assert found_code == code
    assert reason in found_reason
    assert events == [Closing(code, found_reason, by_far_side=False)]
    assert talk.say(text({"type": "ping", "request": 3})) == []


def test_a_message_of_the_limit_is_taken() -> None:
    message = b'{"type":"ping","request":1,"x":"' + b"y" * (FRAME_LIMIT - 34) + b'"}'
    assert len(message) == FRAME_LIMIT
    talk = Conversation()
    talk.say(frame(Opcode.TEXT, message))
    talk.say(frame(Opcode.TEXT, b"", fin=False) + frame(Opcode.CONT, b"", fin=False) * 500)
    talk.say(frame(Opcode.CONT, message[:5000], fin=False) + frame(Opcode.CONT, message[5000:]))
    assert talk.messages == [{"type": "pong", "request": 1}] * 2


@pytest.mark.parametrize("behind", [b"", frame(Opcode.CLOSE, b"\x03\xe8bye"), frame(Opcode.PING, b"late")])
def test_nothing_stands_behind_a_close(behind: bytes) -> None:
    talk = Conversation()
    talk.say(frame(Opcode.BINARY, b"x") + behind)
    assert [opcode for opcode, _ in talk.frames] == [Opcode.CLOSE]


def test_the_hub_pings() -> None:
    session = Session(FRAME_LIMIT, HANDSHAKE_LIMIT)
    session.ping()
    assert not session.has_outgoing
    talk = Conversation()
    talk.session.ping()
    talk.take()
    assert talk.frames == [(Opcode.PING, b"")]
    talk.session.close(1001, "")
    talk.take()
    talk.session.ping()
    assert not talk.session.has_outgoing


def test_the_client_closes() -> None:
    talk = Conversation()
    assert talk.say(frame(Opcode.CLOSE, b"\x0f\xa8done")) == [Closing(4008, "done", by_far_side=True)]
    assert talk.closed_with == (4008, "done")
    empty = Conversation()
    (closing,) = empty.say(frame(Opcode.CLOSE))
    assert isinstance(closing, Closing)
    assert closing.by_far_side
    assert empty.frames == [(Opcode.CLOSE, b"")]


def test_the_hub_closes() -> None:
    talk = Conversation()
    talk.session.close(CloseCode.OVERFLOW, "ü" * 100)
    talk.session.close(CloseCode.DONE, "twice")
    talk.session.send(Confirmed(1))
    talk.take()
    assert talk.closed_with == (4008, "ü" * 61)
    assert talk.say(text({"type": "ping"}) + frame(Opcode.CLOSE, b"\x0f\xa8")) == []
    assert talk.session.phase is Phase.CLOSED
    assert len(talk.frames) == 1


def test_hello_comes_before_all_but_pings_of_the_library() -> None:
    talk = Conversation()
    talk.say(text({"type": "ping", "request": 1}) + text({"type": "hello", "name": "late"}))
    _, refused = talk.messages
    assert (refused["code"], refused["text"]) == (1008, "hello must be the first message")


def test_what_was_read_is_held_until_it_is_acted_on() -> None:
    session = Conversation().session
    whole, part = text({"type": "ping"}), frame(Opcode.TEXT, bytes(9000))[:8000]
    session.feed(whole + part)
    assert session.held_bytes == len(whole + part)
    assert list(events_of(session, b"")) == []
    assert 7900 < session.held_bytes <= len(part)
    session.feed(bytes(500))
    assert session.held_bytes > 8400


@pytest.mark.parametrize("end", ["close", "hold", "closed by the client", "refused"])
def test_a_session_that_is_over_holds_nothing(end: str) -> None:
    talk = Conversation(is_known=end != "refused")
    session = talk.session
    session.feed(frame(Opcode.TEXT, bytes(3000), fin=False) + frame(Opcode.CONT, bytes(9000))[:800])
    match end:
        case "close":
            session.close(CloseCode.TRY_AGAIN_LATER, "too much")
        case "hold":
            session.hold()
        case "closed by the client":
            session = Conversation().session
            list(events_of(session, frame(Opcode.TEXT, bytes(3000), fin=False) + frame(Opcode.CLOSE) + bytes(3000)))
        case _:
            list(events_of(session, frame(Opcode.CONT, bytes(3000))))
    session.feed(bytes(100_000))
    assert session.held_bytes == 0
    assert list(events_of(session, bytes(100_000))) == []
    assert session.held_bytes == 0


def test_a_message_of_too_many_fragments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "FRAGMENTS_LIMIT", 10)
    talk = Conversation()
    assert talk.say(frame(Opcode.TEXT, b"{", fin=False) + frame(Opcode.CONT, b"", fin=False) * 9) == []
    (closing,) = talk.say(frame(Opcode.CONT, b"", fin=False))
    assert isinstance(closing, Closing)
    assert closing.code == CloseCode.TOO_BIG


def test_a_text_message_is_no_msgpack() -> None:
    talk = Conversation("hub.v1.msgpack")
    talk.say(frame(Opcode.TEXT, b"{}"))
    assert talk.closed_with[0] == CloseCode.WRONG_KIND
