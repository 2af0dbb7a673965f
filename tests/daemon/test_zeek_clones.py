"""Clones as C++ Broker has them, at a hub that is killed with SIGKILL and started again, over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from peers.client import connect
from peers.values import Count, encode
from peers.values.layout import Tag
from peers.zeek.broker.messages import NIL_ID, Envelope, EnvelopeType, decode_filter, encode_envelope
from peers.zeek.broker.stores.command import Add, clone_topic, decode_command, entity, master_topic
from tests.connections.broker.scripted import LOW, OTHER, Endpointlike
from tests.daemon.hub_process import HubProcess
from tests.zeek.broker.stores.simulated import ServedStore
from tests.zeek.broker.stores.strict import StrictClone

MASTER, CLONE = master_topic("db"), clone_topic("db")
SUM = encode("sum")
WAIT_S = 60


class Zeek:
    def __init__(self, own_id: bytes) -> None:
        self.id = own_id
        self.clone = StrictClone(entity(own_id, 7), self._sender(MASTER))
        self.served: ServedStore | None = None
        self.far: Endpointlike | None = None
        self._filter: tuple[str, ...] = ()
        self._listening: asyncio.Future[None] | None = None

    async def peer(self, hub: HubProcess) -> None:
        far = await Endpointlike.connect(hub.endpoints[0], self.id)
        await far.peer(CLONE if self.served is None else MASTER)
        self.far, self._filter = far, far.hub_filter
        self._listening = asyncio.ensure_future(self._listen(far))

    def part(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        if self.far is not None:
            self.far.close()
            self.far = None

    def serve(self) -> ServedStore:
        self.served = ServedStore(self.id, self._sender(CLONE))
        return self.served

    def _sender(self, topic: str) -> Callable[[bytes, bytes], None]:
        def send(to: bytes, command: bytes) -> None:
            far = self.far
            if far is not None and (to == far.hub_id or (to == NIL_ID and topic in self._filter)):
                far.write(encode_envelope(Envelope(self.id, to, EnvelopeType.COMMAND, topic.encode(), command)))

        return send

    async def _listen(self, far: Endpointlike) -> None:
        while True:
            try:
                envelope = await far.envelope()
            except (asyncio.IncompleteReadError, ConnectionError):
                far.close()
                self.far = None
                return
            if envelope.type is EnvelopeType.ROUTING_UPDATE:
                self._filter = decode_filter(envelope.payload, 0, 1000)[0]
            elif envelope.type is EnvelopeType.COMMAND:
                command = decode_command(envelope.payload)
                if self.served is None:
                    self.clone.hear(command)
                else:
                    self.served.master.hear(command, len(envelope.payload))

    def tick(self) -> None:
        if self.served is None:
            self.clone.tick()
        else:
            self.served.master.tick()

    def add(self) -> None:
        self.clone.write(Add(SUM, encode(Count(1)), Tag.COUNT, None, self.clone.own))


Start = Callable[..., Awaitable[HubProcess]]


@pytest.fixture
async def zeeks() -> AsyncIterator[tuple[Zeek, Zeek]]:
    both = Zeek(LOW), Zeek(OTHER)
    yield both
    for zeek in both:
        zeek.part()


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    hubs: list[HubProcess] = []

    async def start_hub(
        store: str = f"hosts={tmp_path / 'hosts.db'}", masters: str = "db=hosts", other: str = ""
    ) -> HubProcess:
        arguments = ["--listen", "zeek+tcp://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0", "--store", store]
        if other:
            arguments += ["--store", other]
        hub = await HubProcess.start(arguments, {"HUB_ZEEK_MASTERS": masters})
        hubs.append(hub)
        return await hub.wait_up(2)

    yield start_hub
    for hub in hubs:
        await hub.kill()


async def until(zeeks: tuple[Zeek, ...], condition: Callable[[], object], *, quicker: float = 4) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            for zeek in zeeks:
                zeek.tick()
            await asyncio.sleep(0.1 / quicker)


def _all_have(zeeks: tuple[Zeek, ...], content: dict[bytes, bytes]) -> bool:
    return all(zeek.clone.content == content and not zeek.clone.unconfirmed for zeek in zeeks)


async def test_clones_go_on_behind_a_kill(start: Start, zeeks: tuple[Zeek, Zeek]) -> None:
    hub = await start()
    async with connect(str(hub.endpoints[1])) as client:
        await client.store("hosts").put("first", Count(0))
    for zeek in zeeks:
        await zeek.peer(hub)
        zeek.clone.begin()
    one, other = (zeek.clone for zeek in zeeks)
    await until(zeeks, lambda: one.content and other.content)
    sums = 0
    expected = [("insert", encode("first"), encode(Count(0)))]
    endpoint_id = zeeks[0].far.hub_id if zeeks[0].far is not None else b""
    for number in range(3):
        for _ in range(20):
            zeeks[0].add()
            sums += 1
        await hub.kill()
        await until(zeeks, lambda: all(zeek.far is None for zeek in zeeks))
        hub = await start()
        async with connect(str(hub.endpoints[1])) as client:
            store = client.store("hosts")
            await store.put(f"k{number}", Count(number))
            if number:
                await store.erase(f"k{number - 1}")
            expected.append(("insert", encode(f"k{number}"), encode(Count(number))))
            if number:
                expected.append(("erase", encode(f"k{number - 1}"), b""))
            for zeek in zeeks:
                await zeek.peer(hub)
                assert zeek.far is not None
                assert zeek.far.hub_id == endpoint_id
            wanted = {encode("first"): encode(Count(0)), encode(f"k{number}"): encode(Count(number))}
            wanted[SUM] = encode(Count(sums))
            await until(zeeks, partial(_all_have, zeeks, wanted))
            assert (await store.get("sum")) == Count(sums)
    for clone in (one, other):
        assert not clone.is_broken
        assert [event for event in clone.events if event[1] != SUM] == expected
        assert [event[2] for event in clone.events if event[1] == SUM][-1] == encode(Count(sums))
        values = [event[2] for event in clone.events if event[1] == SUM]
        assert len(values) == len(set(values))


async def test_a_connection_that_is_cut_and_mended(start: Start, zeeks: tuple[Zeek, Zeek]) -> None:
    hub = await start()
    for zeek in zeeks:
        await zeek.peer(hub)
        zeek.clone.begin()
    one, other = (zeek.clone for zeek in zeeks)
    async with connect(str(hub.endpoints[1])) as client:
        store = client.store("hosts")
        await store.put("k", Count(0))
        await until(zeeks, lambda: one.content and other.content)
        zeeks[0].part()
        for number in range(1, 4):
            await store.put("k", Count(number))
        await until(zeeks, lambda: other.content[encode("k")] == encode(Count(3)))
        assert one.content[encode("k")] == encode(Count(0))
        await zeeks[0].peer(hub)
        await until(zeeks, lambda: one.content == other.content)
    assert len(other.events) == 4
    assert other.events == one.events


async def test_a_store_in_memory_has_another_master_each_time(start: Start, zeeks: tuple[Zeek, Zeek]) -> None:
    """Without a store in a file, a clone from before stays with what it has, as Broker's own; a new one is served."""
    hub = await start("hosts=:memory:")
    zeek, new = zeeks
    await zeek.peer(hub)
    zeek.clone.begin()
    async with connect(str(hub.endpoints[1])) as client:
        await client.store("hosts").put("k", Count(1))
    await until(zeeks, lambda: zeek.clone.content)
    assert zeek.far is not None
    endpoint_id = zeek.far.hub_id
    await hub.kill()
    await until(zeeks, lambda: zeek.far is None)
    hub = await start("hosts=:memory:")
    await zeek.peer(hub)
    assert zeek.far is not None
    assert zeek.far.hub_id != endpoint_id
    await new.peer(hub)
    new.clone.begin()
    async with connect(str(hub.endpoints[1])) as client:
        await client.store("hosts").put("k", Count(2))
    await until(zeeks, lambda: new.clone.content)
    assert zeek.clone.content == {encode("k"): encode(Count(1))}
    assert not zeek.clone.is_broken
