"""A hub that many begin to talk to, one without `/proc`; and where garbage goes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import shutil
import signal
import socket
import subprocess
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest
from websockets.frames import Opcode

from hub.messages.frame import KIND_MESSAGES, encode_frame
from peers.client import connect
from peers.server.memory import CLOSED_LEAST, GarbageWatch, undisturbed
from peers.transport.endpoints import Endpoint
from peers.wire.hello import Hello
from tests.daemon.conftest import StartProcess
from tests.daemon.hub_process import HubProcess
from tests.garbage import set_aside
from tests.hubs.raw_websocket import RawWebSocket, frame, request, text, upgrade

MIB = 1 << 20
BUDGET_MIB = 160
MOST_MIB = 250  # The budget, what one read of each connection may be beyond it, and what malloc makes of both
CONNECTIONS = 80
EACH_BYTES = 3 * MIB
PIECE = bytes(60_000)
HELLO = text({"type": "hello", "name": "unfinished"})


@functools.cache  # as to mask it takes a while
def begun_frame() -> bytes:
    return frame(Opcode.TEXT, bytes(16 * MIB - 1))[:14]


def one_frame() -> Iterator[bytes]:
    return chain([upgrade() + HELLO, begun_frame()], repeat(PIECE))


def fragments() -> Iterator[bytes]:
    begin, more = (frame(opcode, PIECE, fin=False) for opcode in (Opcode.TEXT, Opcode.CONT))
    return chain([upgrade() + HELLO, begin], repeat(more))


def body() -> Iterator[bytes]:
    length = f"Content-Length: {16 * MIB - 1}"
    return chain([request("/v1/publish/a", "POST", "Content-Type: application/json", length)], repeat(PIECE))


def own_frame() -> Iterator[bytes]:
    begun = encode_frame(KIND_MESSAGES, bytes(16 * MIB - 1), key=b"/a")[:1000]
    return chain([Hello(1, "client").encode() + begun], repeat(PIECE))


async def begin(endpoint: Endpoint, pieces: Iterator[bytes]) -> asyncio.StreamWriter:
    sock = socket.create_connection((endpoint.host, endpoint.port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)  # so that the hub holds what is sent, not the kernel
    _, writer = await asyncio.open_connection(sock=sock)
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
    patient = ("--limits-ping-after-s", "600")  # the quiet pair answers no pings
    hub = await start_process(*listen, *patient, "--limits-memory-bytes", f"{BUDGET_MIB}MiB")
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


# Runs a command that sees an empty `/proc`, in a mount namespace of its own.
HIDDEN = ("sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")


@pytest.fixture
def hidden() -> tuple[str, ...]:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is missing")
    for privileges in ((), ("--map-root-user",)):
        wrap = ("unshare", "--mount", *privileges, *HIDDEN)
        if subprocess.run([*wrap, "true"], capture_output=True, check=False).returncode == 0:
            return wrap
    pytest.skip("this process may not hide /proc")


@pytest.fixture
async def hub(hidden: tuple[str, ...], tmp_path: Path) -> AsyncIterator[HubProcess]:
    folder = str(tmp_path)
    flags = ("--listen", "tcp://127.0.0.1:0", "--listen", f"unix://{folder}/hub.sock", "--journal", f"{folder}/journal")
    process = await HubProcess.start((*flags, "--store", f"a={folder}/a.db"), {}, before=hidden)
    yield await process.wait_up(2)
    await process.kill()


async def test_a_hub_without_proc(hub: HubProcess) -> None:
    tcp, unix = (endpoint.location for endpoint in hub.endpoints)
    async with (
        connect(unix) as publisher,
        connect(tcp) as reader,
        reader.subscribe("/a", "$hub/statistics") as messages,
    ):
        await publisher.publish_confirmed("/a", 1)
        seen = [await anext(messages) for _ in range(4)]
        assert [one.value for one in seen if one.topic == "/a"] == [1]
        (told, *_) = [one.value for one in seen if one.topic == "$hub/statistics"]
        assert 0 < told["memory_bytes"] < told["memory_limit_bytes"]
        store = publisher.store("a")
        await store.put("key", 7)
        assert await store.get("key") == 7
    hub.signal(signal.SIGTERM)
    code, log = await hub.wait_ended()
    assert code == 0
    assert "bug" not in log


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()
    set_aside()


@pytest.mark.usefixtures("thawed")
def test_what_survives_a_second_is_not_walked_over_again() -> None:
    watch = GarbageWatch()
    alive = [[number] for number in range(100_000)]
    assert len(gc.get_objects()) > 100_000
    watch.tick(10, 0)
    assert len(gc.get_objects()) < 1_000
    assert len(alive) == 100_000


@pytest.mark.usefixtures("thawed")
def test_cycles_of_closed_connections_go_when_many_were_closed() -> None:
    for open_connections, closed, short, is_collected in (
        (10, CLOSED_LEAST, False, False),
        (10, CLOSED_LEAST + 1, False, True),
        (4 * CLOSED_LEAST, 2 * CLOSED_LEAST, False, False),
        (4 * CLOSED_LEAST, 2 * CLOSED_LEAST + 1, False, True),
        (9_000, 1, True, True),
        (9_000, 0, True, False),
    ):
        watch = GarbageWatch()
        cycle = Cycle()
        seen = weakref.ref(cycle)
        watch.tick(open_connections, 0)
        del cycle
        watch.tick(open_connections, closed, is_memory_short=short)
        assert (seen() is None) is is_collected


@pytest.mark.usefixtures("thawed")
def test_young_garbage_is_not_frozen() -> None:
    watch = GarbageWatch()
    cycle = Cycle()
    seen = weakref.ref(cycle)
    del cycle
    watch.tick(0, 0)
    assert seen() is None


@pytest.mark.usefixtures("thawed")
def test_nothing_is_collected_while_something_large_is_made() -> None:
    watch = GarbageWatch()
    collections = [each["collections"] for each in gc.get_stats()]
    with undisturbed():
        alive = [[number] for number in range(100_000)]
        watch.tick(10, 0)
        assert [each["collections"] for each in gc.get_stats()] == collections
    assert len(gc.get_objects()) < 1_000
    assert gc.isenabled()
    assert len(alive) == 100_000


@pytest.mark.usefixtures("thawed")
def test_what_is_made_at_the_same_time_is_not_disturbed_by_who_is_ready_first() -> None:
    first, second = undisturbed(), undisturbed()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    with contextlib.suppress(ValueError):
        second.__exit__(ValueError, ValueError(), None)
    assert gc.isenabled()
