"""Requests in the words of `hub.v1.msgpack`, as a client says and reads them; no I/O."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode
from hub.frame import BATCH_COUNT, FLAG_BATCH
from hub.request_frame import FLAG_NAMED, Reply, Request, Status, failure
from peers.client.conversation import Refusal
from peers.wire.events import Closing
from tests.client.test_websocket import Pair

pack = msgspec.msgpack.encode


def packed(*values: Any) -> bytes:
    return BATCH_COUNT.pack(len(values)) + b"".join(map(pack, values))


@pytest.fixture
def pair() -> Pair:
    both = Pair()
    both.greet()
    return both


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (Request(b"/a", 7, 900, pack([1])), {"type": "request", "topic": "/a", "timeout_ms": 900, "value": [1]}),
        (
            Request(b"a.b", 7, 900, packed(1, None), FLAG_BATCH | FLAG_NAMED),
            {"type": "request", "service": "a.b", "timeout_ms": 900, "values": [1, None]},
        ),
        (Reply(7, Status.OK, pack("x")), {"type": "reply", "value": "x"}),
        (Reply(7, Status.OK, packed(*range(300)), FLAG_BATCH), {"type": "reply", "values": [*range(300)]}),
        (failure(7, 1, Status.FAILED, "no"), {"type": "reply", "status": 1, "text": "no", "count": 1}),
        (failure(7, 3, Status.FAILED, "no"), {"type": "reply", "status": 1, "text": "no", "count": 3}),
    ],
)
def test_both_ways(pair: Pair, item: Request | Reply, message: dict[str, Any]) -> None:
    pair.client.send(item)
    assert pair.to_server() == [message | {"request": 7}]
    assert pair.to_client(message | {"request": 7}) == [item]


def test_a_request_that_the_hub_cannot_read(pair: Pair) -> None:
    (refusal,) = pair.to_client({"type": "error", "request": 7, "about": "request", "code": 1009, "text": "too much"})
    assert refusal == Refusal(7, "too much")


@pytest.mark.parametrize(
    "message",
    [
        {"type": "request", "request": -1, "topic": "/a", "value": 1},
        {"type": "request", "request": 2**32, "topic": "/a", "value": 1},
        {"type": "request", "request": 7, "topic": "/a"},
        {"type": "request", "request": 7, "topic": "/a", "values": []},
        {"type": "reply", "request": 7},
        {"type": "reply", "request": 7, "values": "none"},
        {"type": "reply", "request": 7, "status": 4, "count": 0},
        {"type": "reply", "request": 7, "status": 4, "count": 65_537},
    ],
)
def test_nonsense(pair: Pair, message: dict[str, Any]) -> None:
    (closing,) = pair.to_client(message)
    assert isinstance(closing, Closing)
    assert closing.code == CloseCode.BAD_DATA
