"""TLS towards Zeeks, in the two modes that Broker has.

| | no certificate is set | a certificate is set |
|---|---|---|
| authentication | none: anonymous ECDH, encryption only | mutual: an authority vouches for both certificates |
| version | 1.2 (1.3 has no anonymous ciphers) | 1.2 or newer |
| host names | not checked | not checked, as Broker does it: whoever has a certificate of the authority is trusted |

Both sides must use the same mode. Broker without TLS (`disable-ssl`) is reached by `zeek+tcp://`.
"""

from __future__ import annotations

import ssl

from hub.settings.settings import ZeekSettings
from peers.transport.tls import TlsError, bound, load_authorities, load_certificate

_ANONYMOUS = "AECDH-AES256-SHA@SECLEVEL=0"
"""Broker's only cipher without certificates; OpenSSL counts it as insecure, as it authenticates nobody."""

_AUTHENTICATED = "HIGH:!aNULL:!MD5"
_CURVE = "secp384r1"


def server_context(settings: ZeekSettings) -> ssl.SSLContext:
    """Return the context for a listener.

    Raises:
        TlsError: A file cannot be used, one of the three is missing, or this OpenSSL has no anonymous ciphers.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    bound(context)
    if not _has_certificate(settings):
        context.set_ecdh_curve(_CURVE)
    return context


def client_context(settings: ZeekSettings) -> ssl.SSLContext:
    """Return the context for a dialler.

    Raises:
        TlsError: As for `server_context`.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.options |= ssl.OP_NO_RENEGOTIATION  # it lets a far side order handshakes without end
    return context


def _has_certificate(settings: ZeekSettings) -> bool:
    return bool(settings.certificate or settings.key or settings.ca)


def _context(side: int, settings: ZeekSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if _has_certificate(settings):
        _load(context, settings)
        return context
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(_ANONYMOUS)
    except ssl.SSLError as error:
        raise TlsError(
            "zeek: this OpenSSL has no anonymous ciphers, which Broker uses without certificates; "
            "use zeek+tcp:// (Broker's disable-ssl) or set zeek.certificate, zeek.key and zeek.ca"
        ) from error
    return context


def _load(context: ssl.SSLContext, settings: ZeekSettings) -> None:
    for name in ("certificate", "key", "ca"):
        if not getattr(settings, name):
            raise TlsError(
                f"zeek.{name} is missing: TLS with certificates needs zeek.certificate, zeek.key and zeek.ca"
            )
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_ciphers(_AUTHENTICATED)
    load_certificate(context, settings.certificate, settings.key, "zeek.certificate", "zeek.key")
    load_authorities(context, settings.ca, "zeek.ca")
