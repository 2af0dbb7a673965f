"""HTTP without a socket: heads that could be understood in two ways, chunks, requests in turn, and bodies."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, RejectedError
from hub.limits import Overflow
from peers.commands.commands import Publication
from peers.websocket.http_content import (
    FRAME_BYTES,
    RANGES_LIMIT,
    Content,
    ContentError,
    Publishing,
    Target,
    Values,
    content_of,
    target_of,
    wanted_of,
)
from peers.websocket.http_session import (
    LINE_LIMIT_BYTES,
    TRAILERS_LIMIT_BYTES,
    Asked,
    BadRequestError,
    Body,
    Done,
    Event,
    HttpSession,
    Phase,
    Piece,
    Refused,
    keeps_open,
    read_head,
)
from peers.wire.hello import QueueWish
from peers.wire.scanner import NEED_DATA
from tests.hubs.raw_websocket import request


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ((), 0),
        (("Content-Length: 0",), 0),
        (("Content-Length: 17",), 17),
        (("content-length:17  ",), 17),
        (("Transfer-Encoding: chunked",), None),
        (("TRANSFER-ENCODING: Chunked",), None),
    ],
)
def test_how_long_the_body_is(lines: tuple[str, ...], length: int | None) -> None:
    head = read_head(request("/v1/publish/a?x=1", "POST", "X-Other: 1", *lines))
    assert (head.length, head.has_length, head.has_body) == (length, bool(lines), length != 0)
    assert (head.request.method, head.request.path) == ("POST", "/v1/publish/a?x=1")
    assert head.request.headers["X-Other"] == "1"


LENGTHS = ["5, 5", "+5", "-5", "0x5", "5_0", "\u0665", "", "9" * 40, "5\n", "5\r", "5\0"]
ENCODINGS = [
    " chunked, identity",
    " gzip, chunked",
    " xchunked",
    "\x0bchunked",
    " chunked\r\nTransfer-Encoding: chunked",
]
SMUGGLED = [
    ("Content-Length: 5", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked", "Content-Length: 5"),
    ("Content-Length: 5", "Content-Length: 5"),
    ("Content-Length: 5", "Content-Length: 6"),
    *((f"Content-Length: {length}",) for length in LENGTHS),
    ("Content-Length : 5",),
    (" Content-Length: 5",),
    ("X-A: 1", " Content-Length: 5"),
    *((f"X-A: 1{end}Content-Length: 5",) for end in "\n\r"),
    ("Transfer-Encoding : chunked",),
    ("Transfer-Encoding\t: chunked",),
    ("X: [\nTransfer-Encoding: chunked",),
]


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        *((lines, HTTPStatus.BAD_REQUEST) for lines in SMUGGLED),
        *(((f"Transfer-Encoding:{encoding}",), HTTPStatus.NOT_IMPLEMENTED) for encoding in ENCODINGS),
    ],
)
def test_what_two_readers_could_understand_differently(lines: tuple[str, ...], status: HTTPStatus) -> None:
    head = "\r\n".join(("POST /v1/publish/a HTTP/1.1", "Host: a", *lines, "", "")).encode("utf-8")
    with pytest.raises(BadRequestError) as refused:
        read_head(head)
    assert refused.value.status is status


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/2.0\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET  / HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"Content-Length: 5\r\nGET / HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", HTTPStatus.REQUEST_URI_TOO_LONG),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET / HTTP/1.1\r\nContent-Length: " + b"5" * 9000 + b"\r\n\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
def test_no_requests(head: bytes, status: HTTPStatus) -> None:
    with pytest.raises(BadRequestError) as refused:
        read_head(head)
    assert refused.value.status is status


def test_a_line_that_may_hold_a_token_is_not_repeated() -> None:
    with pytest.raises(BadRequestError) as refused:
        read_head(b"GET / HTTP/1.1\r\nAuthorization Bearer secret\r\n\r\n")
    assert "secret" not in refused.value.text


@pytest.mark.parametrize(
    ("line", "version", "keeps"),
    [
        ("X: 1", "HTTP/1.1", True),
        ("Connection: close", "HTTP/1.1", False),
        ("Connection: TE, Close", "HTTP/1.1", False),
        ("Connection: keep-alive", "HTTP/1.1", True),
        ("Connection: keep-alive", "HTTP/1.0", False),
    ],
)
def test_who_may_ask_again(line: str, version: str, *, keeps: bool) -> None:
    assert keeps_open(read_head(request("/", "GET", line, version=version)).request) is keeps


def read(body: Body, *pieces: bytes) -> tuple[bytes, bytes]:
    content, rest = b"", b""
    for piece in pieces:
        assert not rest
        more, rest = body.take(piece)
        content += more
    return content, rest


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n" + trailers + b"\r\n"


def test_a_length() -> None:
    body = Body(5)
    assert read(body, b"he", b"lloGET") == (b"hello", b"GET")
    assert (body.is_done, body.size_bytes) == (True, 5)
    assert Body(0).is_done


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.integers(1, 30), st.binary(max_size=9))
def test_chunks_cut_anywhere(chunks: list[bytes], step: int, behind: bytes) -> None:
    stream = chunked(*chunks, trailers=b"X: 1\r\n") + behind
    body, content, rest = Body(None), b"", b""
    for at in range(0, len(stream), step):
        piece = stream[at : at + step]
        if body.is_done:
            rest += piece
            continue
        more, rest = body.take(piece)
        content += more
    assert (content, rest, body.is_done) == (b"".join(chunks), behind, True)
    assert body.size_bytes == len(content)


NO_CHUNKS = [
    *(
        b"\r\n",
        b"g\r\n",
        b"-3\r\nabc\r\n",
        b"+3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b" 3\r\nabc\r\n",
        b"3_0\r\n",
        b"3\nabc\r\n",
    ),
    *(
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n",
        b"3\r\nabcX\r\n",
        b"123456789\r\n",
        b"3;\x00\r\n",
        b"3;a\rb\r\n",
        b"0\r\nX: 1\n\r\n",
    ),
    b"1" * (LINE_LIMIT_BYTES + 1),
    b"0\r\n" + b"x" * (TRAILERS_LIMIT_BYTES + 1),
    b"0\r\n" + b"X: 1\r\n" * TRAILERS_LIMIT_BYTES,
]


@pytest.mark.parametrize("stream", NO_CHUNKS, ids=range(len(NO_CHUNKS)))
def test_chunks_that_make_no_sense(stream: bytes) -> None:
    for pieces in ([stream], [stream[at : at + 1] for at in range(len(stream))]):
        with pytest.raises(BadRequestError):
            read(Body(None), *pieces)


HEAD_LIMIT = 4096
BODY_LIMIT = 100_000


def post(body: bytes, *lines: str, kind: str = "application/json") -> bytes:
    return request("/v1/publish/a", "POST", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines) + body


def read_as(kind: str) -> Content:
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
                assert session.receive(event.head, read_as(kind)) is None
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
            session.say(b"late")
            assert session.take_outgoing() == b""
        case "answered":
            session.respond(HTTPStatus.OK, {"Connection": "close"})
        case "refused":
            talk.say(bytes(BODY_LIMIT))
            session.respond(HTTPStatus.BAD_REQUEST, {})
        case _:
            session.stream({})
    session.feed(bytes(100_000))
    assert session.held_bytes == 0


LIMIT = 1_000_000


def content(kind: str = "application/x-ndjson", limit: int = LIMIT) -> Content:
    found = content_of(kind, limit)
    assert found is not None
    return found


def all_of(reader: Content, *pieces: bytes) -> list[Values]:
    found = [values for piece in pieces for values in reader.take(piece)]
    return found + list(reader.finish())


def unpacked(found: list[Values]) -> list[Any]:
    return [msgspec.msgpack.decode(packed) for values in found for packed in values.packed]


def test_one_value() -> None:
    assert unpacked(all_of(content("application/json"), b'{"a":', b" [1.5]}\n")) == [{"a": [1.5]}]
    packed = msgspec.msgpack.encode({"a": b"\x00"})
    (found,) = all_of(content("application/msgpack"), packed[:2], packed[2:])
    assert found == Values([packed], 0)


@given(st.lists(st.recursive(st.none() | st.integers(-9, 9) | st.text(), st.lists, max_leaves=4)), st.integers(1, 50))
def test_lines_cut_anywhere(values: list[Any], step: int) -> None:
    for end in ("\n", "\r\n", "\n\n"):
        text = end.join(json.dumps(value) for value in values).encode()
        pieces = [text[at : at + step] for at in range(0, len(text), step)]
        found = all_of(content(), *pieces)
        assert unpacked(found) == values


def test_lines_go_together() -> None:
    line = json.dumps("x" * 1000).encode() + b"\n"
    found = all_of(content(), line * 200)
    assert sum(len(values.packed) for values in found) == 200
    assert len(found) == 4
    assert all(sum(map(len, values.packed)) <= FRAME_BYTES for values in found)
    assert [values.line for values in found] == [1, 1 + len(found[0].packed), found[2].line, found[3].line]


@pytest.mark.parametrize(
    ("text", "line", "before"),
    [
        (b"1\n2\nx\n4\n", 3, 2),
        (b"1\n\n\n[1,\n", 4, 1),
        (b"1 2\n", 1, 0),
        (b"1\n" + b"[" * 600 + b"]" * 600, 2, 1),
        (b"1\n18446744073709551616\n", 2, 1),
        (b'1\n"\xff"\n', 2, 1),
        (b"1\n2\n3\n{", 4, 3),
    ],
)
def test_a_line_that_is_wrong(text: bytes, line: int, before: int) -> None:
    reader = content()
    found: list[Values] = []
    with pytest.raises(ContentError) as refused:  # noqa: PT012 -- what came before the error counts
        for values in reader.take(text):
            found.append(values)  # noqa: PERF402 -- the same
        found += reader.finish()
    assert (refused.value.line, refused.value.code) == (line, CloseCode.BAD_DATA)
    assert len(unpacked(found)) == before


@pytest.mark.parametrize("kind", ["application/json", "application/msgpack", "application/x-ndjson"])
def test_what_is_too_large(kind: str) -> None:
    reader = content(kind, 1000)
    with pytest.raises(ContentError) as refused:  # noqa: PT012 -- how much is held is looked at meanwhile
        for _ in range(1001):
            list(reader.take(b"1"))
            assert reader.held_bytes <= 1000
    assert refused.value.code == CloseCode.TOO_BIG
    assert refused.value.line == (kind == "application/x-ndjson")


def test_too_many_parts() -> None:
    for kind, line in (("application/json", 0), ("application/x-ndjson", 2)):
        with pytest.raises(ContentError) as refused:
            all_of(content(kind), b"\n" if line else b"", b"[" + b"0," * 200_000 + b"0]")
        assert (refused.value.code, refused.value.line) == (CloseCode.TOO_BIG, line)


class Hub:
    def __init__(self, *, confirm: bool = False) -> None:
        self.published: list[Publication] = []
        self.post = Publishing(Target(b"/a", 0, confirm), self._act)

    def _act(self, publication: Publication) -> int:
        self.published.append(publication)
        if not publication.confirm:
            self.post.confirmed(publication.request)
        return 0

    def publish(self, count: int, line: int = 1) -> None:
        self.post.publish(Values([b"\x01"] * count, line))

    def answer(self) -> tuple[int, Any]:
        self.post.is_done = True
        assert self.post.is_settled
        status, body = self.post.answer()
        return status.value, json.loads(body)


def test_nothing_behind_a_refusal() -> None:
    hub = Hub()
    hub.publish(2, 1)
    hub.post.refuse(CloseCode.BAD_DATA, "no JSON", 3)
    hub.publish(2, 4)
    assert len(hub.published) == 1
    told = {"error": {"code": 1007, "text": "no JSON", "line": 3}, "messages": 2}
    assert hub.answer() == (400, told)


def test_what_is_not_recorded() -> None:
    hub = Hub(confirm=True)
    hub.publish(1, 1)
    hub.publish(1, 2)
    hub.post.refused(RejectedError(CloseCode.JOURNAL_FAILED, "full"), 1)
    assert hub.post.is_refused
    assert not hub.post.is_settled
    hub.post.recorded(2, 7, 1)
    told = {"error": {"code": 4012, "text": "full", "line": 1}, "messages": 1, "offsets": [[7, 1]]}
    assert hub.answer() == (503, told)


def test_many_ranges() -> None:
    hub = Hub(confirm=True)
    for number in range(RANGES_LIMIT + 5):
        hub.publish(1)
        hub.post.recorded(number + 1, number * 2, 1)
    status, told = hub.answer()
    assert (status, len(told["offsets"]), told["unlisted"]) == (200, RANGES_LIMIT, 5)


@pytest.mark.parametrize(
    ("path", "query", "key"),
    [
        ("/v1/publish/a/b", "", b"/a/b"),
        ("/v1/publish/a%20b/%C3%A9", "", "/a b/é".encode()),
        ("/v1/publish", "topic=a/b", b"a/b"),
        ("/v1/publish//a", "confirm=1", b"//a"),
    ],
)
def test_topics(path: str, query: str, key: bytes) -> None:
    target = target_of(path, query)
    assert (target.key, target.flags, target.confirm) == (key, 0, "confirm" in query)


NO_TARGETS = """
    /v1/publish /v1/publish/%00 /v1/publish/%ff
    /v1/publish/a?topic=b /v1/publish/a?confirm=2 /v1/publish/a?confirm=1&confirm=1 /v1/publish/a?confrim=1
    /v1/publish/a?label=%ff /v1/publish/a?label=
