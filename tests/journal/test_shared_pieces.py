"""One answer for all who ask the same."""

from __future__ import annotations

from hub.errors import CloseCode, RejectedError
from peers.journal.readers import Deliver
from peers.journal.shared_pieces import SharedPieces


def test_who_asks_the_same_is_answered_together() -> None:
    """It is read once; whoever asks later has it read again."""
    read: list[tuple[bytes, Deliver]] = []
    pieces = SharedPieces(lambda order, deliver: read.append((order, deliver)))
    got: list[tuple[str, object]] = []
    for name, order in (("a", b"1"), ("b", b"2"), ("c", b"1")):
        pieces.fetch(order, lambda answer, name=name: got.append((name, answer)))  # type: ignore[misc]
    assert [order for order, _ in read] == [b"1", b"2"]
    read[0][1](b"first")
    assert got == [("a", b"first"), ("c", b"first")]
    pieces.fetch(b"1", lambda answer: got.append(("d", answer)))
    assert len(read) == 3
    error = RejectedError(CloseCode.TRY_AGAIN_LATER, "busy")
    read[1][1](error)
    assert got[-1] == ("b", error)


def test_who_asks_again_as_the_answer_comes() -> None:
    """It is another question."""
    read: list[Deliver] = []
    pieces = SharedPieces(lambda _, deliver: read.append(deliver))
    pieces.fetch(b"1", lambda _: pieces.fetch(b"1", lambda _: None))
    read[0](b"")
    assert len(read) == 2
