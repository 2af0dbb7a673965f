"""`StagedPart`: what one task brings to the hub, in pieces, to be committed with what the others bring.

```
frames ─▶ pieces of 1 MiB ─ STAGE ─▶ hub        a few on their way at a time; each has a number of its own
                             lost ─▶ the same piece again, under another number
```

A piece whose answer is lost may stand in the hub or not. So it is sent again under a new number, and only numbers that
were confirmed are committed: the hub drops the others. Numbers are of the attempt of the task, which Spark never gives
twice within an application, so that a task that is repeated, or done twice at a time, adds nothing either.

Owner: one task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from typing import NamedTuple

from hub.errors import CloseCode, ClosedError, PeerError, RejectedError
from peers.client.blocking import BlockingClient
from peers.spark.connector.connection import Connection, Retries

PIECE_BYTES = 1024 * 1024
"""Staged in one go: what one answer of the journal holds, too."""

IN_FLIGHT = 4
"""Pieces on their way, so that a network's delay does not count for each."""

_PIECES_OF_ATTEMPT = 1 << 24
"""Most pieces of one attempt: 16 TiB."""

_AROUND_BYTES = 1024
"""What stands around the frames in STAGE, at most."""


class _Sent(NamedTuple):
    number: int
    piece: bytes
    answer: Future[None] | None
    client: BlockingClient


class StagedPart:
    """Brings frames to the hub.

    Args:
        connection: To the hub.
        transaction: Name of what is committed together.
        attempt: Of the task, unique within the transaction.
    """

    def __init__(self, connection: Connection, transaction: str, attempt: int) -> None:
        self._connection = connection
        self._transaction = transaction
        self._next = attempt * _PIECES_OF_ATTEMPT
        self._frames: list[bytes] = []
        self._size_bytes = 0
        self._sent: deque[_Sent] = deque()
        self.numbers: list[int] = []
        """Of what is confirmed, in the order of the frames."""
        self.messages = 0
        self.bytes = 0

    def add(self, frames: Iterable[tuple[bytes, int]]) -> None:
        """Bring whole frames, with the number of their messages.

        Raises:
            PeerError: The hub refuses, or cannot be reached.
        """
        for some, messages in frames:
            if self._size_bytes + len(some) > PIECE_BYTES:
                self._send_piece()
            self._frames.append(some)
            self._size_bytes += len(some)
            self.messages += messages

    def finish(self) -> None:
        """Bring the rest, and wait until all of it is staged.

        Raises:
            PeerError: The hub refuses, or cannot be reached.
        """
        self._send_piece()
        while self._sent:
            self._confirm_oldest()

    def _send_piece(self) -> None:
        if not self._frames:
            return
        piece = b"".join(self._frames)
        self._frames, self._size_bytes = [], 0
        self.bytes += len(piece)
        while len(self._sent) >= IN_FLIGHT:
            self._confirm_oldest()
        self._sent.append(self._send(piece))

    def _send(self, piece: bytes) -> _Sent:
        """Send a piece under a new number."""
        client = self._connection.ask(lambda client: client)
        _check_size(client, piece)
        number, self._next = self._next, self._next + 1
        try:
            answer = client.stage_nowait(self._transaction, number, piece)
        except ClosedError:
            return _Sent(number, piece, None, client)  # lost in this moment
        return _Sent(number, piece, answer, client)

    def _confirm_oldest(self) -> None:
        """Wait until the oldest piece is staged."""
        sent = self._sent.popleft()
        retries = self._connection.retries()
        while not self._is_staged(sent, retries):
            sent = self._send(sent.piece)
        self.numbers.append(sent.number)

    def _is_staged(self, sent: _Sent, retries: Retries) -> bool:
        """Wait for an answer; False if it is to be sent again.

        Raises:
            PeerError: The hub refuses, or cannot be reached.
        """
        try:
            if sent.answer is not None:
                sent.answer.result(self._connection.access.timeout_s)
                return True
            retries.pause(ClosedError("the connection was lost"))
        except (PeerError, ClosedError, TimeoutError) as error:
            self._connection.failed(error)
            retries.pause(error)
        return False


def _check_size(client: BlockingClient, piece: bytes) -> None:
    """See to it that the hub takes frames of this size, for it would end the connection.

    Raises:
        RejectedError: It does not.
    """
    limit = client.hub.frame - _AROUND_BYTES if client.hub is not None else PIECE_BYTES
    if len(piece) > limit:
        text = (
            f"a message of {len(piece)} bytes, the hub takes {limit} at most: "
            "write smaller values, or raise its limits.frame_bytes"
        )
        raise RejectedError(CloseCode.TOO_BIG, text)
