"""TLS contexts for `tls://` and `wss://`, and explanations of TLS errors.

Errors name the file, the cause and the fix. A reload makes a new context: authorities cannot be removed from one. TLS
of Zeeks is in `peers.connections.zeek_diallers`.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

from hub.errors import UsageError

if TYPE_CHECKING:  # clients need none of the hub's settings
    from hub.settings.settings import TlsSettings


_VERIFICATION = {"any": ssl.CERT_NONE, "asked": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # TLS 1.2 with forward secrecy and authenticated encryption, as all of 1.3

# OpenSSL's reasons for bytes that are not TLS.
NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})

# Answers of a hub to a client without a certificate of its authority.
_WANTS_CERTIFICATE = frozenset(
    {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV1_ALERT_UNKNOWN_CA"}
)
_EXPIRED, _NOT_YET_VALID = 10, 9
_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
_OTHER_HOST = frozenset({62, 64})  # Codes of OpenSSL's verification, from x509_vfy.h


class TlsError(UsageError):
    """TLS cannot be set up as configured."""


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener, or raise a `TlsError` that names the key of a missing or unusable file."""
    if not settings.certificate:
        raise TlsError("tls.certificate is missing: a listener on tls:// or wss:// needs tls.certificate and tls.key")
    clients = settings.clients
    if clients != "any" and not settings.ca:
        raise TlsError(f"tls.ca is missing: tls.clients = {clients!r} needs the authorities that vouch for clients")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.minimum]
    context.set_ciphers(_CIPHERS)
    load_certificate(context, settings.certificate, settings.key, "tls.certificate", "tls.key")
    if settings.ca:
        load_authorities(context, settings.ca, "tls.ca")
    if settings.crl:
        load_revoked(context, settings.crl)
    context.verify_mode = _VERIFICATION[clients]
    bound(context)
    return context


def bound(context: ssl.SSLContext) -> None:
    """Bound the work and memory of a client after its handshake.

    No renegotiation (TLS 1.2), which would allow endless handshakes. No tickets of 1.3: resuming saves little, and
    their keys live longer than connections. Tickets of 1.2 stay, as without them OpenSSL keeps up to 20,480 sessions.
    """
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0


def client_context(ca: str = "", certificate: str = "", key: str = "", crl: str = "") -> ssl.SSLContext:
    """Return the context of a client or dialling hub, or raise a `TlsError`.

    Args:
        ca: PEM file of authorities; empty for those of the system.
        certificate: PEM file of an own certificate; empty for none.
        key: PEM file of its key; empty if it is in the file of the certificate.
        crl: PEM file of revocation lists; empty for none.
    """
    if key and not certificate:
        raise TlsError("a key without its certificate: give both, or neither")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    if ca:
        load_authorities(context, ca, "ca")
    else:
        context.load_default_certs()
    if crl:
        load_revoked(context, crl)
    if certificate:
        load_certificate(context, certificate, key, "certificate", "key")
    return context


def load_certificate(context: ssl.SSLContext, certificate: str, key: str, of: str, key_of: str) -> None:
    """Load a certificate and its key, or raise a `TlsError`, in which `of` and `key_of` name them."""
    place = f"{of} {certificate}, {key_of} {key}" if key else f"{of} {certificate}"

    def refuse() -> str:  # OpenSSL would ask the terminal
        raise TlsError(f"{place}: the key is encrypted; give one without a pass phrase, readable by the hub alone")

    try:
        context.load_cert_chain(certificate, key or None, password=refuse)
    except OSError as error:
        raise TlsError(f"{place}: {_cause(error, certificate, key)}") from error


def load_authorities(context: ssl.SSLContext, ca: str, of: str) -> None:
    try:
        context.load_verify_locations(ca)
    except OSError as error:
        raise TlsError(f"{of} {ca}: {_cause(error, ca)}") from error


def load_revoked(context: ssl.SSLContext, crl: str) -> None:
    """Load revocation lists: from now on each certificate needs one of its issuer."""
    load_authorities(context, crl, "tls.crl")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _cause(error: OSError, *files: str) -> str:
    if isinstance(error, FileNotFoundError):
        missing = [file for file in files if file and not os.path.exists(file)]  # noqa: PTH110 -- clients load no pathlib
        if missing and len([file for file in files if file]) > 1:  # the text has named both
            return f"there is no file {missing[0]}"
        return "there is no such file"
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the key does not belong to the certificate"
        if error.reason in {None, "NO_START_LINE", "NO_CERTIFICATE_OR_CRL_FOUND", "PEM_LIB"}:
            return "no PEM of the expected kind is in the file (it begins with -----BEGIN)"
        return str(error.reason).lower().replace("_", " ")
    return error.strerror or str(error)


def explained(error: OSError, host: str) -> str:
    """Explain a failed handshake with `host`, and the fix; empty for errors without TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explained_certificate(error, host)
    if not isinstance(error, ssl.SSLError):
        return ""
    if error.reason in NO_TLS:
        return "it does not speak TLS: is that a tcp:// or ws:// port?"
    if error.reason in _WANTS_CERTIFICATE:
        return "it requires a client certificate of its authority: give certificate and key"
    return f"TLS: {str(error.reason or error).lower().replace('_', ' ')}"


def _explained_certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return "its certificate has expired: put a new one in place there and reload the hub"
    if code == _NOT_YET_VALID:
        return "its certificate is not valid yet: compare the clocks of both machines"
    if code in _OTHER_HOST:
        return f"its certificate is not for {host}: dial it by a name that the certificate has"
    if code in _UNKNOWN_ISSUER:
        return "no known authority vouches for its certificate: give the authority's file as ca"
    return f"its certificate is not accepted: {error.verify_message}"