"""


@pytest.mark.parametrize("target", [*NO_TARGETS.split(), "/v1/publish/" + "x" * 1100])
def test_no_target(target: str) -> None:
    path, _, query = target.partition("?")
    with pytest.raises(RejectedError):
        target_of(path, query)


@pytest.mark.parametrize(
    ("query", "last_ids", "start", "time_us"),
    [
        ("prefix=/a", [], None, None),
        ("prefix=/a&from=7", [], 7, None),
        ("prefix=/a&from=7", ["41"], 42, None),
        ("prefix=/a", [""], None, None),
        ("prefix=/a&from=1970-01-01T00:00:01.5Z", [], None, 1_500_000),
        ("prefix=/a&from=1970-01-01T02:00:00%2B01:00", [], None, 3_600_000_000),
        ("prefix=/a&from=1960-01-01", [], None, 0),
    ],
)
def test_where_to_begin(query: str, last_ids: list[str], start: int | None, time_us: int | None) -> None:
    wanted = wanted_of(query, last_ids)
    assert (wanted.start, wanted.time_us, wanted.has_start) == (start, time_us, (start, time_us) != (None, None))


def test_a_queue() -> None:
    wanted = wanted_of("prefix=/a&prefix=&overflow=disconnect&messages=10&name=x", [])
    assert (wanted.prefixes, wanted.name) == (["/a", ""], "x")
    assert wanted.queue == QueueWish(messages=10, overflow=Overflow.DISCONNECT)


NO_STREAMS = """
    from=1 prefix=%00 prefix=/a&from=x prefix=/a&from=-1
    prefix=/a&from=999999999999999999999999999999 prefix=/a&since=1
    prefix=/a&overflow=drop prefix=/a&messages=0 prefix=/a&bytes=x prefix=/a&from=1&overflow=disconnect
"""


@pytest.mark.parametrize("query", [*NO_STREAMS.split(), "", "&".join(["prefix=a"] * 10_001)])
def test_no_stream(query: str) -> None:
    with pytest.raises(RejectedError):
        wanted_of(query, [])


@pytest.mark.parametrize("last_ids", [["x"], ["1", "2"]])
def test_no_place_in_a_stream(last_ids: list[str]) -> None:
    with pytest.raises(RejectedError):
        wanted_of("prefix=/a", last_ids)
