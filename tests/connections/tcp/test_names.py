"""Service names over sockets: what a client is told, and what hubs tell each other."""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec

from hub.batch import encode_value
from hub.errors import CloseCode
from hub.far_hub import FarHub
from hub.frame import encode_frame, iterate_frames
from hub.names.claim import Announced, Wish
from hub.names.names import Names
from hub.request_frame import Reply, Request, Status
from hub.settings.sections import NamesSettings
from hub.settings.settings import Settings
from peers.wire.control import Notice, decode_notice, encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.names import NameClaim, NameRelease, encode_claim, encode_release
from tests.connections.pretend import Stage
from tests.hubs.fixtures import StartHub
from tests.hubs.raw_client import RawClient

NAME = "org.example.Player"


def claim(request: int, name: str = NAME, *labels: str, queue: bool = False) -> bytes:
    return encode_claim(NameClaim(request, Wish(name, labels, queue)))


def release(request: int, name: str = NAME) -> bytes:
    return encode_release(NameRelease(request, name))


async def notice(client: RawClient) -> Notice:
    frame = await client.frame()
    assert frame.kind == Kind.NOTICE, frame
    return decode_notice(frame.body)


async def test_claim_and_release(start_hub: StartHub) -> None:
    hub = await start_hub()
    one, two, three = [await hub.client(name=f"client-{number}") for number in range(3)]
    await one.send(claim(1))
    assert await notice(one) == Notice("confirmed", request=1)
    await two.send(claim(1))
    refused = await notice(two)
    owner = hub.handler("client-0").id
    assert refused == Notice(
        "error", request=1, code=CloseCode.NOT_ALLOWED, text=f"name {NAME} is owned by client {owner} 'client-0'"
    )
    await two.send(claim(2, queue=True))
    assert await notice(two) == Notice("confirmed", request=2, text="queued")
    await three.send(claim(0, queue=True))
    assert await three.ping() == []
    await one.send(release(2))
    assert await notice(one) == Notice("confirmed", request=2)
    assert await notice(two) == Notice("owned", name=NAME)
    two.close()
    assert await notice(three) == Notice("owned", name=NAME)
    await three.send(release(3, "a.b"))
    assert (await notice(three)).text == "name a.b is not claimed by this client; nobody owns it"


async def test_all_in_one_packet() -> None:
    stage = Stage()
    connection = stage.connect()
    frames = [
        Hello(protocol=1, role="client").encode(),
        encode_subscription(Kind.SUBSCRIBE, ["/a"], 1),
        claim(2, NAME, "x"),
        Request(b"$hub/names", 3, 0, encode_value(None)).encode(),
        Request(b"/nobody", 4, 0, encode_value(None)).encode(),
        claim(5, "bad"),
    ]
    connection.data_received(b"".join(frames))
    (written,) = stage.transport_of(connection).far.incoming
    assert written is not None
    told = list(iterate_frames(written))
    assert [frame.kind for frame in told] == [Kind.HELLO, Kind.NOTICE, Kind.NOTICE, Kind.NOTICE, Kind.REPLY, Kind.REPLY]
    notices = [decode_notice(frame.body) for frame in told[1:4]]
    assert [(each.kind, each.request) for each in notices] == [("confirmed", 1), ("confirmed", 2), ("error", 5)]
    listed, nobody = (Reply.decode(frame) for frame in told[4:])
    assert (listed.first, listed.status, nobody.first, nobody.status) == (3, Status.OK, 4, Status.NO_RESPONDER)
    (name,) = msgpack.unpackb(listed.values)
    assert name == {"name": NAME, "labels": ["x"], "owner": 2, "hub": stage.node.id.hex()}


async def test_lists(start_hub: StartHub) -> None:
    hub = await start_hub()
    client = await hub.client()
    await client.send(*(claim(0, name) for name in ("a.a", "a.b", "b.a")))

    async def ask(value: Any) -> Reply:
        await client.send(Request(b"$hub/names", 7, 0, encode_value(value)).encode())
        return Reply.decode(await client.frame())

    async def names(value: Any) -> list[str]:
        return [each["name"] for each in msgpack.unpackb((await ask(value)).values)]

    assert await names(None) == ["a.a", "a.b", "b.a"]
    assert await names("a.") == ["a.a", "a.b"]
    assert await names({"prefix": "a.", "after": "a.a"}) == ["a.b"]
    nonsenses: list[Any] = [7, [], {"prefix": 7}, {"name": "a.a"}]
    for nonsense in nonsenses:
        reply = await ask(nonsense)
        assert reply.status == Status.FAILED
        assert msgpack.unpackb(reply.values).startswith("expected null, a prefix, or a map")


async def test_too_many_lists_at_once(start_hub: StartHub) -> None:
    hub = await start_hub()
    client = await hub.client()
    asked = [Request(b"$hub/names", number, 0, encode_value(None)).encode() for number in range(20)]
    for _ in range(2):
        await client.send(*asked)
        statuses = [Reply.decode(await client.frame()).status for _ in asked]
        assert statuses == [Status.OK] * 16 + [Status.OVERFLOW] * 4


async def test_requests_to_a_name(start_hub: StartHub) -> None:
    hub = await start_hub()
    service, client = await hub.client(), await hub.client()
    request = Request(NAME.encode(), 7, 0, b"\x01", flags=0b1000)
    await client.send(request.encode())
    assert Reply.decode(await client.frame()).status == Status.NO_RESPONDER
    await service.send(claim(0))
    await service.ping()
    await client.send(request.encode())
    asked = Request.decode(await service.frame())
    assert (asked.target, asked.values) == (NAME.encode(), b"\x01")
    await service.send(Reply(asked.first, Status.OK, b"\x02").encode())
    assert Reply.decode(await client.frame()) == Reply(7, Status.OK, b"\x02")


async def test_bad_names(start_hub: StartHub) -> None:
    settings = Settings(names=NamesSettings(per_client=1, total=2))
    hub = await start_hub(settings=settings)
    client, other = await hub.client("$hub/names/"), await hub.client()
    bad = encode_frame(Kind.CLAIM, msgspec.msgpack.encode([4, NAME, ["x"] * 33, False]))
    await client.send(claim(1, "player"), claim(2, "a." + "b" * 300), claim(3, NAME, ""), bad, claim(5, NAME))
    told = [await notice(client) for _ in range(4)]
    assert [(each.request, each.code) for each in told] == [(number, CloseCode.BAD_DATA) for number in range(1, 5)]
    assert await notice(client) == Notice("confirmed", request=5)
    await client.frame()  # it has appeared
    await client.send(claim(6, "a.b"))
    assert (await notice(client)).text == "name a.b: this client has claimed 1 names, which is the limit"
    assert await other.ping() == []


async def test_who_does_not_read_is_told_once(start_hub: StartHub) -> None:
    hub = await start_hub()
    client = await hub.client(name="slow")
    await client.send(claim(1, NAME, queue=True))
    assert await notice(client) == Notice("confirmed", request=1)
    names: Names = hub.node.core.names
    link = FarHub(b"\x07" * 16)
    handler = hub.handler("slow")
    handler.pause()
    for _ in range(3):
        names.hear(link, [Announced(NAME, (), 1, 1)], [])
        names.hear(link, [], [NAME])
    names.hear(link, [Announced(NAME, (), 1, 1)], [])
    hub.connections[0].resume_writing()
    told = await notice(client)
    assert (told.kind, told.name, told.code) == ("queued", NAME, CloseCode.NOT_ALLOWED)
    assert told.text.endswith("whose claim was earlier")
    assert await client.ping() == []
