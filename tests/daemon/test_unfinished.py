"""What many connections begin and do not finish stays within the budget of a hub, whatever it is spoken in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest
from websockets.frames import Opcode

from hub.frame import KIND_MESSAGES, encode_frame
from peers.transport.endpoints import Endpoint
from peers.wire.hello import Hello
from tests.daemon.conftest import StartProcess
from tests.hubs.raw_websocket import RawWebSocket, frame, request, text, upgrade

MIB = 1 << 20
BUDGET_MIB = 256
MOST_MIB = 400  # The budget, what one read of each connection may be beyond it, and what malloc makes of both

CONNECTIONS = 200
EACH_BYTES = 8 * MIB
PIECE = bytes(60_000)

HELLO = text({"type": "hello", "name": "unfinished"})


def one_frame() -> Iterator[bytes]:
    yield upgrade() + HELLO
    yield frame(Opcode.TEXT, bytes(16 * MIB - 1))[:14]
    yield from repeat(PIECE)


def fragments() -> Iterator[bytes]:
    yield upgrade() + HELLO
    yield frame(Opcode.TEXT, PIECE, fin=False)
    yield from repeat(frame(Opcode.CONT, PIECE, fin=False))


def body() -> Iterator[bytes]:
    length = f"Content-Length: {16 * MIB - 1}"
    return chain([request("/v1/publish/a", "POST", "Content-Type: application/json", length)], repeat(PIECE))


def own_frame() -> Iterator[bytes]:
    whole = encode_frame(KIND_MESSAGES, bytes(16 * MIB - 1), key=b"/a")
    return chain([Hello(1, "client").encode() + whole[:1000]], repeat(PIECE))


async def begin(endpoint: Endpoint, pieces: Iterator[bytes]) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    sent_bytes = 0
    with contextlib.suppress(ConnectionError):
        while sent_bytes < EACH_BYTES:
            piece = next(pieces)
            writer.write(piece)
            await writer.drain()
            sent_bytes += len(piece)
    return writer


def most_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) // 1024


@pytest.mark.slow
@pytest.mark.parametrize("unfinished", [one_frame, fragments, body, own_frame])
async def test_what_is_not_finished_fills_the_budget_at_most(
    start_process: StartProcess, unfinished: Callable[[], Iterator[bytes]]
) -> None:
    """The connections that bring too much are closed, and a quiet publisher and its reader notice nothing."""
    listen = ("--listen", "tcp://127.0.0.1:0", "--listen", "ws://127.0.0.1:0")
    hub = await start_process(*listen, "--limits-memory-bytes", f"{BUDGET_MIB}MiB")
    tcp, web = (await hub.wait_up(2)).endpoints
    publisher, reader = [await RawWebSocket.connect(web) for _ in range(2)]
    for client in (publisher, reader):
        await client.shake_hands()
        await client.say("hello", name="quiet")
    await reader.say("subscribe", prefixes=["/quiet"])
    for client in (publisher, reader):
        await client.barrier()
    endpoint = tcp if unfinished is own_frame else web
    crowd = asyncio.gather(*(begin(endpoint, unfinished()) for _ in range(CONNECTIONS)))
    published = 0
    while not crowd.done():
        await publisher.publish("/quiet", published)
        assert await reader.messages(1) == [("/quiet", published)]
        published += 1
    assert BUDGET_MIB * 0.9 < most_mib(hub.pid) < MOST_MIB
    for client in (publisher, reader):
        assert await client.barrier() == []
        client.close()
    for writer in await crowd:
        writer.transport.abort()
