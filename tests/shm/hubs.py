"""Hubs on Unix sockets, and raw clients that hand descriptors over and take them."""

from __future__ import annotations

import asyncio
import mmap
import os
import socket
from collections import deque
from typing import Any

import msgspec

from hub.messages.frame import FLAG_BATCH, FLAG_SHARED, KIND_MESSAGES, encode_frame
from hub.settings.settings import Settings, SharedMemorySettings
from peers.shm import memory
from peers.shm.memory import Descriptor
from peers.wire.control import Notice, decode_notice
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.shared import Handle, Segment, decode_handle, encode_segment
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_socket import READ_BYTES


def shared_settings(**limits: Any) -> Settings:
    return Settings(shm=msgspec.structs.replace(SharedMemorySettings(), **limits))


def memfd(values: bytes) -> Descriptor:
    return Descriptor(memory.make_sealed([values], len(values)))


def handle_frame(topic: str, handle: Handle, *, flags: int = 0, count: bytes = b"") -> bytes:
    return encode_frame(KIND_MESSAGES, count + handle.encode(), key=topic.encode(), flags=flags | FLAG_SHARED)


class Ring:
    def __init__(self, size_bytes: int = 1 << 20) -> None:
        self.size_bytes = size_bytes
        self.descriptor = Descriptor(memory.make_segment(size_bytes))
        self.memory = mmap.mmap(self.descriptor.number, size_bytes)
        memory.seal_segment(self.descriptor.number)
        self.number = 0

    def fill(self, offset: int, generation: int, values: bytes) -> Handle:
        start = offset + memory.VALUES_AT
        self.memory[start : start + len(values)] = values
        memory.BLOCK_HEAD.pack_into(self.memory, offset, generation, len(values))
        return Handle(len(values), self.number, offset, generation)

    def close(self) -> None:
        self.memory.close()
        self.descriptor.close()


class SharingClient(RawClient):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.descriptors: deque[Descriptor] = deque()  # Taken from the hub

    async def hand_over(self, frame: bytes, *descriptors: Descriptor) -> None:
        numbers = [descriptor.number for descriptor in descriptors]
        assert socket.send_fds(self._sock, [frame], numbers) == len(frame)

    async def publish_shared(self, topic: str, values: bytes) -> None:
        await self.hand_over(handle_frame(topic, Handle(len(values))), memfd(values))

    async def open_segment(self, ring: Ring, request: int = 9) -> int:
        await self.hand_over(encode_segment(Segment(request, ring.size_bytes)), ring.descriptor)
        notice = await self.notice()
        assert (notice.kind, notice.request) == ("confirmed", request), notice
        ring.number = notice.segment
        return notice.segment

    def close(self) -> None:
        super().close()
        self.descriptors.clear()

    async def _receive(self) -> bytes:
        while True:
            try:
                data, numbers, _, _ = socket.recv_fds(self._sock, READ_BYTES, 8)
            except BlockingIOError:
                await self._readable()
                continue
            self.descriptors.extend(Descriptor(number) for number in numbers)
            return data

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._sock.fileno(), lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(self._sock.fileno())

    async def shared_values(self) -> tuple[str, bytes]:
        frame = await self.frame()
        assert (frame.kind, frame.flags & ~FLAG_BATCH) == (Kind.MESSAGES, FLAG_SHARED), frame
        handle = decode_handle(frame.body, frame.flags)
        assert not handle.segment
        descriptor = self.descriptors.popleft()
        memory.check_sealed(descriptor.number, handle.size_bytes)
        return frame.key.decode(), os.pread(descriptor.number, handle.size_bytes, memory.VALUES_AT)

    async def error(self) -> Notice:
        frame = await self.frame()
        assert frame.kind == Kind.NOTICE, frame
        notice = decode_notice(frame.body)
        assert notice.kind == "error", notice
        return notice


class SharingHub(Hub):
    async def sharing(self, *prefixes: str, **hello: Any) -> SharingClient:
        client = await SharingClient.connect(self.endpoint)
        self._clients.append(client)
        granted: Hello = await client.greet(shared=1, **hello)
        assert granted.shared == self.server.settings.shm.over_bytes
        if prefixes:
            await client.subscribe(*prefixes)
        return client

    async def over_tcp(self, *prefixes: str, **hello: Any) -> RawClient:
        return await self.client(*prefixes, endpoint=await self.listen(), **hello)
