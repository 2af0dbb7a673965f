"""The daemon among Zeeks: hubs stand in for them, since they speak as Zeeks do on these ports."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from peers.client import connect
from peers.daemon.daemon import Daemon
from peers.transport.tls import TlsError
from peers.values import Count
from peers.values.event import Event
from tests.daemon.conftest import StartDaemon
from tests.hubs.eventually import eventually

EVENT = Event("Demo::hello", "text", Count(3))


def zeeks(daemon: Daemon) -> list[str]:
    handlers = daemon.node.core.handlers.values()
    return [prefix for handler in handlers if handler.role.value == "leaf" for prefix in handler.prefixes]


def wanted(daemon: Daemon) -> set[str]:
    return {prefix for handler in daemon.node.core.handlers.values() for prefix in handler.prefixes}


@pytest.mark.parametrize("scheme", ["zeek", "zeek+tcp"])
async def test_over_brokers_protocol(start_daemon: StartDaemon, scheme: str) -> None:
    near = await start_daemon("tcp://127.0.0.1:0", f"{scheme}://127.0.0.1:0")
    far = await start_daemon("tcp://127.0.0.1:0", peers=[near.endpoints[1].location])
    async with connect(far.endpoints[0].location) as reader, connect(near.endpoints[0].location) as publisher:
        async with reader.subscribe("/zeek/") as messages:
            await eventually(lambda: zeeks(near) == ["/zeek/"])
            await publisher.publish("/zeek/demo", EVENT)
            await publisher.publish("/zeek/demo", {"plain": [1, True]})
            first, second = await anext(messages), await anext(messages)
        assert Event.of(first.value) == EVENT
        assert second.value["plain"] == (1, True)
        await eventually(lambda: zeeks(near) == [])
    await near.stop()
    await eventually(lambda: not far.node.core.handlers or not zeeks(far))


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
        await eventually(lambda: "/zeek/" in wanted(far) and "/up/" in zeeks(near))
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
        await eventually(lambda: any(handler.name == "zeek" for handler in near.node.core.handlers.values()))
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
