"""The messages of the API, without a socket."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from hub.errors import CloseCode
from hub.overflow import QueueLimits
from peers.verbs.publish import Publication
from peers.websocket.batches import ITEMS_LIMIT
from peers.websocket.messages import Confirmed, Dropped, Error, Pong, RefusedError, Welcome
from peers.websocket.session import AnsweredError, Session
from peers.websocket.zeek import PATH, VERSION, ZeekCodec
from peers.wire.events import Closing, SubscriptionChange
from tests.hubs.raw_websocket import frame, upgrade
from tests.websocket.reading import events_of
from tests.websocket.zeek.messages import body_of, count


def opened() -> tuple[Session, ZeekCodec]:
    """A session that has shaken hands."""
    session, codec = Session(100_000, 4096), ZeekCodec()
    for event in events_of(session, upgrade("", path=PATH)):
        assert isinstance(event, Request)
        assert session.accept(event, codec)
    session.take_outgoing()
    return session, codec


def subscribed() -> ZeekCodec:
    """A codec that has got its array."""
    codec = ZeekCodec()
    assert codec.decode(b"[]") == SubscriptionChange(subscribe=True, prefixes=[], request=0)
    return codec


def test_what_the_hub_says() -> None:
    """Welcome is the ack, errors are numbered; the rest has no words."""
    codec = ZeekCodec()
    welcome = Welcome(hub=bytes(range(16)).hex(), name="x", queue=QueueLimits(), frame=1)
    endpoint = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert codec.encode(welcome) == b'{"type":"ack","endpoint":"%b","version":"2.8.0-dev"}' % endpoint.encode()
    assert uuid.UUID(endpoint).bytes == bytes(range(16))
    assert VERSION == "2.8.0-dev"
    assert codec.encode(Error(1007, 'a "b"', 5)) == (
        b'{"type":"error","code":"deserialization_failed","context":"input #5 a \\"b\\""}'
    )
    assert json.loads(codec.encode(Error(1007, "bad")))["context"] == "bad"
    assert [codec.encode(message) for message in (Confirmed(1), Dropped(2), Pong(3))] == [b"", b"", b""]


@pytest.mark.parametrize(
    ("array", "prefixes"),
    [
        (b"[]", []),
        (b'[""]', [""]),
        (b' [ "/a" ,\n"/a","/\\u00fc" ] ', ["/a", "/a", "/ü"]),
    ],
)
def test_the_array(array: bytes, prefixes: list[str]) -> None:
    """Any array of strings will do, duplicates and all."""
    assert ZeekCodec().decode(array) == SubscriptionChange(subscribe=True, prefixes=prefixes, request=0)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (b"", "subscriptions not an array"),
        (b"{}", "subscriptions not an array"),
        (b'["/a"', "subscriptions not an array"),
        (b'["/a"] x', "subscriptions not an array"),
        (b"[" * 10_000, "subscriptions not an array"),
        (b"[1]", "individual subscription not a string"),
        (b'["/a",null]', "individual subscription not a string"),
        (b'["' + b'","' * ITEMS_LIMIT + b'"]', f"more than {ITEMS_LIMIT} subscriptions"),
    ],
)
def test_no_array(array: bytes, text: str) -> None:
    """The error is answered and ends the conversation."""
    with pytest.raises(AnsweredError) as caught:
        ZeekCodec().decode(array)
    assert (caught.value.code, caught.value.text) == (CloseCode.NOT_ALLOWED, text)


def test_a_publication() -> None:
    """It is a frame of Broker's encoding, and knows its routing key."""
    (publication,) = [subscribed().decode(count("/a", 7))]
    assert isinstance(publication, Publication)
    (part,) = publication.batch.parts()
    assert (part.key, part.encoding, part.body, part.messages) == (b"/a", 1, body_of(count("/a", 7)), 1)
    assert part.routing_key == publication.routing_key


def test_inputs_are_counted() -> None:
    """From 1, the array not, the failed ones too."""
    codec = subscribed()
    numbers = []
    for text in (count("/a", 1), b"nonsense", count("<$>/a", 1), count("/a", 2), b"{}"):
        try:
            message: Any = codec.decode(text)
        except RefusedError as error:
            message = error
        numbers.append(message.request)
    assert numbers == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("topic", "cause"),
    [
        ("<$>/local/data/errors", "topic '<$>/local/data/errors': <$> is Broker's own"),
        ("x" * 1025, "a topic of 1025 bytes, the limit is 1024 bytes"),
        ("x" * 70_000, "a topic of 70000 bytes, the limit is 1024 bytes"),
    ],
)
def test_topics_that_cannot_be_asked_for(topic: str, cause: str) -> None:
    """They are refused here: the hub would not know them, or they do not fit into a frame."""
    with pytest.raises(RefusedError) as caught:
        subscribed().decode(count(topic, 1))
    assert caught.value.text == f"was refused -> {cause}"
    assert (caught.value.request, caught.value.messages) == (1, 1)


def test_a_session_answers_and_ends() -> None:
    """A bad array: the error, then Close with the same words; what stands behind it is not read."""
    session, _ = opened()
    events = list(events_of(session, frame(Opcode.TEXT, b"5") + frame(Opcode.TEXT, b"[]")))
    assert events == [Closing(1008, "subscriptions not an array", by_far_side=False)]
    close = b"\x88\x1c\x03\xf0subscriptions not an array"
    assert session.take_outgoing().endswith(b'"context":"subscriptions not an array"}' + close)


def test_a_binary_message_ends_it() -> None:
    """The reason names the path."""
    session, _ = opened()
    (closing,) = events_of(session, frame(Opcode.BINARY, b"[]"))
    assert closing == Closing(1003, "a binary message under /v1/messages/json, which takes text", by_far_side=False)


_TEXTS = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(str.encode),
    st.builds(count, st.text(max_size=5), st.integers(0, 2**64)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "topic", "@data-type", "data", "key", "value"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)


@given(first=st.just(b"[]") | _TEXTS, texts=st.lists(_TEXTS, max_size=5))
def test_no_text_raises(first: bytes, texts: list[bytes]) -> None:
    """Every text is an event or an answer; after a bad array there is nothing but the Close."""
    session, _ = opened()
    events = list(events_of(session, b"".join(frame(Opcode.TEXT, text) for text in (first, *texts))))
    client = ClientProtocol(parse_uri("ws://h/"), state=OPEN, max_size=None)
    client.receive_data(session.take_outgoing())
    answers = [bytes(one.data) for one in client.events_received() if isinstance(one, Frame)]
    if session.closed:
        assert [type(event) for event in events] == [Closing]
        assert len(answers) == 2
        return
    assert isinstance(events[0], SubscriptionChange)
    assert all(isinstance(event, Publication) for event in events[1:])
    assert len(events) - 1 + len(answers) == len(texts)
    assert all(b'"code":"deserialization_failed"' in answer for answer in answers)
