"""The daemon among Zeeks: over their protocols, killed with SIGKILL, and by the commands of docs/zeekctl.md."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from peers.client import connect
from peers.daemon.daemon import Daemon
from peers.transport.tls import TlsError
from peers.values import Count, encode
from peers.values.binary import Tag
from peers.values.event import Event
from peers.zeek.broker.stores.command import Add, entity
from tests.connections.broker import scripted
from tests.connections.broker.scripted import CLONE, LOW, MASTER, OTHER, Endpointlike
from tests.daemon.conftest import StartDaemon, StartProcess
from tests.daemon.hub_process import ROOT, HubProcess
from tests.hubs.eventually import eventually
from tests.zeek.broker.stores.strict import StrictClone

EVENT = Event("Demo::hello", "text", Count(3))


def leaf_prefixes(daemon: Daemon) -> list[str]:
    handlers = daemon.server.core.handlers.values()
    return [prefix for handler in handlers if handler.role.value == "leaf" for prefix in handler.prefixes]


def wanted(daemon: Daemon) -> set[str]:
    return {prefix for handler in daemon.server.core.handlers.values() for prefix in handler.prefixes}


@pytest.mark.parametrize("scheme", ["zeek", "zeek+tcp"])
async def test_over_brokers_protocol(start_daemon: StartDaemon, scheme: str) -> None:
    near = await start_daemon("tcp://127.0.0.1:0", f"{scheme}://127.0.0.1:0")
    far = await start_daemon("tcp://127.0.0.1:0", peers=[near.endpoints[1].location])
    async with connect(far.endpoints[0].location) as reader, connect(near.endpoints[0].location) as publisher:
        async with reader.subscribe("/zeek/") as messages:
            await eventually(lambda: leaf_prefixes(near) == ["/zeek/"])
            await publisher.publish("/zeek/demo", EVENT)
            await publisher.publish("/zeek/demo", {"plain": [1, True]})
            first, second = await anext(messages), await anext(messages)
        assert Event.of(first.value) == EVENT
        assert second.value["plain"] == (1, True)
        await eventually(lambda: leaf_prefixes(near) == [])
    await near.stop()
    await eventually(lambda: not far.server.core.handlers or not leaf_prefixes(far))


async def test_over_a_websocket(start_daemon: StartDaemon) -> None:
    far = await start_daemon("tcp://127.0.0.1:0", "ws://127.0.0.1:0")
    url = f"zeek+ws://127.0.0.1:{far.endpoints[1].port}?publish=/up/"
    near = await start_daemon("tcp://127.0.0.1:0", peers=[url])
    async with (
        connect(near.endpoints[0].location) as here,
        connect(far.endpoints[0].location) as there,
        here.subscribe("/zeek/") as heard,
        there.subscribe("/up/", "/else/") as sent,
    ):
        await eventually(lambda: "/zeek/" in wanted(far) and "/up/" in leaf_prefixes(near))
        await there.publish("/zeek/demo", EVENT)
        assert Event.of((await anext(heard)).value) == EVENT
        await here.publish("/else/x", "not sent")
        await here.publish("/up/x", EVENT)
        assert Event.of((await anext(sent)).value) == EVENT


async def test_a_websocket_server_closes_first(start_daemon: StartDaemon) -> None:
    """The hub's Close comes without the end of the stream: Zeek could not answer, and would tell "Internal error"."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        near = await start_daemon(peers=[f"zeek+ws://127.0.0.1:{server.getsockname()[1]}"])
        zeek, _ = await loop.sock_accept(server)
    with zeek:
        protocol = ServerProtocol()

        async def next_event() -> object:
            while not (events := protocol.events_received()):
                protocol.receive_data(await loop.sock_recv(zeek, 65536))
            assert len(events) == 1
            return events[0]

        async def say() -> None:
            await loop.sock_sendall(zeek, b"".join(protocol.data_to_send()))

        request = await next_event()
        assert isinstance(request, Request)
        protocol.send_response(protocol.accept(request))
        await say()
        await next_event()  # what the hub wants
        protocol.send_text(b'{"type":"ack","endpoint":"zeek","version":"8.2.2"}')
        await say()
        await eventually(lambda: any(handler.name == "zeek" for handler in near.server.core.handlers.values()))
        stopping = asyncio.create_task(near.stop())
        close = await next_event()
        assert isinstance(close, Frame)
        assert close.opcode is Opcode.CLOSE
        with pytest.raises(BlockingIOError):
            zeek.recv(1)
        await say()
    await stopping


