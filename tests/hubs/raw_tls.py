"""A raw client behind TLS: what it says is encrypted, and nothing is read before a test asks for it."""

from __future__ import annotations

import ssl
from typing import Self

from peers.transport.endpoints import Endpoint
from tests.hubs.raw_client import RawClient

__all__ = ["SecuredClient"]


class SecuredClient(RawClient):
    """A socket on which frames are spoken behind TLS. It believes any certificate."""

    async def shake_hands(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._secured = context.wrap_bio(self._incoming, self._outgoing)
        while True:
            try:
                self._secured.do_handshake()
                break
            except ssl.SSLWantReadError:
                await super().send(self._outgoing.read())
                self._incoming.write(await super()._receive())
        await super().send(self._outgoing.read())

    @classmethod
    async def connect(cls, endpoint: Endpoint, *, receive_bytes: int | None = None) -> Self:
        client = await super().connect(endpoint, receive_bytes=receive_bytes)
        await client.shake_hands()
        return client

    async def send(self, *data: bytes) -> None:
        self._secured.write(b"".join(data))
        await super().send(self._outgoing.read())

    async def _receive(self) -> bytes:
        while True:
            try:
                return self._secured.read(1 << 20)
            except ssl.SSLWantReadError:
                came = await super()._receive()
                if not came:
                    return b""
                self._incoming.write(came)
            except ssl.SSLZeroReturnError:
                return b""
