"""What is asked of transports: where the far side is, and that it pauses its protocol."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, SERVER, Protocol

from hub.errors import CloseCode, ProtocolError
from peers.transport.fragments import FRAGMENTS_LIMIT, End, Fragments, Message, end_of
from peers.transport.timing import HELD_S, LINK_CAP_S, Act, Backoff, Liveness, Step
from peers.transport.transport import far_address, write_pieces

HIGH_WATER_BYTES = 64 * 1024  # the default of asyncio and uvloop before a protocol is paused


class FakeTransport(asyncio.Transport):
    def __init__(self, **extra: Any) -> None:
        super().__init__(extra)
        self.held_bytes = 0
        self.paused = False
        self.closing = False
        self.high = HIGH_WATER_BYTES

    def writelines(self, list_of_data: Any) -> None:
        self.held_bytes += sum(map(len, list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.held_bytes

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (1000, self.high)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert (high, low) == (self.high, 1000)
        self.paused = self.held_bytes > self.high


@pytest.mark.parametrize("high", [HIGH_WATER_BYTES, 1000, 2 * HIGH_WATER_BYTES])
def test_a_transport_that_does_not_pause_by_itself_is_made_to(high: int) -> None:
    transport = FakeTransport()
    transport.high = high
    write_pieces(transport, [bytes(high // 2)] * 2)
    assert not transport.paused
    write_pieces(transport, [b"x"])
    assert transport.paused


def test_nothing_is_written_to_a_transport_that_is_closing() -> None:
    """CPython 3.12.0 to 3.13.1 would watch a descriptor that is about to be another connection's."""
    transport = FakeTransport()
    transport.closing = True
    write_pieces(transport, [b"x"])
    assert transport.held_bytes == 0


@pytest.mark.parametrize(
    ("extra", "address"),
    [
        ({"peername": ("127.0.0.1", 5000)}, "127.0.0.1:5000"),
        ({"peername": ("::1", 5000, 0, 0)}, "[::1]:5000"),
        ({"peername": "", "sockname": "/run/hub.sock"}, "unix:/run/hub.sock"),
        ({"peername": None, "sockname": ("127.0.0.1", 4000)}, "gone before it was known, at 127.0.0.1:4000"),
        ({}, "unix:"),
    ],
)
def test_far_address(extra: dict[str, Any], address: str) -> None:
    """A TCP client that has reset its connection before it was looked at is not shown as a Unix socket."""
    assert far_address(FakeTransport(**extra)) == address


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


def test_nothing_while_the_hub_talks() -> None:
    liveness = Liveness(100.0)
    for now_s in (105.0, 120.0, 139.0):
        liveness.heard_s = now_s
        assert liveness.check(now_s + 1, reading=True) == Step(Act.NOTHING, now_s + 20)


def test_ping_and_lost() -> None:
    liveness = Liveness(100.0)
    assert liveness.check(119.9, reading=True) == Step(Act.NOTHING, 120.0)
    assert liveness.check(120.0, reading=True) == Step(Act.PING, 130.0)
    assert liveness.check(125.0, reading=True) == Step(Act.NOTHING, 130.0)
    assert liveness.check(130.0, reading=True) == Step(Act.LOST, math.inf)


def test_answered() -> None:
    liveness = Liveness(100.0)
    assert liveness.check(120.0, reading=True).act is Act.PING
    liveness.heard_s = 121.0
    assert liveness.check(130.0, reading=True) == Step(Act.NOTHING, 141.0)
    assert liveness.check(141.0, reading=True).act is Act.PING


def test_a_side_that_does_not_read() -> None:
    """Who does not read cannot hear: a sign of life goes out every 10 s, and the silence counts from the reading on."""
    liveness = Liveness(100.0)
    assert liveness.check(120.0, reading=True).act is Act.PING
    for now_s in (130.0, 140.0, 500.0):
        assert liveness.check(now_s, reading=False) == Step(Act.PONG, now_s + 10)
    assert liveness.check(505.0, reading=True) == Step(Act.NOTHING, 520.0)
    assert liveness.check_after_pause_s == 5.0


def test_overslept() -> None:
    liveness = Liveness(100.0)
    assert not liveness.has_overslept(119.0)
    assert liveness.has_overslept(120.0)


def test_who_is_asked_has_overslept() -> None:
    """A side that has asked for a sign of life has overslept at that same time, however the two times are rounded."""
    for milliseconds in range(1000):
        liveness = Liveness(milliseconds / 1000, ping_after_s=0.001)
        now_s = liveness.check(liveness.heard_s, reading=True).next_s
        assert liveness.check(now_s, reading=True).act is Act.PING
        assert liveness.has_overslept(now_s)


class Highest(random.Random):
    def uniform(self, a: float, b: float) -> float:
        assert a == 0
        return b


def test_the_bound_doubles_up_to_the_cap() -> None:
    backoff = Backoff(base_s=0.1, cap_s=1.0, source=Highest())
    assert [backoff.next_s() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_in_the_first_minute_clients_come_back_soon() -> None:
    backoff = Backoff(source=Highest())
    for _ in range(2):
        drawn = [backoff.next_s() for _ in range(19)]
        assert drawn[:7] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
        assert drawn[7:17] == [5.0] * 10
        assert drawn[17:] == [30.0, 30.0]
        backoff.reset()


def test_links_come_back_sooner() -> None:
    """A hub has few peers: the bound of a link stops growing at two seconds, however long the far side is away."""
    backoff = Backoff.for_link()
    drawn = [backoff.next_s() for _ in range(1000)]
    assert drawn[0] <= 0.1
    assert max(drawn) <= LINK_CAP_S == 2.0
    assert max(drawn) > 1.0


def test_a_refusal_that_stands() -> None:
    backoff = Backoff(base_s=0.1, cap_s=8.0)
    held = [backoff.held_s() for _ in range(100)]
    assert HELD_S / 2 <= min(held) < max(held) <= HELD_S
    assert backoff.next_s() <= 0.1
