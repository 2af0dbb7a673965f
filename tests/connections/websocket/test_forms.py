"""Requests over `/v1/hub`: asked, served, refused; in both encodings, and between them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hub.messages.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH
from hub.messages.request_frame import FLAG_NAMED, Reply, Request, Status, failure
from peers.values import Count
from peers.values import encode as broker_value
from peers.websocket.codec import JSON, MSGPACK, Codec, json_item, msgpack_item, singly
from peers.websocket.messages import RefusedError
from tests.hubs.hub import Hub
from tests.hubs.raw_websocket import RawWebSocket

JSON_NAME, MSGPACK_NAME = "hub.v1.json", "hub.v1.msgpack"
pack = msgspec.msgpack.encode


def packed(*values: Any) -> bytes:
    return BATCH_COUNT.pack(len(values)) + b"".join(map(pack, values))


async def serving(hub: Hub, *prefixes: str, subprotocol: str = JSON_NAME) -> RawWebSocket:
    client = await hub.websocket(subprotocol=subprotocol)
    await client.say("serve", prefixes=list(prefixes), request=5)
    assert await client.message() == {"type": "confirmed", "request": 5}
    return client


async def test_what_has_no_form_in_json(hub: Hub) -> None:
    service = await serving(hub, "/json", subprotocol=JSON_NAME)
    other = await serving(hub, "/msgpack", subprotocol=MSGPACK_NAME)
    odd = msgspec.msgpack.Ext(99, b"")
    await other.say("request", request=1, topic="/json", value=odd)
    answer = await other.message()
    assert (answer["status"], answer["count"]) == (1, 1)
    assert "no JSON form" in answer["text"]
    await other.say("request", request=2, topic="/json", values=[1, odd, 3])
    assert (await service.message())["value"] == 1
    assert (await service.message())["value"] == 3
    assert (await other.message())["request"] == 3
    await service.say("request", request=1, topic="/msgpack", values=[1, 2])
    request = await other.message()
    await other.say("reply", request=request["request"], values=["fine", odd])
    assert await service.message() == {"type": "reply", "request": 1, "value": "fine"}
    failed = await service.message()
    assert (failed["request"], failed["status"]) == (2, 1)


# Messages of clients.


@pytest.fixture(params=["json", "msgpack"])
def codec(request: pytest.FixtureRequest) -> Codec:
    return {"json": JSON, "msgpack": MSGPACK}[request.param]


def decode(codec: Codec, message: dict[str, Any]) -> Any:
    return codec.decode(json.dumps(message).encode() if codec is JSON else pack(message))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"request": 7, "topic": "/a", "value": [1]}, Request(b"/a", 7, 0, pack([1]))),
        (
            {"request": 0, "topic": "/a", "values": [1, 2], "timeout_ms": 9},
            Request(b"/a", 0, 9, packed(1, 2), FLAG_BATCH),
        ),
        ({"request": 7, "service": "a.b", "value": None}, Request(b"a.b", 7, 0, b"\xc0", FLAG_NAMED)),
        (
            {"request": 7, "service": "a.b", "values": [None] * 20},
            Request(b"a.b", 7, 0, packed(*[None] * 20), FLAG_NAMED | FLAG_BATCH),
        ),
        ({"request": 7, "topic": "/a", "values": [0] * 65536}, Request(b"/a", 7, 0, packed(*[0] * 65536), FLAG_BATCH)),
    ],
)
def test_requests_that_are_understood(codec: Codec, message: dict[str, Any], expected: Request) -> None:
    assert decode(codec, {"type": "request"} | message) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"request": 7, "value": 1}, Reply(7, Status.OK, b"\x01")),
        ({"request": 7, "values": [1]}, Reply(7, Status.OK, packed(1), FLAG_BATCH)),
        ({"request": 7, "status": 1, "text": "no"}, failure(7, 1, Status.FAILED, "no")),
        ({"request": 7, "status": 1, "text": "no", "count": 3}, failure(7, 3, Status.FAILED, "no")),
    ],
)
def test_replies_that_are_understood(codec: Codec, message: dict[str, Any], expected: Reply) -> None:
    assert decode(codec, {"type": "reply"} | message) == expected


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"topic": "/a", "value": 1}, "missing required field `request`"),
        ({"request": -1, "topic": "/a", "value": 1}, ">= 0"),
        ({"request": 2**32, "topic": "/a", "value": 1}, "<= 4294967295"),
        ({"request": 7, "topic": "/a"}, "one of the two"),
        ({"request": 7, "topic": "/a", "value": 1, "values": [1]}, "one of the two"),
        ({"request": 7, "topic": "/a", "values": []}, "0 values"),
        ({"request": 7, "topic": "/a", "values": [0] * 65537}, "65537 values"),
        ({"request": 7, "topic": "/a", "values": 5}, "array"),
        ({"request": 7, "value": 1}, "`topic` or `service`"),
        ({"request": 7, "topic": "/a", "service": "a.b", "value": 1}, "`topic` or `service`"),
        ({"request": 7, "topic": "/a" * 30_000, "value": 1}, "`topic` or `service`"),
        ({"request": 7, "topic": "/a", "value": 1, "timeout_ms": -5}, ">= 0"),
    ],
)
def test_requests_that_are_refused(codec: Codec, message: dict[str, Any], text: str) -> None:
    with pytest.raises(RefusedError, match=text) as caught:
        decode(codec, {"type": "request"} | message)
    number = message.get("request", 0)
    assert caught.value.request == (max(0, number))
    assert caught.value.about == "request"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"request": 7}, "one of the two"),
        ({"request": 7, "status": 256, "text": ""}, "<= 255"),
        ({"request": 7, "status": 1, "count": 0}, ">= 1"),
        ({"request": 7, "status": 1, "text": 5}, "str"),
    ],
)
def test_replies_that_are_refused(codec: Codec, message: dict[str, Any], text: str) -> None:
    with pytest.raises(RefusedError, match=text) as caught:
        decode(codec, {"type": "reply"} | message)
    assert caught.value.about == ""


def test_values_without_msgpack() -> None:
    with pytest.raises(RefusedError, match="64 bits"):
        decode(JSON, {"type": "request", "request": 7, "topic": "/a", "value": 2**70})


# Messages for clients.


def test_forms() -> None:
    several = Request(b"/a", 7, 9, packed(1, b"\0"), FLAG_BATCH)
    head = {"type": "request", "request": 7, "topic": "/a", "timeout_ms": 9}
    assert json.loads(json_item(several) or b"") == head | {"values": [1, "AA=="]}
    assert msgspec.msgpack.decode(msgpack_item(several) or b"") == head | {"values": [1, b"\0"]}
    named = Request(b"a.b", 7, 9, b"\x01", FLAG_NAMED)
    assert json.loads(json_item(named) or b"")["service"] == "a.b"
    failed = failure(7, 2, Status.TIMED_OUT, "no")
    told = {"type": "reply", "request": 7, "status": 4, "text": "no", "count": 2}
    assert json.loads(json_item(failed) or b"") == msgspec.msgpack.decode(msgpack_item(failed) or b"") == told
    zeek = Reply(7, Status.OK, broker_value(Count(5)), BROKER_FLAGS)
    assert json.loads(json_item(zeek) or b"") == {"type": "reply", "request": 7, "value": 5}
    assert msgpack_item(zeek) is not None
    assert json_item(Reply(7, Status.OK, b"\xc1")) is None
    assert msgpack_item(Reply(7, Status.OK, b"?", 0b100)) is None


def test_singly() -> None:
    several = Reply(2**32 - 1, Status.OK, packed(1, 2), FLAG_BATCH)
    assert list(singly(several)) == [Reply(2**32 - 1, Status.OK, b"\x01"), Reply(0, Status.OK, b"\x02")]
    assert list(singly(Reply(7, Status.OK, b"\x01"))) == []
    assert list(singly(Reply(7, Status.OK, packed(1)[:4] + b"\xc1", FLAG_BATCH))) == []
    assert list(singly(Request(b"/a", 7, 9, packed(*[0] * 5000), FLAG_BATCH))) == []
