"""Bad input over real sockets: one clear answer for each, everybody else unaffected, and the reason always arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from hub.errors import CloseCode
from hub.messages.frame import BATCH_COUNT, FLAG_TAGGED, HEADER, encode_frame
from peers.wire.control import decode_notice
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient, publication
from tests.hubs.settings import settings_of

HELLO = Hello(protocol=1, role="client").encode()


def messages(topic: bytes, body: bytes = b"\xc0", flags: int = 0) -> bytes:
    return encode_frame(Kind.MESSAGES, body, key=topic, flags=flags)


class Bad(NamedTuple):
    stream: bytes
    code: int
    text: str
    greeted: bool = True


ERROR, BIG, DATA = CloseCode.PROTOCOL_ERROR, CloseCode.TOO_BIG, CloseCode.BAD_DATA
FIRST = {
    "garbage": (b"\xff" * 100, BIG, "routing key of 65535 bytes, limit 6144"),
    "a large first frame": (HEADER.pack(65_537, Kind.HELLO, 0, 0), BIG, "body of 65537 bytes, limit 65536"),
    "messages first": (publication("/a", 1), ERROR, "MESSAGES is not expected before HELLO"),
}
LATER = {
    "an unknown kind": (encode_frame(99, b""), ERROR, "unknown kind 99"),
    "a body over the limit": (
        HEADER.pack((16 << 20) + 1, Kind.MESSAGES, 0, 2),
        BIG,
        "body of 16777217 bytes, limit 16777216",
    ),
    "refused messages and then garbage": (messages(b"") * 5 + b"\xff" * 8, BIG, "routing key of"),
}
FATAL = {name: Bad(*bad, name in LATER) for name, bad in (FIRST | LATER).items()}

REFUSED = {
    "an empty topic": (messages(b""), DATA, "topic is empty"),
    "a long topic": (messages(b"/" * 1025), DATA, "is 1025 bytes long, the limit is 1024 bytes"),
    "a topic that is not UTF-8": (messages(b"/\xff"), DATA, "is not UTF-8 at byte 1"),
    "the hub's own topic": (messages(b"$hub/overflow"), CloseCode.NOT_ALLOWED, "$hub/ is the hub's own"),
    "unknown flags": (messages(b"/a", flags=128), DATA, "flags 0b10000000"),
    "a batch of too many": (
        messages(b"/a", BATCH_COUNT.pack(2**32 - 1) + b"\xc0", 1),
        DATA,
        "BATCH: a body of 5 bytes",
    ),
    "a subscription nested deep": (encode_frame(Kind.SUBSCRIBE, b"\x91" * 100_000), DATA, "SUBSCRIBE: "),
    "a subscription bomb": (encode_frame(Kind.SUBSCRIBE, b"\x92\x00\xdd\xff\xff\xff\xff"), DATA, "SUBSCRIBE: "),
    "an envelope out of order": (
        encode_frame(Kind.MESSAGES, b"\1", key=b"\0\x02/a\0\0\x01b\x01a", flags=FLAG_TAGGED),
        DATA,
        "tagged: labels ascend in the order of their bytes, and none is there twice",
    ),
}


@dataclass
class Others:
    publisher: RawClient
    subscriber: RawClient

    async def are_unaffected(self) -> None:
        await self.publisher.publish("/others", "still here")
        assert await self.subscriber.values(1) == [("/others", "still here")]
        assert await self.publisher.ping() == []
        assert await self.subscriber.ping() == []


@pytest.fixture
async def others(hub: Hub) -> Others:
    return Others(await hub.client(name="publisher"), await hub.client("/", name="subscriber"))


async def test_what_ends_the_connection(hub: Hub, others: Others) -> None:
    for name, bad in FATAL.items():
        client = await hub.raw()
        if bad.greeted:
            await client.greet(name="bad")
        await client.send(bad.stream)
        code, text = await client.end()
        assert (code, bad.text in text) == (bad.code, True), f"{name}: {text}"
        assert [handler.name for handler in hub.server.core.handlers.values()] == ["publisher", "subscriber"]
        await others.are_unaffected()
        client.close()
    await eventually(lambda: len(hub.server.connections) == 2)


@pytest.mark.parametrize("name", ["garbage", "an unknown kind"])
async def test_the_reason_arrives_while_the_client_sends_on(hub: Hub, others: Others, name: str) -> None:
    bad = FATAL[name]
    client = await hub.raw()
    if bad.greeted:
        await client.greet()
    await client.send(bad.stream)
    for _ in range(50):
        await client.send(publication("/others", "late") * 1000)
    code, text = await client.end()
    assert code == bad.code
    assert bad.text in text
    await client.send(publication("/others", "late") * 1000)
    await others.are_unaffected()


async def test_what_is_refused(hub: Hub, others: Others) -> None:
    client = await hub.client("/mine")
    for name, (stream, code, text) in REFUSED.items():
        await client.send(publication("/mine", 1), stream, publication("/mine", 2))
        found = [await client.frame() for _ in range(3)]
        assert sorted(frame.kind for frame in found) == [Kind.MESSAGES, Kind.MESSAGES, Kind.NOTICE], name
        (notice,) = [decode_notice(frame.body) for frame in found if frame.kind == Kind.NOTICE]
        assert (notice.kind, notice.code, text in notice.text) == ("error", code, True), f"{name}: {notice}"
        assert await others.subscriber.values(2) == [("/mine", 1), ("/mine", 2)]
    assert await client.ping() == []
    await others.are_unaffected()
    client.close()
    await eventually(lambda: len(hub.server.connections) == 2)
    assert hub.server.rejected_messages == 7


async def test_the_hub_reads_no_more_than_a_handshake(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(handshake_bytes=4096, frame_bytes=8192))
    client = await hub.raw()
    await client.send(HEADER.pack(4097, Kind.HELLO, 0, 0))
    assert await client.end() == (CloseCode.TOO_BIG, "body of 4097 bytes, limit 4096")
    client = await hub.client()
    await client.send(HEADER.pack(8193, Kind.MESSAGES, 0, 0))
    assert await client.end() == (CloseCode.TOO_BIG, "body of 8193 bytes, limit 8192")
