"""What the hub answers in its own protocol, as far as that is not seen over sockets."""

from __future__ import annotations

from typing import cast

from hub.errors import CloseCode
from hub.frame import encode_frame
from peers.connections.connection import Connection
from peers.connections.tcp import WireFarSide
from peers.wire.control import Notice, decode_notice
from peers.wire.kinds import Kind
from tests.wire.pair import CLIENT_HELLO, frames_of, side_of


class Scene:
    """A far side, and what its connection was asked for."""

    def __init__(self) -> None:
        side = side_of("hub")
        side.hear(CLIENT_HELLO.encode())
        self.session = side.session
        self.session.take_outgoing()
        self.written: list[bytes] = []
        self.waits = 0
        self.far = WireFarSide(self.session, cast("Connection", self), 1 << 20)

    def write_later(self) -> None:
        """Write soon."""

    def write(self, pieces: list[bytes]) -> None:
        self.written += pieces

    def wait_for_reader(self) -> None:
        self.waits += 1


def test_confirmations_only_where_asked_for() -> None:
    scene = Scene()
    scene.far.confirm(0)
    scene.far.confirm(5)
    (frame,) = frames_of(scene.session.take_outgoing())
    assert decode_notice(frame.body) == Notice("confirmed", request=5)


def test_records_are_kept_for_whoever_has_asked() -> None:
    scene = Scene()
    frame = encode_frame(Kind.RECORDS, b"records")
    scene.far.send_records(frame, 7)
    assert (scene.written, scene.waits) == ([frame], 1)


def test_nothing_is_written_behind_the_end() -> None:
    scene = Scene()
    scene.session.close(CloseCode.DONE, "that was all")
    scene.far.send_records(encode_frame(Kind.RECORDS, b"records"), 7)
    assert (scene.written, scene.waits) == ([], 0)
