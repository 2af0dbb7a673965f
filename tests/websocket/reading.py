"""What a session says to bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from peers.websocket.http_session import Piece
from peers.websocket.session import Head
from peers.wire.scanner import NEED_DATA


class _Session(Protocol):
    def feed(self, data: bytes) -> None: ...

    def next_event(self) -> Any: ...

    def read(self) -> None: ...


def events_of(session: _Session, data: bytes) -> Iterator[Any]:
    session.feed(data)
    while (event := session.next_event()) is not NEED_DATA:
        if isinstance(event, Head | Piece):
            session.read()
        elif event is not None:
            yield event
