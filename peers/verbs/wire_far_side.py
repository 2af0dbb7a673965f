"""`WireFarSide`: what the hub answers, as NOTICE frames of its own protocol.

Owner: one connection. Nothing is said once the conversation is over. Not here: what is answered (`peers.verbs`).
"""

from __future__ import annotations

from typing import Protocol

from hub.errors import CloseCode, RejectedError
from hub.names.claim import Change, Standing
from hub.routes import Route
from peers.wire.control import Notice, encode_notice
from peers.wire.session import Session

__all__ = ["Shell", "WireFarSide"]


class Shell(Protocol):
    """The connection."""

    def speak(self) -> None:
        """Write what the session has to say, in this turn."""

    def write(self, frame: bytes | bytearray) -> None:
        """Write a frame that is ready, behind what the session has to say."""

    def expect_answers(self) -> None:
        """Do not read on while the far side does not read."""


class WireFarSide:
    """See `peers.verbs.far_side.FarSide`.

    Args:
        session: Where it is answered.
        shell: Its connection.
        frame_limit_bytes: Largest body that it takes, as it has said in HELLO.
    """

    __slots__ = ("_session", "expect_answers", "frame_limit_bytes", "put_off", "speak", "write")

    def __init__(self, session: Session[Route], shell: Shell, frame_limit_bytes: int) -> None:
        self._session = session
        self.frame_limit_bytes = frame_limit_bytes
        self.put_off = session.put_back
        self.speak = shell.speak
        self.write = shell.write
        self.expect_answers = shell.expect_answers

    def confirm(
        self, request: int, offset: int | None = None, *, text: str = "", messages: int = 0, again: bool = False
    ) -> None:
        """Say "confirmed"."""
        if request:
            self._say(Notice("confirmed", request=request, offset=offset, text=text, count=messages, again=again))

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """Say "error"."""
        self._say(Notice("error", request=request, code=error.code, text=error.text))

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:  # noqa: ARG002 -- runs bear none
        """Say "error" at the end of the read, once for each reason."""
        self._session.refuse(error.code, error.text, count)

    def recorded(self, request: int, offset: int, messages: int) -> None:  # noqa: ARG002 -- told in order, unnumbered
        """Say "recorded"."""
        self._say(Notice("recorded", count=messages, offset=offset))

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002 -- as `recorded`
        """Say "unrecorded"."""
        self._say(Notice("unrecorded", count=messages, code=error.code, text=error.text))

    def send_records(self, answer: bytes | bytearray, request: int) -> None:  # noqa: ARG002 -- it is in the frame
        """Write the frame as it is."""
        self.write(answer)

    def tell_name(self, change: Change) -> None:
        """Say "owned", "queued" or "lost"."""
        code = 0 if change.standing is Standing.OWNED else CloseCode.NOT_ALLOWED
        self._say(Notice(change.standing.value, name=change.name, code=code, text=change.text))

    def _say(self, notice: Notice) -> None:
        if not self._session.closed:
            self._session.send(encode_notice(notice))
