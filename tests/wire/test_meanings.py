"""What frames say whose sense depends on nothing that was said before."""

from __future__ import annotations

import pytest
from hypothesis import given

from hub.errors import ProtocolError, RejectedError
from hub.frame import Frame
from peers.wire.control import encode_subscription
from peers.wire.events import ServiceChange, SubscriptionChange
from peers.wire.kinds import Kind
from peers.wire.session import MEANINGS
from tests.wire.bodies import bodies


@pytest.mark.parametrize("kind", MEANINGS)
@given(body=bodies)
def test_what_is_refused_can_be_told(kind: Kind, body: bytes) -> None:
    frame = Frame(kind, 0, b"", body)
    decode, number = MEANINGS[kind]
    try:
        decode(frame)
    except ProtocolError:
        return
    except RejectedError:
        assert number is not None
        assert number(frame) >= 0


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        (Kind.SUBSCRIBE, SubscriptionChange(subscribe=True, prefixes=["/a"], request=7)),
        (Kind.UNSUBSCRIBE, SubscriptionChange(subscribe=False, prefixes=["/a"], request=7)),
        (Kind.SERVE, ServiceChange(serve=True, prefixes=["/a"], request=7)),
        (Kind.UNSERVE, ServiceChange(serve=False, prefixes=["/a"], request=7)),
    ],
)
def test_lists_of_prefixes(kind: Kind, event: SubscriptionChange | ServiceChange) -> None:
    body = encode_subscription(kind, ["/a"], 7)[8:]
    assert MEANINGS[kind].decode(Frame(kind, 0, b"", body)) == event
