"""`TlsSocket`: a socket with TLS 1.3 that the engine uses as it uses a plain one that does not block.

What is read with one call is everything that has come, so that nothing is left where `epoll` does not see it: OpenSSL
takes one record, of 16 KiB at most, off the kernel at a time, and there is always room for a whole one.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

__all__ = ["CIPHER", "CIPHER_CONFIGURATION", "TlsSocket", "secured"]

CIPHER: Final = "TLS_AES_128_GCM_SHA256"
"""Left to themselves they differ: nats-server takes this one, OpenSSL the one with 256 bits."""

CIPHER_CONFIGURATION: Final = f"""
openssl_conf = all
[all]
ssl_conf = uses
[uses]
system_default = connections
[connections]
Ciphersuites = {CIPHER}
"""
"""A file for OPENSSL_CONF: Python has no function for the ciphers of TLS 1.3."""

_RECORD_BYTES = 16 * 1024


class TlsSocket(ssl.SSLSocket):
    """One connection; made by the context of `secured`."""

    def send(self, data: Any, flags: int = 0) -> int:
        """Write; `BlockingIOError` where nothing could be."""
        try:
            return super().send(data, flags)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError) as error:
            raise BlockingIOError from error

    def recv(self, size_bytes: int = 1024, flags: int = 0) -> bytes:
        """Read a record's content; `BlockingIOError` where there is none."""
        try:
            return super().recv(size_bytes, flags)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:  # noqa: ARG002 -- a socket's
        """Read everything that has come; `BlockingIOError` where that is no whole record."""
        room = memoryview(buffer)
        filled = 0
        while len(room) - filled >= _RECORD_BYTES:
            try:
                size = super().recv_into(room[filled:])
            except ssl.SSLWantReadError as error:
                if not filled:
                    raise BlockingIOError from error
                break
            if not size:
                break
            filled += size
        return filled


def secured(connection: socket.socket, ca: str) -> TlsSocket:
    """Shake hands on a connection to 127.0.0.1 that blocks.

    Args:
        connection: It belongs to what is returned.
        ca: PEM file of the authority that vouches for the broker.

    Raises:
        ConnectionError: Another cipher was agreed on than what is measured.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(ca)
    context.sslsocket_class = TlsSocket
    made = context.wrap_socket(connection, server_hostname="127.0.0.1")
    cipher = made.cipher()
    if cipher is None or cipher[0] != CIPHER:
        made.close()
        raise ConnectionError(f"{CIPHER} expected: {cipher}")
    if not isinstance(made, TlsSocket):
        raise TypeError(made)
    return made
