"""Data stores of Zeeks find each other through a hub, over sockets; the Zeeks' ends are those of this project.

What becomes of commands on a bad network, and at a hub that is killed, is seen in `tests/zeek/broker/stores`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import structlog
from prometheus_client import generate_latest

from hub.errors import RequestFailedError, RequestOverflowError
from hub.policy.language import read_policy
from hub.settings.settings import Settings, StoresSettings, ZeekSettings
from hub.stores.command import Command
from peers.client import connect
from peers.connections import broker
from peers.server.metrics import registry
from peers.users.users import Users
from peers.values import Count, encode, to_msgpack
from peers.zeek.broker.messages import NIL_ID, Envelope, EnvelopeType, encode_envelope
from peers.zeek.broker.stores.channel import SILENT_TICKS
from peers.zeek.broker.stores.command import NIL_ENTITY, Erase, Put, encode_command, entity, master_topic
from peers.zeek.broker.stores.command import Command as StoreCommand
from tests.connections.broker.conftest import StartHub
from tests.connections.broker.scripted import CLONE, LOW, MASTER, OTHER, Zeek, ZeekHub
from tests.hubs.eventually import eventually
from tests.hubs.known_tokens import KnownTokens


class Zeeks:
    def __init__(self, hub: ZeekHub) -> None:
        self.hub = hub
        self.all: list[Zeek] = []

    async def peer(self, own_id: bytes = LOW) -> Zeek:
        self.all.append(Zeek(own_id))
        self.all[-1].talk(await self.hub.zeek(own_id=own_id))
        return self.all[-1]

    async def part(self, zeek: Zeek) -> None:
        zeek.part()
        await eventually(lambda: zeek.id not in self.hub.peerings.registry)

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            for zeek in self.all:
                zeek.tick()
            await asyncio.sleep(0.001)


Peer = Callable[[ZeekHub], Zeeks]


@pytest.fixture
async def zeeks_of() -> AsyncIterator[Peer]:
    made: list[Zeeks] = []

    def make(hub: ZeekHub) -> Zeeks:
        made.append(Zeeks(hub))
        return made[-1]

    yield make
    for zeeks in made:
        for zeek in zeeks.all:
            zeek.part()


def packed(value: object) -> bytes:
    return to_msgpack(encode(value))


def metrics(hub: ZeekHub) -> str:
    return generate_latest(registry(hub.server)).decode()


def owner_of(hub: ZeekHub) -> Any:
    owner = hub.server.stores.get("hosts")
    assert owner is not None
    return owner


def content(hub: ZeekHub) -> dict[bytes, bytes]:
    return {key: value for key, (value, _, _) in owner_of(hub).store.entries.items()}


def change(hub: ZeekHub, *commands: Command) -> None:
    owner_of(hub).apply(list(commands), lambda *_: None, "alice")


def grant(hub: ZeekHub, **link: list[str]) -> None:
    KnownTokens(hub)
    policy = {"roles": {"copier": {"link": link}}, "users": {}}
    hub.server.access.adopt(Users(read_policy(policy, "test")))
    hub.server.core.authority.adopt(hub.server.access.policy)


async def test_a_master_and_a_clone_at_different_zeeks(hub: ZeekHub, zeeks_of: Peer) -> None:
    zeeks = zeeks_of(hub)
    one, two = await zeeks.peer(), await zeeks.peer(OTHER)
    served, cloned = one.serve(), two.copy()
    served.put("a", 1)
    cloned.clone.begin()
    await eventually(lambda: MASTER in two.filter and CLONE in one.filter)
    assert MASTER not in one.filter  # or it could not attach its master again
    await zeeks.until(lambda: cloned.replica.content == {encode("a"): encode(Count(1))})
    for number in range(100):
        cloned.add("a", number)
        served.put(f"k{number}", number)
    results: list[bool | None] = []
    cloned.put_unique("a", Count(0), results)
    await zeeks.until(lambda: cloned.clone.is_idle and served.master.is_idle)
    assert results == [False]
    assert cloned.replica.content == served.store.content
    assert len(served.store.content) == 101
    assert (hub.server.zeek.forwarder.stores, hub.server.zeek.forwarder.entities) == (1, 2)
    await zeeks.part(two)
    await eventually(lambda: CLONE not in one.filter)
    served.put("missed", 1)
    two.talk(await hub.zeek(CLONE, own_id=OTHER))
    await zeeks.until(lambda: cloned.replica.content == served.store.content and served.master.is_idle)
    assert cloned.lost == []


async def test_who_may_write(start_hub: StartHub, zeeks_of: Peer) -> None:
    hub = await start_hub(settings=Settings(zeek=ZeekSettings(role="copier")))
    zeeks = zeeks_of(hub)
    grant(hub, bring=["other"], take=["db"])
    one, two = await zeeks.peer(), await zeeks.peer(OTHER)
    hub.handler("11111111-1111-4111-8111-111111111111").rights = None  # the master's Zeek may do everything
    served, cloned = one.serve(), two.copy()
    served.put("a", 1)
    with structlog.testing.capture_logs() as logs:
        await zeeks.until(lambda: cloned.replica.content == served.store.content)
        for number in range(5):
            cloned.add("a", number)
        await zeeks.until(lambda: hub.server.zeek.forwarder.counters.refused >= 5)
    assert served.store.content == {encode("a"): encode(Count(1))}
    told = [line for line in logs if line["event"] == "a Zeek may not use a data store"]
    assert [(line["store"], line["reason"]) for line in told] == [("db", "bring 'db': not granted to user 'zeek'")]


# Stores of the hub itself.

HOSTS = StoresSettings(open=("hosts=:memory:",))
SERVED = Settings(stores=HOSTS, zeek=ZeekSettings(masters=("db=hosts",), forwarding="off"))
FOLLOWING = Settings(stores=HOSTS, zeek=ZeekSettings(clones=("db=hosts",), forwarding="off"))


async def test_a_clone_of_a_store_of_the_hub(start_hub: StartHub, zeeks_of: Peer) -> None:
    hub = await start_hub(settings=SERVED)
    change(hub, Command("put", packed("a"), packed(Count(1))))
    zeeks = zeeks_of(hub)
    one, two = await zeeks.peer(), await zeeks.peer(OTHER)
    clones = [one.copy(), two.copy()]
    await eventually(lambda: MASTER in one.filter and MASTER in two.filter)
    await zeeks.until(lambda: all(cloned.clone.is_attached for cloned in clones))
    results: list[bool | None] = []
    for number, cloned in enumerate(clones):
        cloned.add("a", 10)
        cloned.put_unique("u", number, results)
    change(hub, Command("put", packed("b"), packed("text"), 5_000_000_000))
    await zeeks.until(lambda: len(results) == 2 and all(cloned.clone.is_idle for cloned in clones))
    assert sorted(map(str, results)) == ["False", "True"]
    expected = {encode("a"): encode(Count(21)), encode("b"): encode("text")}
    for cloned in clones:
        winner = cloned.replica.content[encode("u")]
        assert cloned.replica.content == expected | {encode("u"): winner}
    assert content(hub) == {
        packed("a"): packed(Count(21)),
        packed("b"): packed("text"),
        packed("u"): to_msgpack(winner),
    }
    text = metrics(hub)
    assert 'hub_zeek_store_clones{store="db"} 2.0' in text
    assert 'hub_zeek_store_events_total{event="silent"} 0.0' in text
    hub.peerings.stores.close()
    change(hub, Command("clear"))  # nobody listens any more
    assert "hub_zeek_store_clones{" not in metrics(hub)


async def test_a_store_of_the_hub_that_follows_a_zeeks(start_hub: StartHub, zeeks_of: Peer) -> None:
    hub = await start_hub(settings=FOLLOWING)
    zeeks = zeeks_of(hub)
    one = await zeeks.peer()
    served = one.serve()
    served.put("a", 1)
    with structlog.testing.capture_logs() as logs:
        await zeeks.until(lambda: content(hub) == {packed("a"): packed(Count(1))})
    assert [line["store"] for line in logs if "follows its master" in line["event"]] == ["db"]
    assert 'hub_zeek_store_following{store="db"} 1.0' in metrics(hub)
    for number in range(100):
        served.put(f"k{number}", number)
    served.wish(Erase(encode("a"), served.own))
    await zeeks.until(lambda: len(content(hub)) == 100 and packed("a") not in content(hub))
    await zeeks.part(one)
    zeeks.all.clear()
    with structlog.testing.capture_logs() as logs:
        for _ in range(SILENT_TICKS + 1):
            hub.peerings.stores._clones.tick()
    assert [line["reason"] for line in logs if "follows no master" in line["event"]] == [
        "the master was silent for too long"
    ]
    assert len(content(hub)) == 100
    (await zeeks.peer(OTHER)).serve().put("b", 2)
    await zeeks.until(lambda: content(hub) == {packed("b"): packed(Count(2))})
    hub.peerings.stores.close()
    assert hub.server.zeek.copies == {}


async def test_clients_write_to_a_store_that_follows_a_zeeks(start_hub: StartHub, zeeks_of: Peer) -> None:
    hub = await start_hub(settings=FOLLOWING)
    zeeks = zeeks_of(hub)
    async with connect(hub.url, name="alice") as client:
        store = client.store("hosts")
        with pytest.raises(RequestOverflowError, match="no Zeek has its master now"):
            await store.put("early", 1)
        zeek = await zeeks.peer()
        served = zeek.serve()
        served.put("a", 1)
        await zeeks.until(lambda: content(hub))
        ticking = asyncio.ensure_future(zeeks.until(lambda: False))
        async with store.watch() as changes:
            assert (await anext(changes)).present
            assert await store.increment("a", Count(2)) == Count(3)
            told = await anext(changes)
            assert (told.key, told.value, told.publisher) == ("a", Count(3), "alice")
            assert await store.put_unique("a", 5) is False
            assert await store.erase("none") is False
            version = await store.put("b", "text")
            assert version is not None
            await asyncio.gather(*(store.append("b", str(number)) for number in range(10)))
            assert await store.get("b") == "text0123456789"
            with pytest.raises(RequestFailedError, match="knows no versions"):
                await store.put("b", 1, if_version=version)
            with pytest.raises(RequestFailedError, match="the entry is of type string"):
                await store.push("b", 1)
            store.put_nowait("c", 1)
            await eventually(lambda: packed("c") in content(hub))
            await store.clear()
        assert served.store.content == {} == content(hub)
        assert owner_of(hub).statistics().store.refused_total == 3
        ticking.cancel()
        zeek.ends.clear()  # it does not answer any more
        asked = asyncio.ensure_future(store.put("b", 2))
        (writes,) = hub.server.zeek.copies.values()
        await eventually(lambda: len(writes) == 1)
        await zeeks.part(zeek)
        with pytest.raises(RequestFailedError, match="has gone: it may have been carried out or not"):
            await asked
        with pytest.raises(RequestOverflowError, match="no Zeek has its master now"):
            await store.put("c", 3)


def say(zeek: Zeek, number: int) -> None:
    content = Put(encode(number), encode("v"), None, NIL_ENTITY)
    payload = encode_command(StoreCommand(2, entity(zeek.id, 1), NIL_ENTITY, content))
    zeek.far.write(encode_envelope(Envelope(zeek.id, NIL_ID, EnvelopeType.COMMAND, CLONE.encode(), payload)))


async def test_a_zeek_that_does_not_read(hub: ZeekHub, zeeks_of: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "QUEUE_COMMANDS", 3)
    zeeks = zeeks_of(hub)
    one, two = await zeeks.peer(), await zeeks.peer(OTHER)
    two.far.update([CLONE])
    await eventually(lambda: CLONE in one.filter)
    (writer,) = [zeek for zeek in hub.zeeks if zeek.conversation.far_name.startswith("2222")]
    writer.pause_writing()
    held_bytes = hub.server.held.size_bytes
    for number in range(5):
        say(one, number)
    await eventually(lambda: hub.server.zeek.forwarder.counters.undelivered == 2)
    assert hub.server.held.size_bytes > held_bytes
    assert two.heard == []
    writer.resume_writing()
    await eventually(lambda: len(two.heard) == 3)
    assert [command.content[0] for command in two.heard] == [encode(number) for number in range(3)]
    assert hub.server.held.size_bytes == held_bytes


async def test_what_the_log_says_of_stores(start_hub: StartHub, zeeks_of: Peer) -> None:
    hub = await start_hub(settings=SERVED)
    one = await zeeks_of(hub).peer()
    with structlog.testing.capture_logs() as logs:
        for topics in ([CLONE, "/a"], [CLONE, "/b"], [MASTER, "/b", master_topic("x")]):
            one.far.update(topics)
        await eventually(lambda: [line["event"] for line in logs].count("data stores of a Zeek") == 2)
    told = [(line["masters"], line["clones"]) for line in logs if line["event"] == "data stores of a Zeek"]
    assert told == [([], ["db"]), (["db", "x"], [])]
    assert [line["store"] for line in logs if "has a master of a store" in line["event"]] == ["db"]


async def test_what_a_zeek_may_not_have(start_hub: StartHub, zeeks_of: Peer) -> None:
    limited = StoresSettings(open=("hosts=:memory:",), user_entries=1)
    zeek = ZeekSettings(masters=("db=hosts",), forwarding="off", role="copier")
    hub = await start_hub(settings=Settings(stores=limited, zeek=zeek))
    grant(hub, bring=["db"], take=["db"])
    zeeks = zeeks_of(hub)
    cloned = (await zeeks.peer()).copy()
    await zeeks.until(lambda: cloned.clone.is_attached)
    with structlog.testing.capture_logs() as logs:
        for number, key in enumerate("ab"):
            cloned.add(key, number)
            await zeeks.until(lambda: cloned.clone.is_idle)
    (told,) = [line for line in logs if line["event"] == "a store rejected a command of a Zeek"]
    assert (told["store"], told["user"]) == ("db", "zeek")
    assert content(hub).keys() == {packed("a")}
    assert 'hub_zeek_store_refused_total{store="db"} 1.0' in metrics(hub)
