"""Zeek's API without a socket: the client's side, and a batch as frames."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from hub.errors import CloseCode
from hub.labels.envelope import tagged
from hub.messages.batch import Batch
from hub.messages.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, encode_frame
from hub.routing.subscriptions import Filter
from peers.commands.commands import Publication
from peers.values import CONVERTED_LIMIT_BYTES
from peers.websocket.batches import ITEMS_LIMIT, encode_message
from peers.websocket.session import AnsweredError
from peers.websocket.zeek_bridge import (
    Acknowledged,
    BridgeSession,
    Event,
    Failure,
    Opened,
)
from peers.websocket.zeek_codec import SPLIT_LIMIT_MESSAGES, Wanted, texts, zeek_codec, zeek_form
from peers.wire.events import Closing
from tests.hubs.raw_websocket import frame
from tests.websocket.reading import events_of
from tests.websocket.zeek.messages import ACK, body_of, count


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


def broker(topic: str, *numbers: int) -> bytes:
    return b"".join(
        encode_frame(KIND_MESSAGES, body_of(count("/x", number)), key=topic.encode(), flags=BROKER_FLAGS)
        for number in numbers
    )


def data(topic: str, kind: str, value: Any) -> dict[str, Any]:
    return {"type": "data-message", "topic": topic, "@data-type": kind, "data": value}


def read(batch: Batch) -> tuple[list[Any], int]:
    found, lost = texts(batch)
    return [json.loads(text) for text in found], lost


def test_one_frame_a_message() -> None:
    batch = Batch(broker("/a", 1, 2) + broker("/b", 3), 3)
    form = batch.form(zeek_form)
    expected = [count("/a", 1), count("/a", 2), count("/b", 3)]
    assert form.frames(batch) == b"".join(encode_message(Opcode.TEXT, text) for text in expected)
    assert form.lost_messages == 0
    assert batch.form(zeek_form).frames(batch) is form.frames(batch)


def test_what_the_hubs_own_clients_publish() -> None:
    assert read(Batch.of("/a", [-1, "x", None])) == (
        [data("/a", "integer", -1), data("/a", "string", "x"), data("/a", "none", {})],
        0,
    )
    assert read(Batch.of("/a", [[True]])) == ([data("/a", "vector", [{"@data-type": "boolean", "data": True}])], 0)


def test_labels_are_left_out() -> None:
    key = tagged("/a", ["x"], "s.s").encode()
    batch = Batch(
        encode_frame(KIND_MESSAGES, body_of(count("/x", 1)), key=key, flags=BROKER_FLAGS | FLAG_TAGGED)
        + encode_frame(KIND_MESSAGES, b"\x02", key=key, flags=FLAG_TAGGED),
        2,
    )
    assert read(batch) == ([json.loads(count("/a", 1)), data("/a", "integer", 2)], 0)


def test_what_has_no_form_is_lost() -> None:
    bad = [
        encode_frame(KIND_MESSAGES, b"\x02\x00", key=b"/a", flags=BROKER_FLAGS),
        encode_frame(KIND_MESSAGES, b"", key=b"/a", flags=BROKER_FLAGS),
        encode_frame(KIND_MESSAGES, b"\xd4\x70x", key=b"/a"),
        encode_frame(KIND_MESSAGES, b"\xc1", key=b"/a"),
        encode_frame(KIND_MESSAGES, b"\x01", key=b"/a", flags=0b100),
        encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(3) + b"\x01", key=b"/a", flags=FLAG_BATCH),
        encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(2) + b"\x00\x00", key=b"/a", flags=FLAG_BATCH | BROKER_FLAGS),
        encode_frame(KIND_MESSAGES, bytes(CONVERTED_LIMIT_BYTES + 1), key=b"/a", flags=BROKER_FLAGS),
    ]
    messages = [1, 1, 1, 1, 1, 3, 2, 1]
    for one, lost in zip(bad, messages, strict=True):
        assert read(Batch(one, lost)) == ([], lost)
    found, lost = read(Batch(broker("/a", 1) + b"".join(bad) + broker("/a", 2), sum(messages) + 2))
    assert [message["data"] for message in found] == [1, 2]
    assert lost == sum(messages)


def test_a_batch_of_too_many_is_lost() -> None:
    most = Batch.of("/a", [None] * SPLIT_LIMIT_MESSAGES)
    found, lost = texts(most)
    assert (len(found), lost) == (SPLIT_LIMIT_MESSAGES, 0)
    assert texts(Batch.of("/a", [None] * (SPLIT_LIMIT_MESSAGES + 1))) == ([], SPLIT_LIMIT_MESSAGES + 1)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (b'["/a"', "subscriptions not an array"),
        (b"[" * 10_000, "subscriptions not an array"),
        (b'["' + b'","' * ITEMS_LIMIT + b'"]', f"more than {ITEMS_LIMIT} subscriptions"),
    ],
)
def test_no_array(array: bytes, text: str) -> None:
    with pytest.raises(AnsweredError) as caught:
        zeek_codec().decode(array)
    assert (caught.value.code, caught.value.text) == (CloseCode.NOT_ALLOWED, text)


_PREFIXES = st.text("ab/", max_size=4)


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "ask"]), _PREFIXES)))
def test_against_looking_at_all(steps: list[tuple[str, str]]) -> None:
    filter_, wanted, held = Filter(), Wanted(), list[str]()
    asked: list[str] = []
    for step, prefix in steps:
        if step == "add":
            held.append(prefix)
            wanted.change(filter_.add(prefix))
        elif step == "discard" and prefix in held:
            held.remove(prefix)
            wanted.change(filter_.discard(prefix))
        elif step == "ask":
            asked = wanted.ask()
            assert asked == list(filter_.minimal)
        assert wanted.is_covered == all(any(one.startswith(a) for a in asked) for one in filter_.minimal)


def test_a_second_ack_says_nothing() -> None:
    assert opened().say(text(ACK)) == []
