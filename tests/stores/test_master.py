"""A hub with stores answers requests to them, by rights, and tells what has changed; nobody else does."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from hub.errors import (
    CloseCode,
    HubError,
    NotAllowedError,
    RejectedError,
    RequestFailedError,
    RequestOverflowError,
    UsageError,
)
from hub.labels.envelope import Envelope
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_TAGGED, Encoding, Frame
from hub.policy.language import read_policy
from hub.settings.settings import JournalSettings, Settings, StoresSettings
from hub.stores.command import ChangeKind, Command
from peers.client import Client, connect
from peers.stores.keeping import InMemory
from peers.stores.master import SNAPSHOT_NS, SNAPSHOTS_LIMIT
from peers.values import encode
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from tests.connections.broker.conftest import PLAIN
from tests.connections.broker.scripted import HIGH, ZeekHub
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub, kept_hubs
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens
from tests.hubs.raw_client import publication
from tests.stores.packed import master_of, pack

READ, WRITE, CHANGES = "$store/s/read", "$store/s/write", "$store/s/changes/"


async def test_text_is_taken_in_place_of_bin(client: Client, storing: Hub) -> None:
    def text(value: Any) -> str:
        return b64encode(pack(value)).decode()

    first = await client.request(WRITE, ["put", text("k"), text(1)])
    assert await client.request(WRITE, ["increment", text("k"), text(2)]) == [first + 1, pack(3)]
    puts = [["put", text(n), text("x")] for n in range(3)]
    assert await client.request_many(WRITE, puts) == [first + 2, first + 3, first + 4]
    mixed = await client.request_many(
        WRITE, [["put", text(7), text(1)], ["put", pack(8), pack(1)], ["put", "=", text(1)]], return_exceptions=True
    )
    assert mixed[:2] == [first + 5, first + 6]
    assert "text that is its base64" in str(mixed[2])
    state = [first - 1, first + 6, 6, master_of(storing).store.size_bytes]
    reads = [["exists", text(7)], ["exists", text(9)], ["state"]]
    assert await client.request_many(READ, reads) == [True, False, state]
    assert (await client.request(READ, ["get", text("k")]))[0] == pack(3)
    await client.request(WRITE, ["put", text("v"), text(("a",))])
    assert await client.request(READ, ["index", text("v"), text(0)]) == pack("a")
    client.publish_nowait(WRITE, ["erase", text("v")])
    await eventually(lambda: master_of(storing).store.get(pack("v")) is None)


@pytest.mark.parametrize(
    ("topic", "asked", "text"),
    [
        (WRITE, ["put", "k", pack(1)], "nothing that a store can be asked: Expected `bytes`"),
        (READ, ["get", "é"], "or text that is its base64"),
        (READ, ["get", 7], "nothing that a store can be asked: Expected `bytes`"),
        (WRITE, ["shuffle", pack("k"), pack(1)], "nothing that a store can be asked for"),
        (WRITE, ["put", pack("k")], "put needs a value"),
        (WRITE, 7, "nothing that a store can be asked"),
        (WRITE, ["put", pack("k"), pack(1), 0], "an expiry of 0 ns"),
        (READ, ["take", pack("k")], "nothing that a store can be asked"),
        (READ, ["more", 77], "this reading is over"),
        (READ, ["index", pack("k"), pack(1)], "there is no entry"),
        ("$store/s/", ["get", pack("k")], "a store is asked under"),
    ],
)
async def test_what_cannot_be_done_is_refused_with_a_reason(client: Client, topic: str, asked: Any, text: str) -> None:
    with pytest.raises(RequestFailedError, match=text):
        await client.request(topic, asked)
    assert (await client.request(READ, ["state"]))[2] == 0


async def test_a_frame_of_commands_is_one_batch(client: Client, storing: Hub) -> None:
    """Each has its own answer, and messages have none; what is refused does not keep the others from being done."""
    master = master_of(storing)
    wishes = [["put", pack(n), pack("x")] if n % 3 else ["pop", pack(n)] for n in range(10)]
    answers = await client.request_many(WRITE, wishes, return_exceptions=True)
    assert [isinstance(answer, HubError) for answer in answers] == [n % 3 == 0 for n in range(10)]
    assert len(master.store) == 6
    assert master.statistics().commands_total == 10
    refused = master.statistics().store.refused_total
    client.publish_nowait("$store/s/written", ["put", pack(9), pack(1)])
    for wish in (["put", pack(0), pack(1)], "nonsense"):
        client.publish_nowait(WRITE, wish)
    await eventually(lambda: master.statistics().store.refused_total == refused + 1)
    assert len(master.store) == 7


async def test_entries_expire(client: Client, storing: Hub) -> None:
    """A timer takes them away, and tells it; what comes later does not hold up what is to come before."""
    stream = client.subscribe(CHANGES)
    await stream.open()
    await client.request(WRITE, ["put", pack("late"), pack(1), 3_600 * 10**9])
    await client.request(WRITE, ["put", pack("soon"), pack(1), 1])
    await eventually(lambda: pack("soon") not in master_of(storing).store.entries)
    kinds = [(await anext(stream)).value[1][0][1:3] for _ in range(3)]
    assert kinds[-1] == [ChangeKind.EXPIRE, pack("soon")]
    assert pack("late") in master_of(storing).store.entries


async def test_pages_go_on_where_the_last_one_ended(client: Client) -> None:
    count = 3_000
    await client.request_many(WRITE, [["put", pack(n), pack("x" * 300)] for n in range(count)])
    page = await client.request(READ, ["rows", "", True])
    keys = [row[0] for row in page[4]]
    assert 0 < len(keys) < count
    while page[1]:
        await client.request(WRITE, ["put", pack(0), pack(len(keys))])
        page = await client.request(READ, ["more", page[1]])
        keys += [row[0] for row in page[4]]
    assert keys == [pack(n) for n in range(count)]
    assert page[3] > page[2]


async def test_pages_are_held_for_a_few(client: Client, storing: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.request_many(WRITE, [["put", pack(n), pack("x" * 300)] for n in range(2_000)])
    master = master_of(storing)
    for _ in range(SNAPSHOTS_LIMIT):
        page = await client.request(READ, ["rows", "", True])
    assert page[1]
    assert master._held_bytes == SNAPSHOTS_LIMIT * 16_000
    with pytest.raises(RequestOverflowError, match="64 others"):
        await client.request(READ, ["rows", "", False])
    replica = client.store("s").replica()
    opening = asyncio.ensure_future(replica.open())
    now_ns = master._now_ns()
    monkeypatch.setattr(master, "_now_ns", lambda: now_ns + SNAPSHOT_NS + 1)
    await opening
    await replica.close()
    assert (len(master._held), master._held_bytes) == (0, 0)


async def test_memory_is_charged_and_given_back(client: Client, storing: Hub) -> None:
    account = storing.server.memory.account("stores")
    await client.request(WRITE, ["put", pack("k"), pack("x" * 1_000)])
    assert account.size_bytes > 2_000
    await storing.server.stores.stop()
    assert account.size_bytes == 0
    with pytest.raises(HubError):
        await client.request(READ, ["state"])


async def test_without_memory_stores_only_shrink(client: Client, storing: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.request(WRITE, ["put", pack("k"), pack("x")])
    monkeypatch.setattr(storing.server.memory, "is_over", True)
    master = master_of(storing)
    told: list[Any] = []
    master.apply([Command("put", pack("l"), pack(1)), Command("erase", pack("k"))], lambda *of: told.append(of))
    ((outcomes, error),) = told
    assert error is None
    assert "no memory left" in outcomes[0].text
    assert len(master.store) == 0


async def test_clients_have_no_stores(client: Client) -> None:
    with pytest.raises(HubError, match="hubs alone have stores"):
        async with client.serve("$store/t/", lambda _: 1):
            pass
    async with client.serve("", lambda _: 1):
        with pytest.raises(HubError, match="no service for this topic"):
            await client.request("$store/t/read", ["state"])


def test_a_store_needs_a_name_of_its_own(hub: Hub) -> None:
    stores = hub.server.stores
    for name in ("", "a/b", "a=b"):
        with pytest.raises(UsageError, match="not a valid name of a store"):
            stores.add(name, None, InMemory(lambda: 1))  # type: ignore[arg-type]


_POLICY = {
    "roles": {
        "reader": {"request": ["$store/s/read"], "subscribe": ["$store/s/changes"]},
        "getter": {"request": ["$store/s/read"]},
        "writer": {"request": ["$store/s"], "publish": ["$store/s/write"]},
        "member_of_all": {"request": ["*"], "subscribe": ["*"], "publish": ["*"]},
    },
    "users": {"rita": ["reader"], "gert": ["getter"], "walt": ["writer"], "mary": ["member_of_all"]},
}


@pytest.fixture
async def users(start_hub: StartHub) -> KnownTokens:
    hub = await start_hub(settings=Settings(stores=StoresSettings(open=("s=:memory:", "t=:memory:"), user_entries=2)))
    known = KnownTokens(hub)
    known._users = known._users._replace(policy=read_policy(_POLICY, "test"))
    hub.server.core.authority.adopt(known._users.policy)
    return known


async def test_who_may_read_may_not_write(users: KnownTokens) -> None:
    async with (
        connect(users.hub.url, token=users.token("rita")) as reader,
        connect(users.hub.url, token=users.token("gert")) as getter,
        connect(users.hub.url, token=users.token("walt"), name="w") as writer,
    ):
        await writer.store("s").put("k", 1)
        writer.store("s").put_nowait("l", 2)
        await eventually(lambda: len(master_of(users.hub).store) == 2)
        for client in (reader, getter):
            assert await client.store("s").get("k") == 1
            with pytest.raises(NotAllowedError):
                await client.store("s").put("k", 2)
        async with reader.store("s").watch() as changes:
            assert {(await anext(changes)).key, (await anext(changes)).key} == {"k", "l"}
            await writer.store("s").erase("k")
            assert (await anext(changes)).publisher == "walt"
        with pytest.raises(RejectedError):
            await getter.store("s").watch().open()
        with pytest.raises(NotAllowedError):
            await reader.store("t").get("k")


async def test_a_user_has_a_share(users: KnownTokens) -> None:
    token = users.token("walt")
    async with connect(users.hub.url, token=token) as one, connect(users.hub.url, token=token) as other:
        await one.store("s").put(1, 1)
        await other.store("s").put(2, 2)
        with pytest.raises(RequestFailedError, match="2 entries of user 'walt'"):
            await one.store("s").put(3, 3)
        async with connect(users.hub.url, token=users.token("mary")) as mary:
            await mary.store("s").put(3, 3)


# Changes are told by the store: whoever else publishes under their topic is refused, at every door.

DECEPTION = [1 << 60, [[1 << 60, 0, pack("k"), pack("deceived"), None, None]]]
REFUSAL = "only a store publishes its changes there"


@pytest.fixture
async def open_hub(uncaught: None) -> AsyncIterator[ZeekHub]:  # noqa: ARG001 -- looks afterwards
    async with kept_hubs() as hubs:
        hub = ZeekHub(Settings(stores=StoresSettings(open=("s=:memory:",))), "hub", HIGH)
        hubs.append(hub)
        await hub.listen()
        await hub.listen_for_zeeks(PLAIN)
        yield hub


async def over_tcp(hub: ZeekHub) -> None:
    elsewhere = ["$store/s/change/", "$store/s/other", "$store/s/a/changes/", "$store/changes/"]
    reader, client = await hub.client("/beside", *elsewhere), await hub.client()
    labelled = Batch.under(Envelope(CHANGES, ("x",)).encode(), [DECEPTION], FLAG_TAGGED).frames
    alone = publication(CHANGES, DECEPTION)
    for stream in (publication("/beside/a", 1) + alone + publication("/beside/b", 2), alone, labelled):
        await client.send(stream)
        (notice,) = [decode_notice(frame.body) for frame in await client.ping() if frame.kind == Kind.NOTICE]
        assert (notice.code, notice.count) == (CloseCode.NOT_ALLOWED, 1)
        assert REFUSAL in notice.text
    for topic in elsewhere:
        await client.publish(topic, 1)
    assert [topic for topic, _ in await reader.values(6)] == ["/beside/a", "/beside/b", *elsewhere]


async def by_a_zeek(hub: ZeekHub) -> None:
    reader = await hub.client("/zeek", name="reader")
    zeek = await hub.zeek()
    with structlog.testing.capture_logs() as logs:
        zeek.publish(CHANGES, encode("deceived"))
        zeek.publish("/zeek/x", encode("fine"))
        frame = await reader.frame()
    assert isinstance(frame, Frame)
    assert (frame.topic, frame.encoding) == (b"/zeek/x", Encoding.BROKER)
    told = [line["reason"] for line in logs if line["event"] == "messages of a Zeek refused"]
    assert len(told) == 1
    assert REFUSAL in told[0]


async def by_another_hub(hub: ZeekHub) -> None:
    """A hub that has another store of that name: its changes do not pass for those of the store that is here."""
    async with kept_hubs() as hubs:
        other = Hub(Settings(stores=StoresSettings(open=("s=:memory:",))), "other")
        hubs.append(other)
        await other.listen()
        other.dial(hub)
        reader = await hub.client(CHANGES)
        await eventually(lambda: other.server.core.routes.find(CHANGES).far)
        async with connect(other.url) as client:
            await client.store("s").put("k", "of another store")
        link = hub.handler("other")
        await eventually(lambda: hub.server.rejected_messages == 1)
        assert link.published_messages == 0
        async with connect(hub.url) as client:
            await client.store("s").put("k", "of this one")
            ((topic, (_, (change,))),) = await reader.values(1)
            assert (topic, change[3]) == (CHANGES, pack("of this one"))


@pytest.mark.parametrize("door", [over_tcp, by_a_zeek, by_another_hub])
async def test_nobody_tells_what_a_store_does(open_hub: ZeekHub, door: Callable[[ZeekHub], Awaitable[None]]) -> None:
    async with connect(open_hub.url) as client, client.store("s").watch() as changes:
        await door(open_hub)
        await client.store("s").put("last", 1)
        heard = [await anext(changes)]
        while heard[-1].key != "last":
            heard.append(await anext(changes))
    assert "deceived" not in [change.value for change in heard]


async def test_nor_into_a_journal(start_hub: StartHub, tmp_path: Path) -> None:
    journal = JournalSettings(path=str(tmp_path / "journal"), topics=("$store/",))
    hub = await start_hub(settings=Settings(stores=StoresSettings(open=("s=:memory:",)), journal=journal))
    async with connect(hub.url) as client:
        await client.store("s").put("k", 1)
        with pytest.raises(RejectedError, match=REFUSAL):
            await client.publish_confirmed(CHANGES, DECEPTION)
        with pytest.raises(RejectedError, match="changes of a store are not staged"):
            await client.stage("one", 0, Batch.of(CHANGES, [DECEPTION]).frames)
        await client.store("s").put("k", 2)
        while (await client.journal()).head < 2:  # noqa: ASYNC110 -- the hub is asked
            await asyncio.sleep(0.001)
        recorded = [record.value async for record in client.read("$store/")]
    assert [changes[0][3] for _, changes in recorded] == [pack(1), pack(2)]
