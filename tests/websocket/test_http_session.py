"""The rules of a connection on which requests follow one another, without a socket."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from peers.websocket.http_content import Content, Values, content_of
from peers.websocket.http_session import Asked, Done, Event, HttpSession, Phase, Piece, Refused
from peers.wire.scanner import NEED_DATA
from tests.hubs.raw_websocket import request

HEAD_LIMIT = 4096
BODY_LIMIT = 100_000


def post(body: bytes, *lines: str, kind: str = "application/json") -> bytes:
    return request("/v1/publish/a", "POST", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines) + body


def content(kind: str) -> Content:
    found = content_of(kind, BODY_LIMIT)
    assert found is not None
    return found


class Talk:
    def __init__(self) -> None:
        self.session = HttpSession(HEAD_LIMIT, BODY_LIMIT)

    def say(self, data: bytes) -> list[Event]:
        self.session.feed(data)
        found = []
        while (event := self.session.next_event()) is not NEED_DATA:
            assert not isinstance(event, type(NEED_DATA))
            if isinstance(event, Piece):
                self.session.read()
                continue
            found.append(event)
            self._act(event)
        return found

    def _act(self, event: Event) -> None:
        session = self.session
        match event:
            case Asked() if event.head.request.method == "POST":
                kind = event.head.request.headers.get("Content-Type", "application/json")
                assert session.receive(event.head, content(kind)) is None
            case Asked() | Done():
                session.respond(HTTPStatus.OK, {}, b"ok")
            case Refused():
                session.respond(event.status, {}, event.text.encode())


def test_requests_behind_one_another() -> None:
    talk = Talk()
    found = talk.say(post(b"1") + post(b'"two"') + request("/v1/events"))
    assert [type(event) for event in found] == [Asked, Values, Done, Asked, Values, Done, Asked]
    assert talk.session.take_outgoing() == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" * 3
    assert (talk.session.phase, talk.session.held_bytes) == (Phase.HEAD, 0)


@given(st.integers(1, 70))
def test_cut_anywhere_the_events_are_the_same(step: int) -> None:
    lines = b'{"a":1}\n[2]\n'
    chunks = b"5\r\n" + lines[:5] + b"\r\n7\r\n" + lines[5:] + b"\r\n0\r\n\r\n"
    kind = "Content-Type: application/x-ndjson"
    stream = post(b"1") + request("/v1/publish/b", "POST", kind, "Transfer-Encoding: chunked") + chunks + post(b"3")

    def told(events: list[Event]) -> tuple[list[bytes], int]:
        values = [one for event in events if isinstance(event, Values) for one in event.packed]
        return values, sum(isinstance(event, Done) for event in events)

    pieces = Talk()
    found = [event for at in range(0, len(stream), step) for event in pieces.say(stream[at : at + step])]
    assert told(found) == told(Talk().say(stream)) == ([b"\x01", b"\x81\xa1a\x01", b"\x91\x02", b"\x03"], 3)


def test_a_client_that_waits_to_be_told() -> None:
    talk = Talk()
    head, body = post(b"1", "Expect: 100-continue")[:-1], b"1"
    talk.say(head)
    assert talk.session.take_outgoing() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert [type(event) for event in talk.say(body)] == [Values, Done]


@pytest.mark.parametrize(
    ("stream", "status", "code"),
    [
        (b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_LIMIT, 431, CloseCode.TOO_BIG),
        (b"y" * (HEAD_LIMIT + 1), 431, CloseCode.TOO_BIG),
        (b"GET\r\n\r\n", 400, CloseCode.PROTOCOL_ERROR),
        (post(b"{"), 400, CloseCode.BAD_DATA),
        (request("/v1/publish/a", "POST", "Transfer-Encoding: chunked") + b"x\r\n", 400, CloseCode.PROTOCOL_ERROR),
        (
            request("/v1/publish/a", "POST", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
            + (b"4\r\n1\r\n\n\r\n" * BODY_LIMIT),
            413,
            CloseCode.TOO_BIG,
        ),
    ],
)
def test_what_makes_no_sense_is_the_last(stream: bytes, status: int, code: CloseCode) -> None:
    talk = Talk()
    found = talk.say(stream + post(b"1"))
    (refused,) = [event for event in found if isinstance(event, Refused)]
    assert found[-1] == refused
    assert (refused.status, refused.code) == (status, code)
    answer = talk.session.take_outgoing()
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in answer
    assert talk.session.closed
    assert talk.say(post(b"1")) == []


def test_an_answer_before_the_body_closes() -> None:
    session = HttpSession(HEAD_LIMIT, BODY_LIMIT)
    session.feed(post(b"GET / HTTP/1.1\r\n\r\n"))
    session.next_event()
    session.read()
    assert isinstance(session.next_event(), Asked)
    assert not session.respond(HTTPStatus.UNAUTHORIZED, {})
    assert (session.closed, session.next_event()) == (True, NEED_DATA)


def test_a_stream() -> None:
    session = HttpSession(HEAD_LIMIT, BODY_LIMIT)
    session.feed(request("/v1/events") + b"more")
    session.next_event()
    session.read()
    session.next_event()
    session.stream({"Content-Type": "text/event-stream"})
    session.say(b"data: 1\n\n")
    session.feed(bytes(1000))
    assert session.next_event() is NEED_DATA
    assert session.take_outgoing().endswith(b"text/event-stream\r\nConnection: close\r\n\r\ndata: 1\n\n")
    session.close()
    session.say(b"data: 2\n\n")
    assert not session.has_outgoing


@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([post(b"1"), b"\r\n\r\n", b"POST /v1/publish/a HTTP/1.1\r\n"]))
)
def test_any_input(pieces: list[bytes]) -> None:
    talk = Talk()
    for piece in pieces:
        talk.say(piece)
        assert talk.session.held_bytes <= HEAD_LIMIT + BODY_LIMIT
        talk.session.take_outgoing()


@pytest.mark.parametrize("end", ["closed", "answered", "refused", "stream"])
def test_a_session_that_is_over_holds_nothing(end: str) -> None:
    talk = Talk()
    session = talk.session
    talk.say(post(bytes(60_000))[:30_000])
    session.feed(bytes(1000))
    match end:
        case "closed":
            session.close()
        case "answered":
            session.respond(HTTPStatus.OK, {"Connection": "close"})
        case "refused":
            talk.say(bytes(BODY_LIMIT))
            session.respond(HTTPStatus.BAD_REQUEST, {})
        case _:
            session.stream({})
    session.feed(bytes(100_000))
    assert session.held_bytes == 0
