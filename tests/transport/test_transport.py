"""What is asked of transports: where the far side is, and that it pauses its protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

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


def test_a_transport_that_does_not_pause_by_itself_is_made_to() -> None:
    transport = FakeTransport()
    write_pieces(transport, [bytes(HIGH_WATER_BYTES // 2)] * 2)
    assert not transport.paused
    write_pieces(transport, [b"x"])
    assert transport.paused


@pytest.mark.parametrize("high", [1000, 2 * HIGH_WATER_BYTES])
def test_a_limit_that_was_set_stays(high: int) -> None:
    transport = FakeTransport()
    transport.high = high
    write_pieces(transport, [bytes(high)])
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
