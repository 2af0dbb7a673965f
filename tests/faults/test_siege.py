"""A hub that is besieged at every port: a quiet pair notices nothing, and nothing is left when it is over."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

from peers.client import connect
from peers.shm import memory
from peers.transport.endpoints import Endpoint, Scheme
from peers.wire.hello import Hello
from peers.wire.shared import Segment, encode_segment
from tests.daemon.hub_process import HubProcess
from tests.faults.kills import DEADLINE_S
from tests.fuzz.hub import CLIENT, LINK
from tests.fuzz.hub_targets import RAW, refitted_envelopes, refitted_frames, websocket_stream
from tests.fuzz.target import Mutator, kept
from tests.fuzz.targets import TARGETS
from tests.hubs.eventually import eventually
from tests.hubs.raw_websocket import upgrade

_SHARING = Hello(protocol=1, role="client", name="siege", shared=1).encode()
_SEGMENT_BYTES = 1 << 20
_PATIENCE_S = 0.05  # how long a besieger reads, and waits for a hub that does not
_PIECES = (1, 7, 100, 5_000)


class Besieger(NamedTuple):
    target: str  # the fuzz target whose inputs are sent
    scheme: Scheme
    dress: Callable[[bytes], bytes]  # makes what is sent of an input
    brings_descriptors: bool = False

    def attack(self, where: Endpoint, inputs: int) -> None:
        target = next(one for one in TARGETS if one.name == self.target)
        mutator = Mutator(f"siege {self.target}", [*target.seeds(), *kept(target)], target.words)
        random = Random(self.target)  # noqa: S311 -- to be repeated
        for _ in range(inputs):
            data = self.dress(mutator.make())
            is_unix = where.scheme is Scheme.UNIX
            with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as sock:
                sock.connect(where.path if is_unix else (where.host, where.port))
                sock.settimeout(_PATIENCE_S)
                try:
                    if self.brings_descriptors:
                        _send_with_descriptors(sock, data, random)
                    else:
                        _send(sock, data, random)
                    if random.random() < 0.5:
                        sock.shutdown(socket.SHUT_WR)
                    while sock.recv(65536):
                        pass
                except OSError:  # the hub has had enough, or waits for more
                    pass
                if random.random() < 0.3:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def _send(sock: socket.socket, data: bytes, random: Random) -> None:
    while data:
        size = random.choice(_PIECES) if random.random() < 0.2 else len(data)
        sock.sendall(data[:size])
        data = data[size:]


def _send_with_descriptors(sock: socket.socket, data: bytes, random: Random) -> None:
    makers: tuple[Callable[[], int], ...] = (
        lambda: memory.make_segment(_SEGMENT_BYTES),
        lambda: memory.make_sealed([bytes(500)], 500),
        lambda: os.open(os.devnull, os.O_RDWR),
        lambda: os.memfd_create("siege"),
    )
    numbers = [random.choice(makers)() for _ in range(random.choice((1, 1, 3)))]
    half = max(1, len(data) // 2)
    try:
        socket.send_fds(sock, [data[:half]], numbers)
    finally:
        for number in numbers:
            os.close(number)
    _send(sock, data[half:], random)


def _frames(data: bytes) -> bytes:
    how, stream = data[:1] or b"\0", data[1:]
    return stream if how[0] & RAW else (LINK if how[0] & 1 else CLIENT) + refitted_frames(stream)


def _shared_frames(data: bytes) -> bytes:
    return _SHARING + encode_segment(Segment(1, _SEGMENT_BYTES)) + refitted_frames(data[1:])


def _websocket(opcode: int, subprotocol: str, path: str) -> Callable[[bytes], bytes]:
    greeting = upgrade(subprotocol, path=path)

    return lambda data: greeting + websocket_stream(opcode, data)


def _envelopes(data: bytes) -> bytes:
    how, stream = data[:1] or b"\0", data[1:]
    return stream if how[0] & RAW else refitted_envelopes(stream)


_ALL = (
    Besieger("frames", Scheme.TCP, _frames),
    Besieger("frames", Scheme.UNIX, _frames),
    Besieger("records", Scheme.TCP, _frames),
    Besieger("frames", Scheme.UNIX, _shared_frames, brings_descriptors=True),
    Besieger("json", Scheme.WS, _websocket(1, "hub.v1.json", "/v1/hub")),
    Besieger("msgpack", Scheme.WS, _websocket(2, "hub.v1.msgpack", "/v1/hub")),
    Besieger("zeek_json", Scheme.WS, _websocket(1, "", "/v1/messages/json")),
    Besieger("http", Scheme.WS, bytes),
    Besieger("broker", Scheme.ZEEK_TCP, _envelopes),
)


_INPUTS = 25
_KEPT = 4
"""Descriptors that a hub keeps once it has needed them: a reader of its journal, a file that tells of its memory."""
_LISTEN = ("tcp://127.0.0.1:0", "ws://127.0.0.1:0", "zeek+tcp://127.0.0.1:0")


async def test_a_quiet_pair_beside_mutated_input(tmp_path: Path) -> None:
    listen = [word for url in (*_LISTEN, f"unix://{tmp_path}/hub.sock") for word in ("--listen", url)]
    flags = "--limits-frame-bytes=65536 --limits-handshake-s=1 --log-format=json --log-level=error"
    limits = flags.split()
    process = await HubProcess.start([*listen, *limits, "--journal", str(tmp_path / "journal")], {}, is_new=True)
    try:
        hub = await process.wait_up(4)

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{hub.pid}/fd"))  # noqa: PTH208 -- a Path would be one for each

        url = hub.endpoints[0].location
        pool = ThreadPoolExecutor(len(_ALL))
        async with (
            asyncio.timeout(8 * DEADLINE_S),
            connect(url) as reader,
            connect(url) as writer,
            reader.subscribe("/quiet") as stream,
        ):
            before = descriptors()
            doors = {endpoint.scheme: endpoint for endpoint in hub.endpoints}
            start = asyncio.get_running_loop().run_in_executor
            siege = asyncio.gather(*(start(pool, one.attack, doors[one.scheme], _INPUTS) for one in _ALL))
            sent = 0
            while not siege.done():
                await writer.publish("/quiet", sent)
                message = await anext(stream)
                assert (message.topic, message.value) == ("/quiet", sent)
                sent += 1
                await asyncio.sleep(0.002)
            await siege
            pool.shutdown()
            await eventually(lambda: descriptors() <= before + _KEPT)
        hub.signal(signal.SIGTERM)
        code, log = await hub.wait_ended()
    finally:
        await process.kill()
    assert (code, log) == (0, "")
