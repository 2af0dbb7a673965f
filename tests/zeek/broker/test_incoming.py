"""What was read: whole frames come out, whatever the reads were, and little is held."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ProtocolError
from peers.zeek.broker.reading import Incoming
from tests.wire.pair import parts
from tests.zeek.broker.recorded import framed

LIMIT_BYTES = 50


def frames_of(incoming: Incoming) -> list[bytes]:
    """All whole frames that it has now."""
    found = []
    while size := incoming.next_size():
        found.append(incoming.take_frame(size))
    return found


@given(
    payloads=st.lists(st.binary(max_size=LIMIT_BYTES), max_size=8),
    cuts=st.lists(st.integers(0, 450)),
    at_once=st.booleans(),
)
def test_reads_change_nothing(payloads: list[bytes], cuts: list[int], *, at_once: bool) -> None:
    """Frames come out whole and in order, whether one looks after every read or once."""
    incoming = Incoming(LIMIT_BYTES)
    found: list[bytes] = []
    for piece in parts(b"".join(map(framed, payloads)), cuts):
        incoming.feed(piece)
        if not at_once:
            found += frames_of(incoming)
            assert incoming.held_bytes == incoming.waiting_bytes <= LIMIT_BYTES + 4
    found += frames_of(incoming)
    assert found == payloads
    assert not incoming.has_more
    assert not incoming.waiting_bytes


@pytest.mark.parametrize("cut", range(4))
def test_a_length_over_the_limit_ends_it(cut: int) -> None:
    """As soon as the length is there, nothing behind it is waited for."""
    incoming = Incoming(LIMIT_BYTES)
    length = b"\x00\x00\x00\x33"
    incoming.feed(length[:cut])
    assert not incoming.next_size()
    incoming.feed(length[cut:])
    with pytest.raises(ProtocolError, match="frame of 51 bytes, the limit is 50 bytes"):
        incoming.next_size()


def test_forgetting() -> None:
    """Nothing is left of what was fed."""
    incoming = Incoming(LIMIT_BYTES)
    for piece in (b"\x00\x00", b"\x00\x01", b"x" * 10):
        incoming.feed(piece)
    incoming.forget()
    assert (incoming.waiting_bytes, incoming.next_size()) == (0, 0)
