"""`HttpFarSide`: what the hub answers to a client over HTTP; see `peers.verbs.far_side.FarSide`.

Whoever is asking at the moment, a POST or a stream, hears it. Owner: one connection. Not here: what is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from hub.errors import CloseCode, RejectedError
from hub.frame import HEADER, HEADER_BYTES
from hub.names.claim import Change
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind

__all__ = ["HttpFarSide", "Listener"]


class Listener(Protocol):
    """Whoever is asking."""

    def confirmed(self, request: int, offset: int | None) -> None:
        """It was carried out."""

    def refused(self, error: RejectedError, request: int) -> None:
        """It was not."""

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Messages are in the journal."""

    def records(self, body: memoryview) -> None:
        """A piece of the journal is there."""

    def gone(self, text: str, first: int) -> None:
        """That piece is not in the journal, which begins at this offset."""

    def write_later(self) -> None:
        """Something was told outside of a read."""


class _Nobody:
    """Nobody is asking."""

    def confirmed(self, request: int, offset: int | None) -> None:
        """Nobody hears it."""

    def refused(self, error: RejectedError, request: int) -> None:
        """Nobody hears it."""

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Nobody hears it."""

    def records(self, body: memoryview) -> None:
        """Nobody hears it."""

    def gone(self, text: str, first: int) -> None:
        """Nobody hears it."""

    def write_later(self) -> None:
        """Nobody hears it."""


NOBODY: Listener = _Nobody()


class HttpFarSide:
    """A client over HTTP as the verbs see it.

    Args:
        frame_limit_bytes: Largest piece of the journal that it is given.
    """

    __slots__ = ("act", "frame_limit_bytes", "listener")

    act: Callable[[Any], object]
    """The verbs' `act`, by which the rest of a change is done; set as soon as the verbs are made."""

    def __init__(self, frame_limit_bytes: int) -> None:
        self.frame_limit_bytes = frame_limit_bytes
        self.listener: Listener = NOBODY
        """Who is asking."""

    def let_go(self) -> None:
        """Nobody asks any more."""
        self.listener = NOBODY
        self.act = _ignore

    def confirm(
        self,
        request: int,
        offset: int | None = None,
        *,
        text: str = "",  # noqa: ARG002 -- of claims, which are not made here
        messages: int = 0,  # noqa: ARG002 -- of COMMIT
        again: bool = False,  # noqa: ARG002 -- the same
    ) -> None:
        """It was carried out."""
        self.listener.confirmed(request, offset)

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """It was refused, or what was held is taken away."""
        self.listener.refused(error, request)

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:  # noqa: ARG002 -- one for each
        """It was refused."""
        self.listener.refused(error, request)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Messages are in the journal."""
        self.listener.recorded(request, offset, messages)

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002
        """Messages are not in the journal."""
        self.listener.refused(error, request)

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        """Hand on a piece of the journal, or why there is none."""
        _, kind, _, _ = HEADER.unpack_from(answer)
        body = memoryview(answer)[HEADER_BYTES:]
        if kind == Kind.RECORDS:
            self.listener.records(body)
            return
        notice = decode_notice(bytes(body))
        if notice.code == CloseCode.GONE and notice.offset is not None:
            self.listener.gone(notice.text, notice.offset)
        else:
            self.listener.refused(RejectedError(notice.code, notice.text), request)

    def tell_name(self, change: Change) -> None:
        """Nothing: names are not claimed here."""

    def expect_answers(self) -> None:
        """Nothing: whoever asks waits for the answer."""

    def put_off(self, rest: object) -> None:
        """Do the rest at once: a change of as much as a client may have is about its share of a turn."""
        self.act(rest)

    def write_later(self) -> None:
        """Something was told outside of a read."""
        self.listener.write_later()


def _ignore(_: object) -> None:
    """Stand in for the verbs of a client that has gone."""
