"""The transport: as asyncio's own in all that asyncio's own can do, and descriptors beside."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hub.quotas import Resource, Usage, Whole
from peers.shm.memory import Account, Descriptor
from peers.shm.transport import UnixTransport
from tests.hubs.eventually import eventually
from tests.shm.hubs import memfd


class Recorder(asyncio.Protocol):
    def __init__(self, *, keep_open: bool = False) -> None:
        self.data = b""
        self.told: list[str] = []
        self.error: Exception | None = None
        self.keep_open = keep_open

    def data_received(self, data: bytes) -> None:
        self.data += data
        if data == b"raise":
            raise ValueError("a bug")

    def eof_received(self) -> bool:
        self.told.append("eof")
        return self.keep_open

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")
        self.error = exc


class Pair:
    def __init__(self, *, keep_open: bool = False) -> None:
        near, self.far = socket.socketpair(socket.AF_UNIX)
        self.far.setblocking(False)
        self.protocol = Recorder(keep_open=keep_open)
        self.transport = UnixTransport(asyncio.get_running_loop(), near, self.protocol)
        self.transport.start()

    def read(self) -> bytes:
        found = b""
        try:
            while data := self.far.recv(1 << 20):
                found += data
        except BlockingIOError:
            pass
        return found


def is_open(number: int) -> bool:
    return Path(f"/proc/self/fd/{number}").is_symlink()


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    yield pair
    pair.transport.abort()
    pair.far.close()
    await eventually(lambda: "lost" in pair.protocol.told)


async def test_what_the_socket_does_not_take_waits(pair: Pair) -> None:
    """The protocol is paused above the high-water mark, resumed below the low one; nothing is lost or out of order."""
    sent = os.urandom(3_000_000)
    for start in range(0, len(sent), 100_000):
        pair.transport.write(bytearray(sent[start : start + 100_000]))
    assert pair.protocol.told == ["pause"]
    assert pair.transport.get_write_buffer_size() > pair.transport.get_write_buffer_limits()[1]
    found = b""
    while len(found) < len(sent):
        found += pair.read()
        await asyncio.sleep(0)
    assert found == sent
    assert pair.protocol.told == ["pause", "resume"]
    assert pair.transport.get_write_buffer_size() == 0


async def test_descriptors_stay_with_their_frames(pair: Pair) -> None:
    descriptors = [memfd(bytes([number])) for number in range(20)]
    numbers = [descriptor.number for descriptor in descriptors]
    sent = b""
    socket.send_fds(pair.far, [b"<in>"], [descriptors[0].number])
    await eventually(lambda: pair.protocol.data == b"<in>")
    (came_in,) = pair.transport.descriptors
    assert (os.pread(came_in.number, 1, 59), os.get_inheritable(came_in.number)) == (b"\0", False)
    for number, descriptor in enumerate(descriptors):
        filler = bytes([number]) * 30_000
        pair.transport.write(filler)
        pair.transport.hand_over(b"<%02d>" % number, descriptor, 1000)
        sent += filler + b"<%02d>" % number
    del descriptors, descriptor
    found, came = b"", []
    while len(found) < len(sent):
        try:
            data, fds, _, _ = socket.recv_fds(pair.far, 1 << 20, 4)
        except BlockingIOError:
            await asyncio.sleep(0)
            continue
        found += data
        came += [Descriptor(fd) for fd in fds]
    assert found == sent
    assert [os.pread(one.number, 1, 59) for one in came] == [bytes([number]) for number in range(20)]
    mine = {one.number for one in came}
    assert not [number for number in numbers if number not in mine and is_open(number)]


async def test_closing_writes_what_waits(pair: Pair) -> None:
    pair.transport.write(b"x" * 1_000_000)
    pair.transport.close()
    pair.transport.close()
    assert pair.transport.is_closing()
    pair.transport.write(b"never")
    pair.transport.resume_reading()
    found = 0
    while "lost" not in pair.protocol.told:
        found += len(pair.read())
        await asyncio.sleep(0)
    assert found + len(pair.read()) == 1_000_000
    assert pair.protocol.error is None


async def test_aborting_does_not(pair: Pair) -> None:
    descriptor = memfd(b"x")
    number = descriptor.number
    pair.transport.write(b"x" * 1_000_000)
    pair.transport.hand_over(b"frame", descriptor)
    del descriptor
    pair.transport.abort()
    await eventually(lambda: "lost" in pair.protocol.told)
    assert not is_open(number)


async def test_half_open_and_gone() -> None:
    """What is written in both ways comes, until the far side is closed."""
    pair = Pair(keep_open=True)
    pair.far.send(b"hello")
    await eventually(lambda: pair.protocol.data == b"hello")
    pair.transport.writelines([b"b", b"c", bytearray(b"d")])
    pair.transport.write(b"")
    assert pair.read() == b"bcd"
    assert pair.transport.get_extra_info("peername") == ""
    pair.far.shutdown(socket.SHUT_WR)
    await eventually(lambda: pair.protocol.told == ["eof"])
    pair.transport.write(b"x" * 1_000_000)
    pair.transport.write_eof()
    pair.transport.write_eof()
    with pytest.raises(RuntimeError, match="end of the stream"):
        pair.transport.write(b"more")
    found = 0
    while found < 1_000_000:
        found += len(pair.read())
        await asyncio.sleep(0)
    await eventually(lambda: pair.far.recv(1) == b"")
    pair.transport.close()
    await eventually(lambda: "lost" in pair.protocol.told)
    pair.far.close()


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_far_side_that_ends(pair: Pair, *, is_closed: bool) -> None:
    if is_closed:
        pair.transport.pause_reading()
        pair.far.close()
        pair.transport.write(b"x")
    else:
        pair.far.shutdown(socket.SHUT_WR)
    await eventually(lambda: "lost" in pair.protocol.told)
    assert pair.protocol.told == ["lost"] if is_closed else ["eof", "lost"]
    assert isinstance(pair.protocol.error, BrokenPipeError) == is_closed


async def test_a_protocol_that_raises(pair: Pair) -> None:
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    pair.far.send(b"raise")
    await eventually(lambda: "lost" in pair.protocol.told)
    assert isinstance(told[0]["exception"], ValueError)


def test_who_pays_for_descriptors() -> None:
    hub = Account(3)
    client = Account(2, hub)
    one, two = memfd(b"1"), memfd(b"2")
    assert client.has_room
    one.charge(client)
    two.charge(client)
    assert not client.has_room
    assert (client.open, hub.open) == (2, 2)
    client.refuse()
    assert (client.refused, hub.refused) == (1, 1)
    one.close()
    one.close()
    assert (client.open, hub.open) == (1, 1)
    del two
    assert (client.open, hub.open) == (0, 0)
    assert repr(one) == "<Descriptor -1>"


def test_the_user_pays_for_descriptors_too() -> None:
    whole = Whole(Resource.DESCRIPTORS, 10)
    usage = Usage(whole, "alice", 2, lambda: None)
    hub = Account(3)
    clients = [Account(2, hub), Account(2, hub)]
    for client in clients:
        client.usage = usage
    found = [memfd(b"1"), memfd(b"2")]
    for client, descriptor in zip(clients, found, strict=True):
        assert client.has_room
        descriptor.charge(client)
    assert not clients[0].has_room
    clients[0].refuse()
    assert (usage.held, usage.refused_total, hub.open) == (2, 1, 2)
    del descriptor
    found.clear()
    assert (usage.held, hub.open) == (0, 0)
    assert clients[0].has_room


async def test_its_protocol_can_be_changed(pair: Pair) -> None:
    other = Recorder()
    pair.transport.set_protocol(other)
    pair.far.send(b"x")
    await eventually(lambda: other.data == b"x")
    pair.transport.set_protocol(pair.protocol)
    with pytest.raises(TypeError):
        pair.transport.set_protocol(asyncio.BaseProtocol())
