"""`WebSocketFarSide`: what the hub answers, as messages of `hub.v1.json` and `hub.v1.msgpack`.

Owner: one conversation. Not here: what is answered (`peers.verbs`), how it is encoded (`peers.websocket.codec`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from hub.errors import RejectedError
from hub.frame import HEADER, HEADER_BYTES
from hub.names.claim import Change
from peers.websocket.messages import Confirmed, Error, NameStanding, Recorded
from peers.websocket.session import Session
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind

__all__ = ["Shell", "WebSocketFarSide"]

_ENVELOPE_BYTES: Final = 64 * 1024
"""How much an answer may have around its largest value."""


class Shell(Protocol):
    """A connection, as far as a far side needs it."""

    def write_later(self) -> None:
        """Write what the session has to say, in this turn."""

    def owe(self) -> None:
        """Take note that the client is owed answers: nothing is read from it while it does not read."""


class WebSocketFarSide:
    """A WebSocket client as the verbs see it, see `peers.verbs.far_side.FarSide`.

    Args:
        session: The session by which the client is answered.
        shell: The connection of the client.
        frame_limit_bytes: Largest body that the hub takes; the client's answers may be as large.
    """

    __slots__ = ("_session", "act", "expect_answers", "frame_limit_bytes", "write_later")

    act: Callable[[Any], object]
    """The verbs' `act`, by which the rest of a change is done; set as soon as the verbs are made."""

    def __init__(self, session: Session, shell: Shell, frame_limit_bytes: int) -> None:
        self._session = session
        self.frame_limit_bytes = frame_limit_bytes + _ENVELOPE_BYTES
        self.write_later = shell.write_later
        self.expect_answers = shell.owe

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
        self.act(rest)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Send `recorded`."""
        self._session.send(Recorded(request, offset, messages))

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002 -- the number tells
        """Send `error`."""
        self.reject(error, request)

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        """Send `records`, which is the body of the answer; or `error`, if the answer is a notice."""
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
