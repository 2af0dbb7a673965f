"""TLS towards Zeeks: both modes of Broker, and what is said when it cannot be set up."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from hub.settings.sections import ZeekSettings
from peers.connections.broker_tls import client_context, server_context
from peers.transport.tls import TlsError

CERTIFICATES = Path(__file__).parent / "certificates"
ANONYMOUS = ZeekSettings()


def certified(name: str) -> ZeekSettings:
    files = {kind: str(CERTIFICATES / f"{name}.{ending}") for kind, ending in (("certificate", "pem"), ("key", "key"))}
    return ZeekSettings(**files, ca=str(CERTIFICATES / "ca.pem"))


@dataclass(frozen=True)
class Talk:
    """What came of one connection."""

    heard: bytes
    version: str
    cipher: str


async def talk(server: ZeekSettings, client: ZeekSettings) -> Talk:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5))
        writer.close()

    listening = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server_context(server))
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context(client))
        try:
            secured = writer.get_extra_info("ssl_object")
            writer.write(b"hello")
            return Talk(await reader.read(), secured.version(), secured.cipher()[0])
        finally:
            writer.close()


async def test_anonymous() -> None:
    assert await talk(ANONYMOUS, ANONYMOUS) == Talk(b"hello", "TLSv1.2", "AECDH-AES256-SHA")


async def test_with_certificates() -> None:
    said = await talk(certified("hub"), certified("zeek"))
    assert said.heard == b"hello"
    assert said.version == "TLSv1.3"


@pytest.mark.parametrize(
    ("server", "client"),
    [
        (certified("hub"), certified("stranger")),
        (certified("stranger"), certified("zeek")),
        (certified("hub"), ANONYMOUS),
        (ANONYMOUS, certified("zeek")),
    ],
)
async def test_who_is_not_vouched_for(server: ZeekSettings, client: ZeekSettings) -> None:
    heard = b""
    with suppress(ssl.SSLError, ConnectionError):  # TLS 1.3 tells a client behind its handshake, by closing
        heard = (await talk(server, client)).heard
    assert heard == b""


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    whole = certified("hub")
    with pytest.raises(TlsError, match=r"zeek\.ca is missing: TLS with certificates needs"):
        server_context(ZeekSettings(certificate=whole.certificate, key=whole.key))
    with pytest.raises(TlsError, match=r"zeek\.certificate .*: there is no file .*nowhere\.pem"):
        server_context(ZeekSettings(certificate=str(tmp_path / "nowhere.pem"), key=whole.key, ca=whole.ca))
    with pytest.raises(TlsError, match=r"zeek\.ca .*: there is no such file"):
        client_context(ZeekSettings(certificate=whole.certificate, key=whole.key, ca=str(tmp_path / "nowhere.pem")))
    with pytest.raises(TlsError, match=r"zeek\.key .*stranger\.key: "):
        client_context(ZeekSettings(certificate=whole.certificate, key=certified("stranger").key, ca=whole.ca))
