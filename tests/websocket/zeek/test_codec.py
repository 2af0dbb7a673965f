"""The messages of the API, without a socket."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from hub.errors import CloseCode
from peers.verbs.publish import Publication
from peers.websocket.batches import ITEMS_LIMIT
from peers.websocket.codec import Codec
from peers.websocket.session import AnsweredError, Session
from peers.websocket.zeek.codec import PATH, zeek_codec
from peers.wire.events import Closing, SubscriptionChange
from tests.hubs.raw_websocket import frame, upgrade
from tests.websocket.reading import events_of
from tests.websocket.zeek.messages import count


def opened() -> tuple[Session, Codec]:
    session, codec = Session(100_000, 4096), zeek_codec()
    for event in events_of(session, upgrade("", path=PATH)):
        assert isinstance(event, Request)
        assert session.accept(event, codec)
    session.take_outgoing()
    return session, codec


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
