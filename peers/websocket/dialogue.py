"""Dialogues: they carry out the messages of a client, once the WebSocket is open.

```
path            codec                         dialogue
/v1/hub         hub.v1.json, hub.v1.msgpack   HubDialogue (here)
another path    its own                       another one, such as that of `peers.websocket.zeek`
```

A client becomes a handler with its first message. Before that it can receive nothing; and as `hello` comes first, its
name is known when it is announced.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

from msgspec import UNSET
from websockets.frames import Opcode

from hub.errors import RejectedError
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.frame import HEADER, HEADER_BYTES
from hub.messages.request_frame import Item, Reply, Status, failure
from hub.names.claim import Change
from peers.commands.commands import Commands
from peers.server.server import Server
from peers.websocket.codec import json_item, msgpack_item, singly
from peers.websocket.framing import encode_message
from peers.websocket.messages import (
    ClientMessage,
    Confirmed,
    Error,
    Hello,
    NameStanding,
    Ping,
    Recorded,
    RefusedError,
    Welcome,
)
from peers.websocket.session import Session
from peers.wire.control import Renewal, decode_notice
from peers.wire.hello import grant
from peers.wire.kinds import Kind

_TOKEN_EVENTS = 10
"""What a fresh token costs of a turn's share, beyond reading it: a signature may have to be checked, 100 µs."""

_FORMLESS = "a value has no JSON form, or is too large for one"

_ENVELOPE_BYTES: Final = 64 * 1024
"""How much an answer may have around its largest value."""


class Carrier(Protocol):
    """The connection, as far as a dialogue needs it."""

    @property
    def proof_left_s(self) -> float:
        """Seconds before the client's proof of identity ends; inf for never."""

    @property
    def user(self) -> str:
        """The client's user; empty before that is known, and where there are no users."""

    def let_in(self, token: str) -> bool:
        """Return whether the client may come in, by this token or by its earlier proof; else it is turned away."""

    def renew(self, token: str) -> None:
        """Take a fresh token; raises `RejectedError` if it is not known, or another user's."""

    def join(self, name: str, limits: QueueLimits) -> Handler:
        """Make the client a handler of the core."""

    def write(self, frames: list[bytes]) -> None:
        """Write ready frames, after the session's answers."""

    def owe(self) -> None:
        """Do not read on while the client does not read its answers."""

    def write_later(self) -> None:
        """Write the session's answers soon."""

    def end(self, code: int, text: str) -> None:
        """Close the connection."""


class Dialogue(Protocol):
    """What differs, apart from the codec, between the protocols over a WebSocket."""

    def begin(self) -> None:
        """The handshake is over."""

    def act(self, message: ClientMessage) -> int:
        """Do what the client asks for; return its share of a turn, beyond reading it."""

    def end(self, code: int, text: str) -> tuple[int, str]:
        """Translate code and text of an end into those of the Close."""


