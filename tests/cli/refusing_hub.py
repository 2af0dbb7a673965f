"""A hub that refuses every message, as one with a stricter policy would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hub.errors import CloseCode, RejectedError
from peers.wire.control import Notice
from peers.wire.events import SubscriptionChange
from peers.wire.hello import Hello
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Session

_FRAME_BYTES = 1 << 20


class _Refusal:
    def __init__(self) -> None:
        self.table: dict[bytes, None] = {}

    def miss(self, _: bytes) -> None:
        raise RejectedError(CloseCode.NOT_ALLOWED, "nobody may publish here")


@asynccontextmanager
async def refusing_hub() -> AsyncIterator[str]:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session: Session[None] = Session("hub", _Refusal(), _FRAME_BYTES)
        while chunk := await reader.read(65536):
            session.feed(chunk)
            while (event := session.next_event()) is not NEED_DATA:
                if isinstance(event, Hello):
                    session.send(Hello(protocol=1, role="hub", id=bytes(16), name="strict").encode())
                elif isinstance(event, SubscriptionChange):
                    session.tell(Notice("confirmed", request=event.request))
            writer.write(session.take_outgoing())
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    async with server:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
