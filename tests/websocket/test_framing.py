"""Ready frames: what a client's reader makes of them."""

from __future__ import annotations

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from peers.websocket.framing import encode_message

SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 70_000]


def read(data: bytes) -> Frame:
    client = ClientProtocol(parse_uri("ws://h/"), state=OPEN, max_size=None)
    client.receive_data(data)
    (frame,) = client.events_received()
    assert isinstance(frame, Frame)
    return frame


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
def test_a_client_reads_what_was_written(opcode: Opcode, size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    frame = read(encode_message(opcode, payload))
    assert (frame.opcode, bytes(frame.data), frame.fin) == (opcode, payload, True)


@pytest.mark.parametrize("size", SIZES)
def test_headers_are_the_librarys(size: int) -> None:
    assert encode_message(Opcode.TEXT, bytes(size)) == Frame(Opcode.TEXT, bytes(size)).serialize(mask=False)


def test_parts_stand_back_to_back() -> None:
    assert encode_message(Opcode.BINARY, b"a", b"", b"bc") == encode_message(Opcode.BINARY, b"abc")
