"""TLS without I/O and over sockets: whatever the pieces in which bytes come, both sides understand each other."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hub.settings.settings import Limits
from peers.connections.listener import Acceptor
from peers.server.admission import Handshakes
from peers.transport.tls_transport import KEPT_BYTES, TlsSession, TlsTransport
from tests.hubs.authority import Authority, Files
from tests.hubs.eventually import eventually


def listening_context(files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return context


class RemoteEnd:
    """A client that trusts whomever it meets."""

    def __init__(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = version
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self._incoming, self._outgoing)
        self.is_shaken = False

    def hear(self, data: bytes) -> None:
        self._incoming.write(data)

    def shake(self) -> bytes:
        if not self.is_shaken:
            with suppress(ssl.SSLWantReadError):
                self.object.do_handshake()
                self.is_shaken = True
        return self._outgoing.read()

    def say(self, data: bytes) -> bytes:
        self.object.write(data)
        return self._outgoing.read()

    def end(self) -> bytes:
        with suppress(ssl.SSLError):
            self.object.unwrap()
        return self._outgoing.read()

    def understand(self) -> bytes:
        pieces = []
        with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while piece := self.object.read(65536):
                pieces.append(piece)
        return b"".join(pieces)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Authority(tmp_path_factory.mktemp("authority")).issue("127.0.0.1")


@pytest.fixture(scope="module")
def context(files: Files) -> ssl.SSLContext:
    return listening_context(files)


def shaken(context: ssl.SSLContext, far: RemoteEnd, piece: int) -> TlsSession:
    near = TlsSession(context)
    is_done = False
    while not is_done:
        said = far.shake()
        for start in range(0, len(said), piece):
            near.feed(said[start : start + piece])
            is_done = near.shake()
        far.hear(near.outgoing())
    far.shake()
    return near


@given(
    version=st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]),
    said=st.lists(st.binary(max_size=40_000), max_size=6),
    cuts=st.lists(st.integers(1, 70_000), min_size=1),
)
@example(ssl.TLSVersion.TLSv1_2, [b"1"], [1])
@example(ssl.TLSVersion.TLSv1_3, [b"1"], [1])
def test_what_is_said_arrives(
    context: ssl.SSLContext, version: ssl.TLSVersion, said: list[bytes], cuts: list[int]
) -> None:
    far = RemoteEnd(version)
    near = shaken(context, far, cuts[0])
    sent = b"".join(far.say(one) for one in said if one)
    heard, place = b"", 0
    while sent:
        size = cuts[place % len(cuts)]
        near.feed(sent[:size])
        heard += near.read()
        sent, place = sent[size:], place + 1
    assert heard == b"".join(said)
    assert near.read() == b""
    for one in said:
        if one:
            far.hear(b"".join(near.write(one)))
    assert far.understand() == heard


class Spoken(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: TlsTransport
        self.said = b""
        self.has_ended = False
        self.lost: list[Exception | None] = []
        self.pauses: list[bool] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.said += data

    def eof_received(self) -> bool:
        self.has_ended = True
        return False

    def pause_writing(self) -> None:
        self.pauses.append(True)

    def resume_writing(self) -> None:
        self.pauses.append(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Listening:
    def __init__(self, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        self.spoken: list[Spoken] = []
        self.failures: list[tuple[str, str]] = []
        self.handshakes = Handshakes(Limits(tls_handshake_s=60), loop)
        sock = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = sock.getsockname()
        self._acceptor = Acceptor(sock, lambda: TlsTransport(context, self._make, self.handshakes, self._fail), loop)

    def _make(self) -> Spoken:
        self.spoken.append(Spoken())
        return self.spoken[-1]

    def _fail(self, address: str, reason: str) -> None:
        self.failures.append((address, reason))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Spoken]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        known = len(self.spoken)
        reader, writer = await asyncio.open_connection(*self.address, ssl=context)
        await eventually(lambda: len(self.spoken) > known)
        return reader, writer, self.spoken[-1]

    async def close(self) -> None:
        self._acceptor.close()
        self.handshakes.close()
        for one in self.spoken:
            one.transport.abort()
        await eventually(lambda: all(one.lost for one in self.spoken))


@pytest.fixture
async def listening(context: ssl.SSLContext) -> AsyncIterator[Listening]:
    one = Listening(context)
    yield one
    await one.close()


async def plain(listening: Listening) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*listening.address)
    await eventually(lambda: len(listening.handshakes))
    return reader, writer


async def test_a_conversation(listening: Listening) -> None:
    """Both sides say much, and end; what was agreed on can be asked for, and the address is the socket's."""
    reader, writer, spoken = await listening.connect()
    assert not len(listening.handshakes)
    much = bytes(range(256)) * 8192
    writer.write(much)
    spoken.transport.write(much)
    spoken.transport.writelines([b"and ", b"", b"more"])
    assert await reader.readexactly(len(much) + 8) == much + b"and more"
    await eventually(lambda: len(spoken.said) == len(much))
    assert spoken.said == much
    assert spoken.transport.get_extra_info("peername") == writer.get_extra_info("sockname")
    assert spoken.transport.get_extra_info("peercert") is None
    assert spoken.transport.get_extra_info("cipher") == writer.get_extra_info("cipher")
    assert spoken.transport.get_extra_info("ssl_object").version() == "TLSv1.3"
    assert spoken.transport.get_extra_info("sslcontext").verify_mode is ssl.CERT_NONE
    assert spoken.transport.get_extra_info("nothing", 7) == 7
    writer.close()
    await eventually(lambda: spoken.lost)
    assert spoken.has_ended
    assert spoken.lost == [None]
    assert not listening.failures
    spoken.transport.write(b"too late")
    spoken.transport.close()


