"""Bytes of each kind of frame in docs/protocol.md, written and read: `frames.txt` has them as hexadecimal digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from hub.labels.envelope import Envelope, key_of
from hub.labels.rules import Rule
from hub.limits import Overflow
from hub.mesh.announcement import Announcement, Digest, Leaf, Served, Wanted
from hub.messages.batch import Batch, decode_values, encode_value
from hub.messages.frame import (
    BROKER_FLAGS,
    FLAG_BATCH,
    FLAG_CONFIRM,
    FLAG_SHARED,
    Frame,
    Origin,
    encode_frame,
    iterate_frames,
)
from hub.messages.request_frame import FLAG_NAMED, Reply, Request, Status, failure
from hub.names.claim import Announced, Wish
from peers.wire.control import (
    Account,
    NameClaim,
    NameRelease,
    Notice,
    Renewal,
    decode_account,
    decode_claim,
    decode_close,
    decode_notice,
    decode_origin,
    decode_release,
    decode_rules,
    decode_subscription,
    decode_token,
    encode_account,
    encode_claim,
    encode_close,
    encode_notice,
    encode_origin,
    encode_release,
    encode_rules,
    encode_subscription,
    encode_token,
)
from peers.wire.hello import Hello, QueueWish
from peers.wire.kinds import Kind
from peers.wire.records import (
    Commit,
    Fetch,
    Records,
    Stage,
    decode_commit,
    decode_fetch,
    decode_records,
    decode_stage,
    encode_commit,
    encode_fetch,
    encode_stage,
    records_parts,
)
from peers.wire.routing import Assembly, decode_routing, encode_routing
from peers.wire.shared import (
    Handle,
    Segment,
    decode_handle,
    decode_released,
    decode_segment,
    encode_released,
    encode_segment,
)
from tests.contracts.golden import check

HUB, FAR, JOURNAL = bytes(range(16)), bytes(range(16, 32)), bytes(range(32, 48))


class Example(NamedTuple):
    frame: bytes
    again: Callable[[Frame], bytes]


def _subscription(kind: Kind, request: int) -> Example:
    def again(frame: Frame) -> bytes:
        number, prefixes = decode_subscription(frame.kind, frame.body)
        return encode_subscription(kind, prefixes, number)

    return Example(encode_subscription(kind, ["/zeek/", ""], request), again)


def _rules(kind: Kind) -> Example:
    def again(frame: Frame) -> bytes:
        change = decode_rules(frame.kind, frame.body)
        return encode_rules(kind, [Rule(*rule) for rule in change.rules], change.request)

    rules = [Rule(("door", "urgent"), "/house", ""), Rule((), "", "org.example.Door")]
    return Example(encode_rules(kind, rules, 9), again)


def _messages(topic: str, *values: Any, flags: int = 0, **around: Any) -> Example:
    key, tagged = key_of(topic, **around)
    made = Batch.under(key, values, tagged).frames if not flags & BROKER_FLAGS else b""
    if flags:
        (frame,) = iterate_frames(made) if made else [Frame(Kind.MESSAGES, 0, key, values[0])]
        made = encode_frame(Kind.MESSAGES, frame.body, key=key, flags=frame.flags | flags)

    def again(frame: Frame) -> bytes:
        read = Envelope.decode(frame.key) if tagged else None
        key = read.encode() if read else frame.topic
        body = frame.body
        if not flags & (BROKER_FLAGS | FLAG_SHARED):
            (whole,) = iterate_frames(Batch.under(key, decode_values(frame), tagged).frames)
            body = whole.body
        return encode_frame(frame.kind, body, key=key, flags=frame.flags)

    return Example(made, again)


def _handle(handle: Handle, flags: int = FLAG_SHARED) -> Example:
    count = (3).to_bytes(4, "big") if flags & FLAG_BATCH else b""

    def again(frame: Frame) -> bytes:
        body = count + decode_handle(frame.body, frame.flags).encode()
        return encode_frame(frame.kind, body, key=frame.key, flags=frame.flags)

    return Example(encode_frame(Kind.MESSAGES, count + handle.encode(), key=b"/shared", flags=flags), again)


def _routing(told: Announcement | Digest | Wanted) -> Example:
    def again(frame: Frame) -> bytes:
        heard = decode_routing(frame.body)
        whole = heard if isinstance(heard, Digest | Wanted) else Assembly(1_000).add(heard)
        assert whole == told
        return b"".join(encode_routing(told, 65_536))

    return Example(b"".join(encode_routing(told, 65_536)), again)


def _records(*blocks: bytes, journal: bytes = b"") -> Example:
    def body(records: Records) -> bytes:
        return encode_frame(Kind.RECORDS, b"".join(records_parts(records)))

    example = Records(7, 100, 205, 3, 300, list(blocks), journal, 1_795_269_315)
    return Example(body(example), lambda frame: body(decode_records(frame.body)))


def _example(value: Any, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> Example:
    return Example(encode(value), lambda frame: encode(decode(frame.body)))


def _echoed(kind: Kind) -> Example:
    return Example(encode_frame(kind, b"barrier"), lambda frame: encode_frame(frame.kind, frame.body))


def _hello(**fields: Any) -> Example:
    return _example(Hello(protocol=1, software="topichub", **fields), Hello.encode, Hello.decode)


def _notice(kind: Any, **fields: Any) -> Example:
    return _example(Notice(kind, **fields), encode_notice, decode_notice)


def _request(**fields: Any) -> Example:
    made = Request(**({"target": b"/sum", "first": 7, "timeout_ms": 5_000, "values": encode_value([1, 2])} | fields))
    return Example(made.encode(), lambda frame: Request.decode(frame).encode())


def _reply(reply: Reply) -> Example:
    return Example(reply.encode(), lambda frame: Reply.decode(frame).encode())


TWO_VALUES = (2).to_bytes(4, "big") + encode_value([1, 2]) + encode_value("x")

ANNOUNCED = (
    "/zeek/",
    Rule(("door", "urgent"), "/house", ""),
    Served("/sum"),
    Announced("org.example.Player", ("video",), 1_795_269_315_000_000, 17),
    Leaf(bytes(range(48, 64)), 1_795_269_315_000_001),
)

EXAMPLES = {
    "HELLO client": _hello(role="client"),
    "HELLO client, everything": _hello(
        role="client", name="sensor", token="hub_abc", narrow=True, origins=True, shared=1, frame=65_536,
        queue=QueueWish(messages=100, bytes=65_536, overflow=Overflow.DISCONNECT),
    ),
    "HELLO hub": _hello(role="hub", id=HUB, name="hub-1"),
    "HELLO hub, to a client": _hello(
        role="hub", id=HUB, name="hub-1", journal=JOURNAL, shared=65_536, until=12.5, origins=True,
        queue=QueueWish(messages=8_192, bytes=67_108_864, overflow=Overflow.DROP_OLDEST),
    ),
    "HELLO hub, of a link": _hello(role="hub", id=HUB, name="hub-1", token="hub_abc", link=b"linklink", mesh=1),
    "MESSAGES": _messages("/zeek/dns", {"query": "example.org", "ttl": 300}),
    "MESSAGES BATCH": _messages("/a", 1, "two", [3.5, None, b"x"]),
    "MESSAGES CONFIRM": _messages("/a", 1, flags=FLAG_CONFIRM),
    "MESSAGES TAGGED": _messages("/house/door", True, labels=("north", "urgent")),
    "MESSAGES TAGGED, with names": _messages("/a", 1, labels=("x",), sender="org.a", destination="org.b"),
    "MESSAGES Broker": _messages("/zeek/dns", bytes.fromhex("02000000000000002a"), flags=BROKER_FLAGS),
    "MESSAGES SHARED, memory of its own": _handle(Handle(100_000)),
    "MESSAGES SHARED, a block": _handle(Handle(100_000, 3, 128, 42)),
    "MESSAGES SHARED BATCH": _handle(Handle(100_000, 3, 128, 42), FLAG_SHARED | FLAG_BATCH),
    "SUBSCRIBE": _subscription(Kind.SUBSCRIBE, 7),
    "SUBSCRIBE, no confirmation": _subscription(Kind.SUBSCRIBE, 0),
    "UNSUBSCRIBE": _subscription(Kind.UNSUBSCRIBE, 8),
    "SERVE": _subscription(Kind.SERVE, 7),
    "UNSERVE": _subscription(Kind.UNSERVE, 8),
    "REQUEST": _request(),
    "REQUEST NAMED": _request(target=b"org.example.Sum", flags=FLAG_NAMED, timeout_ms=0),
    "REQUEST BATCH": _request(flags=FLAG_BATCH, values=TWO_VALUES),
    "REPLY": _reply(Reply(7, Status.OK, encode_value(3))),
    "REPLY BATCH": _reply(Reply(7, Status.OK, TWO_VALUES, FLAG_BATCH)),
    **{f"REPLY {status.name}": _reply(failure(7, 1, status, "why")) for status in Status if status},
    "REPLY BATCH, failed": _reply(failure(2**32 - 1, 2, Status.FAILED, "why")),
    "PING": _echoed(Kind.PING),
    "PONG": _echoed(Kind.PONG),
    "NOTICE confirmed": _notice("confirmed", request=7),
    "NOTICE confirmed, offset": _notice("confirmed", request=7, offset=0),
    "NOTICE confirmed, a batch again": _notice("confirmed", request=7, offset=5, count=3, again=True),
    "NOTICE confirmed, segment": _notice("confirmed", request=7, segment=2),
    "NOTICE confirmed, token": _notice("confirmed", request=7, until=60.0),
    "NOTICE confirmed, queued": _notice("confirmed", request=7, text="queued"),
    "NOTICE dropped": _notice("dropped", count=12_400),
    "NOTICE error": _notice("error", request=7, code=1008, text="not allowed", count=2),
    "NOTICE error, gone": _notice("error", request=7, code=4011, text="gone", offset=17),
    "NOTICE recorded": _notice("recorded", offset=17, count=3),
    "NOTICE unrecorded": _notice("unrecorded", code=4012, text="disk full", count=3),
    "NOTICE owned": _notice("owned", name="org.example.Player"),
    "NOTICE queued": _notice("queued", name="org.example.Player", code=1008, text="claimed before"),
    "NOTICE lost": _notice("lost", name="org.example.Player", code=1008, text="claimed before"),
    "CLOSE": Example(encode_close(1001, "going away"), lambda frame: encode_close(*decode_close(frame.body))),
    "CLOSE, a text that is cut": Example(
        encode_close(4008, "ü" * 100), lambda frame: encode_close(*decode_close(frame.body))
    ),
    "ORIGIN": _example(Origin(HUB, 17), encode_origin, decode_origin),
    "ORIGIN, marked": _example(
        Origin(HUB, 17, 2**40), encode_origin, decode_origin
    ),
    "ROUTING digest": _routing(Digest(((HUB, 1), (FAR, 2**32 - 1)))),
    "ROUTING wanted": _routing(Wanted(FAR)),
    "ROUTING announcement": _routing(Announcement(HUB, 3, 4, "", ((FAR, 10),), ANNOUNCED, ("/old/",))),
    "ROUTING announcement, full copy": _routing(Announcement(HUB, 0, 4, "hub-1", (), ("/zeek/",))),
    "ROUTING announcement, incomplete": _routing(
        Announcement(HUB, 0, 4, "hub-1", ((FAR, 10),), (Served("/sum"),), is_whole=False)
    ),
    "FETCH": _example(Fetch(7), encode_fetch, decode_fetch),
    "FETCH, everything": _example(
        Fetch(7, 10, None, 20, ("/a", "/b"), 4_096, 1_000, "hub-2", JOURNAL, ("offset", "value"), 3),
        encode_fetch,
        decode_fetch,
    ),
    "FETCH by time": _example(Fetch(7, time=1_795_269_315_000_000), encode_fetch, decode_fetch),
    "RECORDS": _records(b"block one", b"two"),
    "RECORDS, none, of a journal": _records(journal=JOURNAL),
    "STAGE": _example(Stage(7, "run-1/3", 12, Batch.of("/a", [1]).frames), encode_stage, decode_stage),
    "COMMIT": _example(Commit(7, "run-1/3", "run-1", 3, [1, 12]), encode_commit, decode_commit),
    "COMMIT, abort": _example(Commit(7, "run-1/3", abort=True), encode_commit, decode_commit),
    "CLAIM": _example(NameClaim(7, Wish("org.example.Player", ("video",), True)), encode_claim, decode_claim),
    "RELEASE": _example(NameRelease(7, "org.example.Player"), encode_release, decode_release),
    "RULE": _rules(Kind.RULE),
    "UNRULE": _rules(Kind.UNRULE),
    "SEGMENT": _example(Segment(7, 1 << 20), encode_segment, decode_segment),
    "SEGMENT, its end": _example(Segment(2, 0), encode_segment, decode_segment),
    "RELEASED": _example([(2, 42), (0, 3)], encode_released, lambda body: decode_released(body).each),
    "TOKEN": _example(Renewal(7, "hub_abc"), encode_token, decode_token),
    "ACCOUNT": _example(Account(b"linklink", 100, 99), encode_account, decode_account),
    "ACCOUNT, the last": _example(Account(b"linklink", 100, 99, last=True), encode_account, decode_account),
}  # fmt: skip


def test_frames_have_the_recorded_bytes() -> None:
    check("frames.txt", [f"{name}\t{example.frame.hex()}" for name, example in EXAMPLES.items()])


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_read_is_written_again(name: str) -> None:
    example = EXAMPLES[name]
    (frame,) = iterate_frames(example.frame)
    assert example.again(frame) == example.frame


def test_every_kind_has_an_example() -> None:
    shown = {iterated.kind for example in EXAMPLES.values() for iterated in iterate_frames(example.frame)}
    assert set(Kind) <= shown
