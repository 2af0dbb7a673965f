"""Messages from the frames of the websockets library, and what a Close has said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, SERVER, Protocol

from hub.errors import CloseCode, ProtocolError
from peers.transport.fragments import FRAGMENTS_LIMIT, End, Fragments, Message, end_of

PIECES = st.lists(st.binary(max_size=5), min_size=1, max_size=5)


@given(st.sampled_from([Opcode.TEXT, Opcode.BINARY]), st.lists(PIECES, max_size=4))
def test_messages_in_pieces(opcode: Opcode, messages: list[list[bytes]]) -> None:
    """Each message comes once, when its last frame does, whatever control frames stand between its frames."""
    fragments = Fragments()
    for pieces in messages:
        found = []
        for place, piece in enumerate(pieces):
            assert fragments.take(Frame(Opcode.PING, b"x")) is None
            is_last = place == len(pieces) - 1
            found.append(fragments.take(Frame(opcode if not place else Opcode.CONT, piece, fin=is_last)))
        assert found == [None] * (len(pieces) - 1) + [Message(opcode, b"".join(pieces))]


def test_too_many_pieces() -> None:
    """A message of more frames than any sender has reason for is refused: empty ones are within any limit of size."""
    fragments = Fragments()
    fragments.take(Frame(Opcode.TEXT, b"a", fin=False))
    piece = Frame(Opcode.CONT, b"", fin=False)
    for _ in range(FRAGMENTS_LIMIT - 1):
        fragments.take(piece)
    with pytest.raises(ProtocolError) as refused:
        fragments.take(piece)
    assert refused.value.code == CloseCode.TOO_BIG
    assert fragments.take(Frame(Opcode.TEXT, b"b")) == Message(Opcode.TEXT, b"b")


def test_as_many_pieces_as_autobahn_tries() -> None:
    fragments = Fragments()
    fragments.take(Frame(Opcode.BINARY, bytes(64), fin=False))
    piece = Frame(Opcode.CONT, bytes(64), fin=False)
    for _ in range(65_535):
        fragments.take(piece)
    assert fragments.take(Frame(Opcode.CONT, b"")) == Message(Opcode.BINARY, bytes(4 * 1024 * 1024))


def test_ends() -> None:
    near, far = Protocol(SERVER), Protocol(CLIENT)
    assert end_of(near) is None
    far.send_close(1001, "bye")
    near.receive_data(b"".join(far.data_to_send()))
    assert end_of(near) == End(1001, "bye", by_far_side=True)
    near = Protocol(SERVER)
    near.receive_data(b"\xff\xff\xff\xff\xff\xff")
    found = end_of(near)
    assert found is not None
    assert (found.code, found.by_far_side) == (CloseCode.PROTOCOL_ERROR, False)