class HubDialogue:
    """The hub's own protocol; also the client's `peers.commands.replies.Replies` and `hub.handlers.handler.Poster`.

    Args:
        node: The hub.
        session: Where the client is answered.
        queue: The queue of the client if it has no wish.
        carrier: The connection.
    """

    __slots__ = ("_carrier", "_commands", "_handler", "_queue", "_server", "_session", "frame_limit_bytes")

    def __init__(self, server: Server, session: Session, queue: QueueLimits, carrier: Carrier) -> None:
        self._server = server
        self._session = session
        self._queue = queue
        self._carrier = carrier
        self._handler: Handler | None = None
        self._commands: Commands | None = None
        self.frame_limit_bytes = server.settings.limits.frame_bytes + _ENVELOPE_BYTES

    def begin(self) -> None:
        """Welcome the client."""
        self._welcome(self._queue)

    def act(self, message: ClientMessage) -> int:
        """Do what the client asks for."""
        match message:
            case Hello():
                if self._carrier.let_in(message.token):
                    most = self._server.settings.queue_max
                    limits = grant(message.queue, self._queue, most.messages, most.bytes)
                    self._take_in(message.name, limits, narrow=message.narrow)
                    self._welcome(limits)
            case Ping():
                pass  # the session has answered it
            case Renewal():
                self._renew(message)
                return _TOKEN_EVENTS
            case _:
                if self._handler is None and self._carrier.let_in(""):
                    self._take_in("", self._queue)
                return 0 if self._commands is None else self._commands.act(message)
        return 0

    def end(self, code: int, text: str) -> tuple[int, str]:
        """Return both as they are."""
        return code, text

    def _renew(self, renewal: Renewal) -> None:
        if self._handler is None and not self._carrier.let_in(""):
            return
        try:
            self._carrier.renew(renewal.token)
        except RejectedError as error:
            self._session.reject(RefusedError(error.code, error.text, renewal.request))
            return
        if renewal.request:
            left_s = self._carrier.proof_left_s
            self._session.send(Confirmed(renewal.request, until=None if left_s == math.inf else max(0.0, left_s)))

    def _take_in(self, name: str, limits: QueueLimits, *, narrow: bool = False) -> None:
        handler = self._handler = self._carrier.join(name, limits)
        handler.narrows = narrow
        self._commands = Commands(self._server, handler, self)

    def write_more(self) -> None:
        """The client reads on."""
        if self._commands is not None:
            self._commands.write_more()

    def leave(self) -> None:
        """The client has gone: commands and dialogue know each other."""
        if self._commands is not None:
            self._commands.close()
            self._commands = None

    def _welcome(self, limits: QueueLimits) -> None:
        server = self._server
        left_s = self._carrier.proof_left_s
        welcome = Welcome(
            server.id.hex(),
            server.name,
            limits,
            server.settings.limits.frame_bytes,
            journal=server.journal.id.hex() or UNSET,
            until=UNSET if left_s == math.inf else max(0.0, left_s),
            user=self._carrier.user or UNSET,
            strangers=server.access.anonymous or UNSET,
        )
        self._session.send(welcome)

    # Requests and replies to the client.

    def post(self, items: list[Item]) -> None:
        """Write requests and replies."""
        frames: list[bytes] = []
        for item in items:
            self._put(item, frames)
        if frames:
            self._carrier.write(frames)

    def _put(self, item: Item, frames: list[bytes]) -> None:
        opcode = self._session.codec.opcode
        message = json_item(item) if opcode is Opcode.TEXT else msgpack_item(item)
        if message is not None:
            frames.append(encode_message(opcode, message))
            return
        pieces = list(singly(item))
        for piece in pieces:
            self._put(piece, frames)
        if pieces:
            return
        failed = failure(item.first, item.requests, Status.FAILED, _FORMLESS)
        if isinstance(item, Reply):
            self._put(failed, frames)
        elif self._handler is not None:
            self._server.core.requests.answer(self._handler, failed)

    # The far side of its commands.

    def confirm(
        self,
        request: int,
        offset: int | None = None,
        *,
        text: str = "",
        messages: int = 0,  # noqa: ARG002 -- only COMMIT has it, which does not exist over WebSockets
        again: bool = False,  # noqa: ARG002 -- the same
    ) -> None:
        """Send `confirmed`, if the client wants to know."""
        if request:
            self._session.send(Confirmed(request, offset, text))

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """Send `error`."""
        self._session.send(Error(error.code, error.text, request))

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:  # noqa: ARG002 -- one for each
        """Send `error`."""
        self.reject(error, request)

    def put_off(self, rest: object) -> None:
        """Do the rest at once: a change of as much as a client may have is about its share of a turn."""
        if self._commands is not None:
            self._commands.act(rest)  # type: ignore[arg-type]

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Send `recorded`."""
        self._session.send(Recorded(request, offset, messages))

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002 -- the number tells
        """Send `error`."""
        self.reject(error, request)

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        """Send `records`, or `error`, if the answer is a notice."""
        _, kind, _, _ = HEADER.unpack_from(answer)
        body = memoryview(answer)[HEADER_BYTES:]
        if kind == Kind.RECORDS:
            self._session.send_ready(body)
            return
        notice = decode_notice(bytes(body))
        self._session.send(Error(notice.code, notice.text, request, notice.offset))

    def tell_name(self, change: Change) -> None:
        """Send `name`."""
        self._session.send(NameStanding(change.name, change.standing.value, change.text))

    def expect_answers(self) -> None:
        """Do not read on while the client does not read."""
        self._carrier.owe()

    def write_later(self) -> None:
        """Write the session's answers soon."""
        self._carrier.write_later()
