"""TLS sessions: no listener makes tickets of TLS 1.3, and none keeps sessions of connections that have ended."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from hub.settings.sections import TlsSettings, ZeekSettings
from peers.connections import broker_tls
from peers.transport import tls

FILES = Path(__file__).parent / "certificates"
CERTIFICATE, KEY, CA = (str(FILES / name) for name in ("hub.pem", "hub.key", "ca.pem"))

ZEEK = ZeekSettings(certificate=CERTIFICATE, key=KEY, ca=CA)

LISTENERS: dict[str, Callable[[], ssl.SSLContext]] = {
    "hub": lambda: tls.server_context(TlsSettings(certificate=CERTIFICATE, key=KEY)),
    "zeek": lambda: broker_tls.server_context(ZEEK),
}

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def dialling(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = broker_tls.client_context(ZEEK)
    context.maximum_version = version
    return context


def conversation(listens: ssl.SSLContext, dials: ssl.SSLContext) -> ssl.SSLObject:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = listens.wrap_bio(there, back, server_side=True)
    far = dials.wrap_bio(back, there)
    for _ in range(4):
        for end in (far, near):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    near.write(b"x")
    assert far.read() == b"x"
    for end in (far, near, far):
        with suppress(ssl.SSLError):
            end.unwrap()
    return far


@pytest.mark.parametrize("make", LISTENERS.values(), ids=LISTENERS.keys())
def test_no_tickets(make: Callable[[], ssl.SSLContext]) -> None:
    far = conversation(make(), dialling(ssl.TLSVersion.TLSv1_3))
    assert far.version() == "TLSv1.3"
    assert far.session is not None
    assert not far.session.has_ticket


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("make", LISTENERS.values(), ids=LISTENERS.keys())
def test_no_sessions_are_kept(make: Callable[[], ssl.SSLContext], version: ssl.TLSVersion) -> None:
    listens = make()
    for _ in range(3):
        conversation(listens, dialling(version))
    assert listens.session_stats()["accept_good"] == 3
    assert listens.session_stats()["number"] == 0


def test_a_zeek_without_certificates() -> None:
    settings = ZeekSettings()
    listens = broker_tls.server_context(settings)
    assert conversation(listens, broker_tls.client_context(settings)).version() == "TLSv1.2"
    assert listens.session_stats()["number"] == 0
    assert listens.num_tickets == 0
    assert listens.options & ssl.OP_NO_RENEGOTIATION
