"""`Requests`: what one WebSocket client asks of services, and what it answers for others.

```
request ─▶ core.requests.ask       reply ─▶ core.requests.answer       serve, unserve ─▶ confirmed, error
core.requests ─ Handler.post ─▶ post: `request` and `reply` messages, one write
```

Owner: one conversation. Invariants: a request that the client cannot be told in its encoding is answered for it, with
the reason; a reply that it cannot be told becomes a failure with the reason.

Not here: who gets what (`hub.requests`), the messages (`peers.websocket.request_forms`, `request_codec`).
"""

from __future__ import annotations

from typing import Protocol

from websockets.frames import Opcode

from hub.errors import CloseCode, InvalidTopicError, RejectedError
from hub.handler import Handler
from hub.requests.lane import Item
from hub.requests.layout import Reply, Request, Status, failure
from hub.requests.requests import Refused
from peers.node import Node
from peers.websocket.framing import encode_message
from peers.websocket.messages import RefusedError, Serve, Unserve
from peers.websocket.request_forms import json_item, msgpack_item, singly
from peers.websocket.session import Session

__all__ = ["Requests"]

_FORMLESS = "a value has no JSON form, or is too large for one"


class Writer(Protocol):
    """The connection."""

    def write(self, frames: list[bytes]) -> None:
        """Write ready frames, behind what the session has to say."""

    def owe(self) -> None:
        """The client is owed answers: do not read on while it does not read."""


class Requests:
    """Of one client. Also the poster of its handler.

    Args:
        node: The hub.
        session: Where it is answered.
        writer: Its connection.
    """

    __slots__ = ("_handler", "_node", "_session", "_writer")

    def __init__(self, node: Node, session: Session, writer: Writer) -> None:
        self._node = node
        self._session = session
        self._writer = writer
        self._handler: Handler | None = None

    def act(self, handler: Handler, message: Request | Reply | Serve | Unserve) -> None:
        """Do what the client asks for."""
        self._handler = handler
        requests = self._node.core.requests
        match message:
            case Request():
                self._writer.owe()
                self._tell(requests.ask(handler, message, self._node.now_ms()))
            case Reply():
                self._tell(requests.answer(handler, message))
            case Serve() | Unserve():
                self._change(handler, message)

    def _change(self, handler: Handler, change: Serve | Unserve) -> None:
        requests = self._node.core.requests
        try:
            if isinstance(change, Serve):
                requests.serve(handler, change.prefixes)
            else:
                requests.unserve(handler, change.prefixes)
        except RejectedError as error:
            self._session.reject(RefusedError(error.code, error.text, change.request))
        except InvalidTopicError as error:
            self._session.reject(RefusedError(CloseCode.BAD_DATA, str(error), change.request))
        else:
            self._session.confirm(change.request)

    def _tell(self, refused: Refused | None) -> None:
        """Say what is wrong; not with the request's number, which may be that of another that is pending."""
        if refused is not None:
            self._session.reject(RefusedError(refused.code, refused.text))

    # The poster of the handler.

    def post(self, items: list[Item]) -> None:
        """Write requests and replies."""
        frames: list[bytes] = []
        for item in items:
            self._put(item, frames)
        if frames:
            self._writer.write(frames)

    def _put(self, item: Item, frames: list[bytes]) -> None:
        opcode = self._session.codec.opcode
        message = json_item(item) if opcode is Opcode.TEXT else msgpack_item(item)
        if message is not None:
            frames.append(encode_message(opcode, message))
            return
        pieces = list(singly(item))
        for piece in pieces:
            self._put(piece, frames)
        if not pieces:
            self._lose(item, frames)

    def _lose(self, item: Item, frames: list[bytes]) -> None:
        """Answer what cannot be told."""
        failed = failure(item.first, item.requests, Status.FAILED, _FORMLESS)
        if isinstance(item, Reply):
            self._put(failed, frames)
        elif self._handler is not None:
            self._node.core.requests.answer(self._handler, failed)
