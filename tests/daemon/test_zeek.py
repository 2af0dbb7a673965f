"""The daemon among Zeeks: over their protocols, and by the commands of docs/how-to/zeekctl.md."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from peers.client import connect
from peers.daemon.daemon import Daemon
from peers.values import Count
from peers.values.event import Event
from tests.daemon.conftest import StartDaemon, StartProcess
from tests.daemon.hub_process import ROOT
from tests.hubs.eventually import eventually

EVENT = Event("Demo::hello", "text", Count(3))


def leaf_prefixes(daemon: Daemon) -> list[str]:
    handlers = daemon.server.core.handlers.values()
    return [prefix for handler in handlers if handler.role.value == "leaf" for prefix in handler.prefixes]


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


COMMANDS = re.findall(r"^hub run .*$", (ROOT / "docs" / "how-to" / "zeekctl.md").read_text(), re.MULTILINE)

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
