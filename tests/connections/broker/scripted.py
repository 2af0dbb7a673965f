"""Broker endpoints that do what the test says: frames over a socket, with TLS or without; or masters and clones."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from hub.limits import QueueLimits
from hub.settings.settings import Settings
from peers.connections.broker import broker_connection
from peers.connections.broker_peerings import Peerings
from peers.connections.connection import Connection
from peers.connections.dialler import Dialler
from peers.connections.listener import bind
from peers.connections.zeek_diallers import BrokerDialler, tls_server_context
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.timing import Backoff
from peers.transport.tls_transport import TlsTransport
from peers.zeek.broker.messages import (
    LENGTH,
    NIL_ID,
    Envelope,
    EnvelopeType,
    Message,
    Tag,
    decode_envelope,
    decode_filter,
    decode_message,
    encode_envelope,
    encode_hello,
    encode_originator_ack,
    encode_originator_syn,
    encode_ping,
    encode_pong,
    encode_probe,
    encode_responder_syn_ack,
    encode_routing_update,
    encode_version_select,
)
from peers.zeek.broker.stores.command import Command, clone_topic, decode_command, master_topic
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub
from tests.zeek.broker.stores.simulated import ClonedStore, ServedStore

__all__ = ["ZeekHub"]

LOW = bytes.fromhex("11111111111141118111111111111111")
HIGH = bytes.fromhex("eeeeeeeeeeee4eeebeeeeeeeeeeeeeee")
OTHER = bytes.fromhex("2222222222224222a222222222222222")

_PREFIXES_LIMIT = 1_000_000


@dataclass(frozen=True)
class Data:
    topic: str
    payload: bytes


class Endpointlike:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own_id: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self.id = own_id
        self.hub_id = NIL_ID
        self.hub_filter: tuple[str, ...] = ()
        self.pings: list[bytes] = []

    @classmethod
    async def connect(
        cls, endpoint: Endpoint, own_id: bytes = LOW, *, tls: ssl.SSLContext | None = None, limit: int = 2**20
    ) -> Endpointlike:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=tls, limit=limit)
        return cls(reader, writer, own_id)

    def close(self) -> None:
        self._writer.transport.abort()

    # Frames.

    def write(self, *frames: bytes) -> None:
        self._writer.writelines(frames)

    def write_eof(self) -> None:
        self._writer.write_eof()

    async def frame(self) -> bytes:
        (size,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        return await self._reader.readexactly(size)

    async def message(self) -> Message:
        return decode_message(await self.frame(), _PREFIXES_LIMIT)

    async def everything(self) -> bytes:
        return await self._reader.read()

    async def exactly(self, size: int) -> bytes:
        return await self._reader.readexactly(size)

    # The handshake.

    async def peer(self, *prefixes: str, as_connector: bool = True) -> Endpointlike:
        if as_connector:
            self.write(encode_hello(self.id))
        else:
            self.write(encode_probe())
            hello = await self.message()
            assert hello.tag is Tag.HELLO
            self.hub_id = hello.sender
            if self.id > self.hub_id:
                self.write(encode_hello(self.id))
        message = await self._expect_not_probe() if as_connector or self.id > self.hub_id else None
        if message is not None and message.tag is Tag.HELLO:
            self.hub_id = message.sender
        if message is None or message.tag is Tag.HELLO:
            self.write(encode_version_select(self.id), encode_originator_syn(prefixes))
            self.hub_filter = (await self.message()).filter
            self.write(encode_originator_ack())
        else:
            assert message.tag is Tag.VERSION_SELECT
            self.hub_id = message.sender
            self.hub_filter = (await self.message()).filter
            self.write(encode_responder_syn_ack(prefixes))
            await self.message()
        return self

    async def _expect_not_probe(self) -> Message:
        message = await self.message()
        return await self.message() if message.tag is Tag.PROBE else message

    # Operation.

    def publish(self, topic: str, *payloads: bytes, receiver: bytes = NIL_ID) -> None:
        self.write(
            *(
                encode_envelope(Envelope(self.id, receiver, EnvelopeType.DATA, topic.encode(), each))
                for each in payloads
            )
        )

    def update(self, prefixes: Iterable[str]) -> None:
        self.write(encode_routing_update(self.id, self.hub_id, tuple(prefixes)))

    async def envelope(self) -> Envelope:
        envelope = decode_envelope(await self.frame())
        if envelope.type is EnvelopeType.PING:
            self.pings.append(envelope.payload)
            self.write(encode_pong(self.id, self.hub_id, envelope.payload))
        return envelope

    async def data(self, count: int) -> list[Data]:
        got: list[Data] = []
        while len(got) < count:
            envelope = await self.envelope()
            if envelope.type is EnvelopeType.DATA:
                assert (envelope.sender, envelope.receiver) == (self.hub_id, NIL_ID)
                got.append(Data(envelope.topic.decode(), envelope.payload))
        return got

    async def told(self) -> tuple[str, ...]:
        while (envelope := await self.envelope()).type is not EnvelopeType.ROUTING_UPDATE:
            pass
        return decode_filter(envelope.payload, 0, _PREFIXES_LIMIT)[0]

    async def barrier(self, token: bytes = b"barrier") -> None:
        self.write(encode_ping(self.id, self.hub_id, token))
        envelope = await self.envelope()
        assert (envelope.type, envelope.payload) == (EnvelopeType.PONG, token), envelope


MASTER, CLONE = master_topic("db"), clone_topic("db")


class End(Protocol):
    def hear(self, command: Command, size_bytes: int) -> object: ...

    def tick(self) -> object: ...


class Zeek:
    def __init__(self, own_id: bytes = LOW) -> None:
        self.id = own_id
        self.ends: dict[str, End] = {}
        self.filter: tuple[str, ...] = ()
        self.heard: list[Command] = []
        self.connection: Endpointlike | None = None
        self._listening: asyncio.Future[None] | None = None

    @property
    def far(self) -> Endpointlike:
        assert self.connection is not None
        return self.connection

    def talk(self, far: Endpointlike) -> None:
        self.connection, self.filter = far, far.hub_filter
        self._listening = asyncio.ensure_future(self._listen(far))

    def part(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def serve(self) -> ServedStore:
        served = ServedStore(self.id, self.sender(CLONE))
        self._add(MASTER, served.master)
        return served

    def copy(self) -> ClonedStore:
        cloned = ClonedStore(self.id, self.sender(MASTER), first=1000)
        self._add(CLONE, cloned.clone)
        return cloned

    def _add(self, topic: str, end: End) -> None:
        self.ends[topic] = end
        if self.connection is not None:
            self.connection.update(self.ends)

    def sender(self, topic: str) -> Callable[[bytes, bytes], None]:
        def send(to: bytes, command: bytes) -> None:
            far = self.connection
            if far is not None and (to == far.hub_id or (to == NIL_ID and topic in self.filter)):
                far.write(encode_envelope(Envelope(self.id, to, EnvelopeType.COMMAND, topic.encode(), command)))

        return send

    async def _listen(self, far: Endpointlike) -> None:
        while True:
            try:
                envelope = await far.envelope()
            except (asyncio.IncompleteReadError, ConnectionError):
                self.part()
                return
            if envelope.type is EnvelopeType.ROUTING_UPDATE:
                self.filter = decode_filter(envelope.payload, 0, _PREFIXES_LIMIT)[0]
            elif envelope.type is EnvelopeType.COMMAND:
                assert envelope.sender == far.hub_id
                assert envelope.receiver in (NIL_ID, self.id)
                command = decode_command(envelope.payload)
                self.heard.append(command)
                for topic, end in list(self.ends.items()):
                    if topic.encode() == envelope.topic:
                        end.hear(command, len(envelope.payload))

    def tick(self) -> None:
        for end in self.ends.values():
            end.tick()


class ZeekHub(Hub):
    def __init__(self, settings: Settings, name: str, hub_id: bytes) -> None:
        super().__init__(settings, name, hub_id)
        self.peerings = Peerings(self.server)
        self.peerings.stores.open()
        self.zeeks: list[Connection] = []
        self.zeek_endpoint: Endpoint
        self._far_sides: list[Endpointlike] = []

    async def listen_for_zeeks(self, url: str) -> None:
        endpoint = Endpoint.parse(url)
        tls = tls_server_context(self.server.settings.zeek) if endpoint.scheme is Scheme.ZEEK else None
        queue = endpoint.queue.applied_to(self.server.settings.queue)

        def make() -> asyncio.BaseProtocol:
            return self._make_zeek(queue)

        def make_secured() -> asyncio.BaseProtocol:
            assert tls is not None
            return TlsTransport(tls, make, self.server.handshakes, self.peerings.fail_tls)

        loop = asyncio.get_running_loop()
        listener, self.zeek_endpoint = await bind(endpoint, make if tls is None else make_secured, loop)
        self._listeners.append(listener)

    def _make_zeek(self, queue: QueueLimits) -> Connection:
        connection = broker_connection(self.peerings, queue)
        self.zeeks.append(connection)
        return connection

    def dial_zeek(self, url: str) -> Dialler:
        backoff = Backoff(base_s=0.001, cap_s=0.005)
        return self._dialling(
            BrokerDialler(self.peerings, Endpoint.parse_peer(url), self.server.settings.queue, backoff)
        )

    async def zeek(self, *prefixes: str, own_id: bytes = LOW) -> Endpointlike:
        far = await Endpointlike.connect(self.zeek_endpoint, own_id)
        self._far_sides.append(far)
        await far.peer(*prefixes)
        peered = len(self.peerings.registry)
        await eventually(lambda: own_id in self.peerings.registry)
        assert peered <= len(self.peerings.registry)
        return far

    async def stop(self) -> None:
        for far in self._far_sides:
            far.close()
        self.peerings.stores.close()
        await super().stop()
