"""`WireFarSide`: what the hub answers, as NOTICE frames of its own protocol.

Owner: one connection. Nothing is said once the conversation is over. Not here: what is answered (`peers.verbs`).
"""

from __future__ import annotations

from typing import Protocol, cast

from hub.errors import CloseCode, RejectedError
from hub.names.claim import Change, Standing
from hub.routes import Route
from peers.wire.control import Notice
from peers.wire.session import Session

__all__ = ["Shell", "WireFarSide"]


class Shell(Protocol):
    """What writes on the connection."""

    def write_later(self) -> None:
        """Write what the session has to say, in this turn."""

    def write(self, pieces: list[bytes]) -> None:
        """Write frames that are ready, behind what the session has to say."""

    def wait_for_reader(self) -> None:
        """Do not read on while the far side does not read."""


class WireFarSide:
    """See `peers.verbs.far_side.FarSide`.

    Args:
        session: Where it is answered.
        shell: What writes to it.
        frame_limit_bytes: Largest body that it takes, as it has said in HELLO.
    """

    __slots__ = ("_session", "_write", "expect_answers", "frame_limit_bytes", "put_off", "write_later")

    def __init__(self, session: Session[Route], shell: Shell, frame_limit_bytes: int) -> None:
        self._session = session
        self.frame_limit_bytes = frame_limit_bytes
        self.put_off = session.put_back
        self.write_later = shell.write_later
        self.expect_answers = shell.wait_for_reader
        self._write = shell.write

    def confirm(
        self, request: int, offset: int | None = None, *, text: str = "", messages: int = 0, again: bool = False
    ) -> None:
        """Say "confirmed"."""
        if request:
            self._session.tell(
                Notice("confirmed", request=request, offset=offset, text=text, count=messages, again=again)
            )

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """Say "error"."""
        self._session.reject(error, request)

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:  # noqa: ARG002 -- runs bear none
        """Say "error" at the end of the read, once for each reason."""
        self._session.refuse(error.code, error.text, count)

    def recorded(self, request: int, offset: int, messages: int) -> None:  # noqa: ARG002 -- told in order, unnumbered
        """Say "recorded"."""
        self._session.tell(Notice("recorded", count=messages, offset=offset))

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002 -- as `recorded`
        """Say "unrecorded"."""
        self._session.tell(Notice("unrecorded", count=messages, code=error.code, text=error.text))

    def send_records(self, answer: bytes | bytearray, request: int) -> None:  # noqa: ARG002 -- it is in the frame
        """Write the frame as it is, if there is still somebody to read it."""
        if not self._session.closed:
            self._write([cast("bytes", answer)])
            self.expect_answers()

    def tell_name(self, change: Change) -> None:
        """Say "owned", "queued" or "lost"."""
        code = 0 if change.standing is Standing.OWNED else CloseCode.NOT_ALLOWED
        self._session.tell(Notice(change.standing.value, name=change.name, code=code, text=change.text))
