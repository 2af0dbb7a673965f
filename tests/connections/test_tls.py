"""TLS towards Zeeks: both modes of Broker, errors of configuration, and no tickets or sessions that are kept."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from hub.settings.settings import TlsSettings, ZeekSettings
from peers.connections import zeek_diallers
from peers.connections.zeek_diallers import tls_client_context, tls_server_context
from peers.transport import tls
from peers.transport.tls import TlsError

CERTIFICATES = Path(__file__).parent / "certificates"
ANONYMOUS = ZeekSettings()


def certified(name: str) -> ZeekSettings:
    files = {kind: str(CERTIFICATES / f"{name}.{ending}") for kind, ending in (("certificate", "pem"), ("key", "key"))}
    return ZeekSettings(**files, ca=str(CERTIFICATES / "ca.pem"))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    whole = certified("hub")
    with pytest.raises(TlsError, match=r"zeek\.ca is missing: TLS with certificates needs"):
        tls_server_context(ZeekSettings(certificate=whole.certificate, key=whole.key))
    with pytest.raises(TlsError, match=r"zeek\.certificate .*: there is no file .*nowhere\.pem"):
        tls_server_context(ZeekSettings(certificate=str(tmp_path / "nowhere.pem"), key=whole.key, ca=whole.ca))
    with pytest.raises(TlsError, match=r"zeek\.ca .*: there is no such file"):
        tls_client_context(ZeekSettings(certificate=whole.certificate, key=whole.key, ca=str(tmp_path / "nowhere.pem")))
    with pytest.raises(TlsError, match=r"zeek\.key .*stranger\.key: "):
        tls_client_context(ZeekSettings(certificate=whole.certificate, key=certified("stranger").key, ca=whole.ca))


# TLS sessions: no listener makes tickets of TLS 1.3, and none keeps sessions of connections that have ended.


ZEEK = certified("hub")

LISTENERS: dict[str, Callable[[], ssl.SSLContext]] = {
    "hub": lambda: tls.server_context(TlsSettings(certificate=ZEEK.certificate, key=ZEEK.key)),
    "zeek": lambda: zeek_diallers.tls_server_context(ZEEK),
}

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def dialling(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = zeek_diallers.tls_client_context(ZEEK)
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


@pytest.mark.parametrize(
    ("server", "client"),
    [
        (certified("hub"), certified("stranger")),
        (certified("stranger"), certified("zeek")),
        (certified("hub"), ANONYMOUS),
        (ANONYMOUS, certified("zeek")),
    ],
)
def test_who_is_not_vouched_for(server: ZeekSettings, client: ZeekSettings) -> None:
    with pytest.raises(ssl.SSLError):
        conversation(tls_server_context(server), tls_client_context(client))


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
    assert listens.options & ssl.OP_NO_RENEGOTIATION
    assert listens.session_stats()["number"] == 0


def test_a_zeek_without_certificates() -> None:
    settings = ZeekSettings()
    listens = zeek_diallers.tls_server_context(settings)
    assert conversation(listens, zeek_diallers.tls_client_context(settings)).version() == "TLSv1.2"
    assert listens.session_stats()["number"] == 0
    assert listens.num_tickets == 0
    assert listens.options & ssl.OP_NO_RENEGOTIATION