async def test_tls_that_cannot_be_set_up(start_daemon: StartDaemon, tmp_path: Path) -> None:
    with pytest.raises(TlsError, match=r"zeek\.key is missing"):
        await start_daemon("zeek://127.0.0.1:0", zeek={"certificate": str(tmp_path / "none.pem")})
    names = ("certificate", "key", "ca")
    with pytest.raises(TlsError, match=r"there is no file .*none\.pem"):
        await start_daemon("zeek://127.0.0.1:0", zeek={name: str(tmp_path / "none.pem") for name in names})


SUM = encode("sum")
WAIT_S = 60


class Zeek(scripted.Zeek):
    """One with a clone, which may lose its hub."""

    def __init__(self, own_id: bytes) -> None:
        super().__init__(own_id)
        self.clone = StrictClone(entity(own_id, 7), self.sender(MASTER))
        self.ends[CLONE] = self.clone

    async def peer(self, hub: HubProcess) -> None:
        self.talk(await (await Endpointlike.connect(hub.endpoints[0], self.id)).peer(CLONE))

    def add(self) -> None:
        self.clone.write(Add(SUM, encode(Count(1)), Tag.COUNT, None, self.clone.own))


StartHub = Callable[..., Awaitable[HubProcess]]


@pytest.fixture
async def zeeks() -> AsyncIterator[tuple[Zeek, Zeek]]:
    both = Zeek(LOW), Zeek(OTHER)
    yield both
    for zeek in both:
        zeek.part()


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[StartHub]:
    hubs: list[HubProcess] = []

    async def start_hub(store: str = f"hosts={tmp_path / 'hosts.db'}") -> HubProcess:
        arguments = ["--listen", "zeek+tcp://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0", "--store", store]
        hubs.append(await HubProcess.start(arguments, {"HUB_ZEEK_MASTERS": "db=hosts"}))
        return await hubs[-1].wait_up(2)

    yield start_hub
    for hub in hubs:
        await hub.kill()


async def until(zeeks: tuple[Zeek, ...], condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            for zeek in zeeks:
                zeek.tick()
            await asyncio.sleep(0.025)


def _all_have(zeeks: tuple[Zeek, ...], content: dict[bytes, bytes]) -> bool:
    return all(zeek.clone.content == content and not zeek.clone.unconfirmed for zeek in zeeks)


async def test_clones_go_on_behind_a_kill(start: StartHub, zeeks: tuple[Zeek, Zeek]) -> None:
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
    endpoint_id = zeeks[0].far.hub_id
    for number in range(2):
        for _ in range(20):
            zeeks[0].add()
            sums += 1
        await hub.kill()
        await until(zeeks, lambda: all(zeek.connection is None for zeek in zeeks))
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


async def test_a_store_in_memory_has_another_master_each_time(start: StartHub, zeeks: tuple[Zeek, Zeek]) -> None:
    """Without a store in a file, a clone from before stays with what it has, as Broker's own."""
    ids = []
    for _ in range(2):
        hub = await start("hosts=:memory:")
        await zeeks[0].peer(hub)
        ids.append(zeeks[0].far.hub_id)
        await hub.kill()
        await until(zeeks, lambda: zeeks[0].connection is None)
    assert ids[0] != ids[1]


COMMANDS = re.findall(r"^hub run .*$", (ROOT / "docs" / "zeekctl.md").read_text(), re.MULTILINE)

# A key of 32 bytes in Z85, as ZeroMQ's specification of Z85 and CURVE has one, and a newline.
KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7\n"


@pytest.mark.parametrize("line", COMMANDS)
async def test_commands_start(line: str, start_process: StartProcess, tmp_path: Path) -> None:
    curve = tmp_path / "spool" / "zeromq" / "curve"
    curve.mkdir(parents=True)
    for name in ("server_secretkey", "client_publickey"):
        (curve / name).write_text(KEY)
        (curve / name).chmod(0o600)
    line = line.replace("/opt/zeek", str(tmp_path)).replace("192.0.2.1", "127.0.0.1")
    line = re.sub(r"(--listen '?[a-z+]+://127\.0\.0\.1):\d+(\?xsub=)?\d*", lambda one: f"{one[1]}:0", line)
    words = shlex.split(line)[2:]
    hub = await start_process(*words)
    await hub.wait_up(words.count("--listen"))
