"""The other end of a `TlsSession`, in memory: what a client with OpenSSL says, and understands."""

from __future__ import annotations

import ssl
from contextlib import suppress

from tests.hubs.authority import Files

__all__ = ["FarEnd", "listening_context"]


def listening_context(files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return context


class FarEnd:
    """A client that trusts whomever it meets.

    Args:
        version: Of TLS.
    """

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