async def test_this_side_has_nothing_more_to_say(listening: Listening) -> None:
    """The far side reads to the end, and what it says meanwhile is heard; what this side writes then is not sent."""
    reader, writer, spoken = await listening.connect()
    spoken.transport.write(b"the last word")
    assert spoken.transport.can_write_eof()
    spoken.transport.write_eof()
    spoken.transport.write_eof()
    spoken.transport.write(b"one more")
    assert not spoken.transport.is_closing()
    writer.write(b"still here")
    assert await reader.read(-1) == b"the last word"
    await eventually(lambda: spoken.said == b"still here")
    writer.close()


async def test_what_openssl_keeps_of_what_was_written(listening: Listening) -> None:
    """As much as the largest piece that it was given at one time, and a third: at most two records."""
    reader, writer, spoken = await listening.connect()
    assert spoken.transport.get_extra_info(KEPT_BYTES) == 0
    kept = []
    for size_bytes in (300, 30, 16_000, 1_000_000):
        spoken.transport.write(bytes(size_bytes))
        kept.append(spoken.transport.get_extra_info(KEPT_BYTES))
        await reader.readexactly(size_bytes)
    assert kept == [400, 400, 21_333, 43_690]
    writer.close()


async def test_the_far_side_speaks_without_tls(listening: Listening) -> None:
    reader, writer = await plain(listening)
    writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    await eventually(lambda: listening.failures)
    ((address, reason),) = listening.failures
    assert address == "{}:{}".format(*writer.get_extra_info("sockname"))
    assert reason == "HTTP_REQUEST: the other side speaks without TLS"
    await reader.read(-1)
    writer.close()
    assert not listening.spoken
    assert not len(listening.handshakes)


async def test_a_handshake_that_takes_too_long(listening: Listening) -> None:
    listening.handshakes.limit_s = 0.05
    reader, writer = await asyncio.open_connection(*listening.address)
    with contextlib.suppress(ConnectionError):
        assert await reader.read(-1) == b""
    assert [reason for _, reason in listening.failures] == ["the handshake has taken too long"]
    writer.close()


@pytest.mark.parametrize("said", [b"what is no TLS", b"\x17\x03\x03\x00\x20" + bytes(32)])
async def test_what_is_no_tls_after_the_handshake(listening: Listening, said: bytes) -> None:
    _, writer, spoken = await listening.connect()
    sock = writer.get_extra_info("socket")
    with socket.socket(fileno=socket.dup(sock.fileno())) as beside:
        beside.setblocking(True)
        beside.sendall(said)
        await eventually(lambda: spoken.lost)
    assert isinstance(spoken.lost[0], ssl.SSLError)
    assert spoken.said == b""
    writer.transport.abort()


async def unread(listening: Listening) -> tuple[asyncio.StreamWriter, RemoteEnd, Spoken]:
    sock = socket.create_connection(listening.address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader, writer = await asyncio.open_connection(sock=sock)
    client = RemoteEnd()
    while not client.is_shaken:
        writer.write(client.shake())
        if not client.is_shaken:
            client.hear(await reader.read(65536))
    await eventually(lambda: len(listening.spoken) == 1)
    cast("asyncio.ReadTransport", writer.transport).pause_reading()
    (spoken,) = listening.spoken
    while not spoken.pauses:
        spoken.transport.write(bytes(1 << 20))
        await asyncio.sleep(0)
    return writer, client, spoken


async def test_what_is_no_tls_of_one_who_does_not_read(listening: Listening) -> None:
    """The socket is closed at once: nobody looks after it any more, and what is not written would wait for good."""
    writer, _, spoken = await unread(listening)
    writer.write(b"\x17\x03\x03\x00\x20" + bytes(32))
    await eventually(lambda: bool(spoken.lost))
    await eventually(lambda: spoken.transport.get_write_buffer_size() == 0)
    writer.close()


async def test_new_keys_for_one_who_does_not_read(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL answers each change of keys. Whoever does not read these answers is cut off before they are many."""
    writer, client, spoken = await unread(listening)
    waiting = spoken.transport.get_write_buffer_size()
    monkeypatch.setattr(TlsSession, "outgoing", lambda _: bytes(1000))
    for number in range(17):
        assert not spoken.lost
        assert spoken.transport.get_write_buffer_size() <= waiting + 1000 * number
        writer.write(client.say(b"."))
        await eventually(lambda: bool(len(spoken.said) > number or spoken.lost))  # noqa: B023 -- called at once
    (error,) = spoken.lost
    assert "new keys" in str(error)
    writer.close()
