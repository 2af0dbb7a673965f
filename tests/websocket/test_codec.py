"""The two encodings of the client's protocol: what is understood, what is refused; forms of requests and replies."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, PeerError, ProtocolError
from hub.messages.batch import decode_values
from hub.messages.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH
from hub.messages.request_frame import FLAG_NAMED, Reply, Request, Status, failure
from peers.commands.commands import Publication
from peers.journal.forms import Form, Order
from peers.values import Count
from peers.values import encode as broker_value
from peers.values.conversion import NESTING_LIMIT, PARTS_LIMIT
from peers.websocket.batches import ITEMS_LIMIT
from peers.websocket.codec import (
    FETCH_LIMIT_BYTES,
    JSON,
    JSON_BYTES,
    JSON_LIMIT_BYTES,
    MSGPACK,
    Codec,
    json_item,
    msgpack_item,
    singly,
)
from peers.websocket.messages import (
    Ping,
    RefusedError,
)
from peers.wire.records import FETCH_BYTES

CODECS = {"json": JSON, "msgpack": MSGPACK}


@pytest.fixture(params=["json", "msgpack"])
def codec(request: pytest.FixtureRequest) -> Codec:
    return CODECS[request.param]


def encode(codec: Codec, message: Any) -> bytes:
    return msgspec.json.encode(message) if codec is JSON else msgspec.msgpack.encode(message)


def decode(codec: Codec, payload: bytes) -> Any:
    return json.loads(payload) if codec is JSON else msgspec.msgpack.decode(payload)


def values_of(publication: Any) -> tuple[str, list[Any]]:
    assert isinstance(publication, Publication)
    (frame,) = publication.batch.parts()
    assert frame.routing_key == publication.routing_key
    assert frame.messages == publication.messages == publication.batch.messages
    return frame.key.decode(), decode_values(frame)


# What is understood.


def test_fetch(codec: Codec) -> None:
    form: Form = "json" if codec is JSON else "msgpack"
    most_bytes = JSON_LIMIT_BYTES if codec is JSON else FETCH_LIMIT_BYTES
    found = codec.decode(encode(codec, {"type": "fetch", "request": 7, "bytes": 2**40}))
    assert found == Order(7, bytes=most_bytes, form=form)
    usual_bytes = JSON_BYTES if codec is JSON else FETCH_BYTES
    assert codec.decode(encode(codec, {"type": "fetch", "request": 7})) == Order(7, bytes=usual_bytes, form=form)
    fields = {"request": 1, "start": 2**62, "end": 5, "prefixes": ["/a", "/b"], "bytes": 6, "wait_ms": 60_000}
    found = codec.decode(encode(codec, {"type": "fetch", "time_ms": 1_700_000_000_000} | fields))
    assert found == Order(1, 2**62, 1_700_000_000_000_000, 5, ("/a", "/b"), 6, 60_000, form=form)
    found = codec.decode(encode(codec, {"type": "fetch", "request": 7, "hub": "b", "journal": "0f" * 16}))
    assert found == Order(7, bytes=usual_bytes, hub="b", journal=b"\x0f" * 16, form=form)
    found = codec.decode(encode(codec, {"type": "fetch", "request": 7, "journal": ""}))
    assert found == Order(7, bytes=usual_bytes, journal=b"", form=form)


@pytest.mark.parametrize("fields", [{"hub": "x" * 65}, {"journal": "0f"}, {"journal": "0F" * 16}, {"journal": 1}])
def test_fetch_of_no_journal(codec: Codec, fields: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        codec.decode(encode(codec, {"type": "fetch", "request": 7} | fields))


@pytest.mark.parametrize("count", [1, 2, 15, 16, 300, ITEMS_LIMIT])
def test_several_values(codec: Codec, count: int) -> None:
    found = codec.decode(encode(codec, {"type": "publish", "topic": "/a", "values": list(range(count))}))
    assert values_of(found) == ("/a", list(range(count)))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("name", list(CODECS))
@given(published=st.lists(values, min_size=1, max_size=5))
def test_values_arrive_as_they_were_published(name: str, published: list[Any]) -> None:
    codec = CODECS[name]
    if codec is JSON:
        published = json.loads(msgspec.json.encode(published))  # infinities have become null
    found = codec.decode(encode(codec, {"values": published, "topic": "/t", "type": "publish"}))
    assert values_of(found) == ("/t", published)
    plain = {"type": "publish", "topic": "/a/ü", "value": published[0], "request": 3}
    for confirm in (False, True):
        found = codec.decode(encode(codec, plain | ({"confirm": True} if confirm else {})))
        assert isinstance(found, Publication)
        assert (values_of(found), found.request, found.confirm) == (("/a/ü", published[:1]), 3, confirm)


def test_msgpack_bodies_are_cut_out_unread() -> None:
    odd = b"\xd3\0\0\0\0\0\0\0\x01"
    found = MSGPACK.decode(b"\x83\xa4type\xa7publish\xa5topic\xa2/a\xa5value" + odd)
    assert isinstance(found, Publication)
    assert found.frame.endswith(odd)
    found = MSGPACK.decode(b"\x83\xa4type\xa7publish\xa6values\xdd\0\0\0\x02" + odd + odd + b"\xa5topic\xa2/a")
    assert isinstance(found, Publication)
    assert found.frame.endswith(b"\0\0\0\x02" + odd + odd)


def test_unknown_fields_are_ignored(codec: Codec) -> None:
    assert codec.decode(encode(codec, {"later": [{}, 1], "type": "ping", "request": 7})) == Ping(7)


# What is refused, and the connection goes on.

REFUSED: list[tuple[Any, str]] = [
    ([1], "a map with a `type`"),
    ("ping", "a map with a `type`"),
    (7, "a map with a `type`"),
    (None, "a map with a `type`"),
    ({"request": 9}, "`type`, which is text"),
    ({"type": 5, "request": 9}, "`type`, which is text"),
    ({"type": "nope", "request": 9}, "unknown type 'nope'"),
    ({"type": "x\x1b[31m" * 100, "request": 9}, "unknown type 'x\\x1b[31m"),
    ({"type": "hello", "name": "ü" * 33}, "over 64 bytes"),
    ({"type": "hello", "name": 5}, "Expected `str`"),
    ({"type": "hello", "queue": {"messages": 0}}, "`$.queue.messages`"),
    ({"type": "hello", "queue": {"overflow": "nope"}}, "'nope'"),
    ({"type": "subscribe", "request": 9}, "`prefixes`"),
    ({"type": "subscribe", "prefixes": "/a", "request": 9}, "prefixes"),
    ({"type": "subscribe", "prefixes": ["/a", 5], "request": 9}, "Expected `str`, got `int`"),
    ({"type": "unsubscribe", "prefixes": {"/a": 1}, "request": 9}, "prefixes"),
    ({"type": "ping", "request": -1}, ">= 0"),
    ({"type": "ping", "request": "9"}, "Expected `int`"),
    ({"type": "publish", "request": 9, "value": 1}, "`topic`"),
    ({"type": "publish", "request": 9, "topic": 1, "value": 1}, "Expected `str`"),
    ({"type": "publish", "request": 9, "topic": "/a"}, "one of the two"),
    ({"type": "publish", "request": 9, "topic": "/a", "value": 1, "values": [1]}, "one of the two"),
    ({"type": "publish", "request": 9, "topic": "/a", "values": []}, "0 values"),
    ({"type": "publish", "request": 9, "topic": "/a", "values": 5}, "array"),
    ({"type": "publish", "topic": "/a", "value": 1, "confirm": True}, "with `confirm`, `request` is missing"),
    ({"type": "fetch"}, "missing required field `request`"),
    ({"type": "fetch", "request": 0}, "`int` >= 1"),
    ({"type": "fetch", "request": 2**32}, "`int` <="),
    ({"type": "fetch", "request": 9, "start": 1.5}, "got `float`"),
    ({"type": "fetch", "request": 9, "time_ms": 2e16}, "`float` <="),
    ({"type": "publish", "request": 9, "topic": "", "value": 1}, "topic is empty"),
    ({"type": "publish", "request": 9, "topic": "/" + "x" * 1024, "value": 1}, "1025 bytes long"),
    ({"type": "publish", "request": 9, "topic": "/a\n", "value": 1}, "control character U+000A"),
]


@pytest.mark.parametrize(("message", "reason"), REFUSED)
def test_a_message_that_is_not_understood_is_refused(codec: Codec, message: Any, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        codec.decode(encode(codec, message))
    assert caught.value.code == CloseCode.BAD_DATA
    assert reason in caught.value.text
    assert caught.value.text.isprintable()
    request = message.get("request") if isinstance(message, dict) else 0
    assert caught.value.request == (request if type(request) is int and request > 0 else 0)


@pytest.mark.parametrize("field", ["values", "prefixes"])
def test_too_many_items_are_refused(codec: Codec, field: str) -> None:
    message = {"type": "publish" if field == "values" else "subscribe", "topic": "/a", "request": 9}
    with pytest.raises(RefusedError, match=f"{ITEMS_LIMIT + 1} ") as caught:
        codec.decode(encode(codec, message | {field: [""] * (ITEMS_LIMIT + 1)}))
    assert (caught.value.code, caught.value.request) == (CloseCode.TOO_BIG, 9)


@pytest.mark.parametrize("value", [b"1e999", b"-1e999", b"18446744073709551616", b"-9223372036854775809", b"9" * 5000])
def test_json_numbers_that_msgpack_has_not_are_refused(value: bytes) -> None:
    with pytest.raises(RefusedError, match=r"publish: .*(out of range|64 bits)") as caught:
        JSON.decode(b'{"type":"publish","topic":"/a","value":%b,"request":9}' % value)
    assert (caught.value.code, caught.value.request) == (CloseCode.BAD_DATA, 9)


def test_json_of_too_many_parts_is_refused_before_it_is_read() -> None:
    many = b"0," * PARTS_LIMIT + b"0"
    with pytest.raises(RefusedError, match="several smaller ones") as caught:
        JSON.decode(b'{"type":"publish","topic":"/a","value":[%b],"request":9}' % many)
    assert (caught.value.code, caught.value.request) == (CloseCode.TOO_BIG, 9)
    with pytest.raises(RefusedError, match="several smaller ones") as caught:
        JSON.decode(b'{"request":9,"type":"publish","topic":"/a","value":[%b]}' % (many * 20))
    assert caught.value.request == 0, "a message of megabytes is not looked through for it"


def test_msgpack_of_too_many_arrays_is_refused_before_it_is_read() -> None:
    size = 4 * 1024 * 1024
    body = b"\xdd" + size.to_bytes(4, "big")
    with pytest.raises(RefusedError, match="several smaller ones"):
        MSGPACK.decode(b"\x83\xa4type\xa7publish\xa5topic\xa2/a\xa5value" + body + b"\x80" * size)
    assert isinstance(
        MSGPACK.decode(b"\x83\xa4type\xa7publish\xa5topic\xa2/a\xa5value" + body + b"\x01" * size), Publication
    )


# What ends the connection.

NO_JSON = [
    b"",
    b"{",
    b'{"type":"ping"',
    b'{"type":"ping"} x',
    b"{'type':'ping'}",
    b'{"type":"ping","request":NaN}',
    b'\xef\xbb\xbf{"type":"ping"}',
    b'{"type":"ping\x00"}',
    b'{"type":"\\ud800"}',
    b'{"type":"ping","later":"\xff"}',
    b'{"type":"p\xed\xa0\x80"}',
    b'{"type":5,"a":}',
    b"[" * 100_000,
    b'{"type":"publish","topic":"/a","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"type":"nope","later":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
]

NO_MSGPACK = [
    b"",
    b"\xc1",
    b"\x82\xa4type\xa4ping",
    b"\x81\xa4type\xa4ping\x01",
    b"\x81\xa4type\xa4p\xffng",
    b"\x83\xa4type\xa7publish\xa5topic\xa2/\xff\xa5value\xc0",
    b"\x82\xa4type\xa9subscribe\xa8prefixes\x91\xa1\xff",
    b"\x82\xa4type\xa9subscribe\xa8prefixes\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\x83\xa4type\xa7publish\xa5topic\xa2/a\xa5value" + b"\x91" * 100_000 + b"\xc0",
    b"\x83\xa4type\xa7publish\xa5topic\xa2/a\xa5value\xc1",
]


@pytest.mark.parametrize("payload", NO_JSON)
def test_what_is_not_json_ends_the_connection(payload: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        JSON.decode(payload)
    assert caught.value.code == CloseCode.BAD_DATA
    assert caught.value.text.startswith(("not JSON: ", "not UTF-8 at byte ", "nested too deep: "))


@pytest.mark.parametrize("payload", NO_MSGPACK)
def test_what_is_not_msgpack_ends_the_connection(payload: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        MSGPACK.decode(payload)
    assert caught.value.code == CloseCode.BAD_DATA
    assert caught.value.text.startswith(("not msgpack: ", "nested too deep: "))


@pytest.mark.parametrize("name", list(CODECS))
@pytest.mark.parametrize("kind", ["publish", "request"])
def test_how_deep_a_value_may_be_is_a_limit_of_the_hub(name: str, kind: str) -> None:
    def message(levels: int) -> bytes:
        if name == "json":
            head = f'{{"type":"{kind}","request":1,"topic":"/a","value":'
            return f"{head}{'[' * levels}1{']' * levels}}}".encode()
        head = msgspec.msgpack.encode({"type": kind, "request": 1, "topic": "/a", "value": None})[:-1]
        return head + b"\x91" * levels + b"\x01"

    decode = CODECS[name].decode
    assert decode(message(NESTING_LIMIT - 1))  # the message itself is the first level
    with pytest.raises(ProtocolError, match="nested too deep: more than 500 arrays and maps in each other"):
        decode(message(NESTING_LIMIT))


@pytest.mark.parametrize("name", list(CODECS))
@given(payload=st.binary(max_size=200))
def test_no_input_raises_anything_else(name: str, payload: bytes) -> None:
    try:
        CODECS[name].decode(payload)
    except PeerError as error:
        assert error.text  # noqa: PT017 -- most inputs end here, not all


pack = msgspec.msgpack.encode


def packed(*values: Any) -> bytes:
    return BATCH_COUNT.pack(len(values)) + b"".join(map(pack, values))


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
    assert codec.decode(encode(codec, {"type": "request"} | message)) == expected


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
    assert codec.decode(encode(codec, {"type": "reply"} | message)) == expected


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
        codec.decode(encode(codec, {"type": "request"} | message))
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
        codec.decode(encode(codec, {"type": "reply"} | message))
    assert caught.value.about == ""


def test_values_without_msgpack() -> None:
    with pytest.raises(RefusedError, match="64 bits"):
        JSON.decode(json.dumps({"type": "request", "request": 7, "topic": "/a", "value": 2**70}).encode())


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
