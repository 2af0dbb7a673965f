"""What the tests of Broker's peering share: recordings of real endpoints, and a session that tells what it says."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hub.messages.frame import Frame, iterate_frames
from hub.messages.stretch import Run, Stretch
from peers.wire.scanner import NEED_DATA
from peers.zeek.broker.messages import LENGTH, Envelope, EnvelopeType, decode_envelope, decode_filter
from peers.zeek.broker.session import Event, PeerKnown, Role, Session
from tests.wire.pair import Table, Way, runs_in

LOW = bytes.fromhex("11111111111141118111111111111111")
HIGH = bytes.fromhex("eeeeeeeeeeee4eeebeeeeeeeeeeeeeee")

RECORDINGS = Path(__file__).parent.parent / "recordings"

CONNECTIONS = (
    "n00-two-broker-nodes-ping-pong",
    "n01-low-connects-to-high",
    "n02-high-connects-to-low",
    "n05-data-store",
    "n06-forwarding-three-nodes.s0",
    "n06-forwarding-three-nodes.s1",
    "n07-broker-throughput-events.s0",
    "n07-broker-throughput-events.s1",
    "n07-broker-throughput-events.s2",
    "n07-broker-throughput-events.s3",
    "t01-clone-attach",
    "t02-clone-before-master",
)
"""Between two endpoints of Broker, from the first byte to the last."""

LIMIT_PREFIXES = 100


def split(stream: bytes) -> list[bytes]:
    frames = []
    position = 0
    while position < len(stream):
        end = position + LENGTH.size + LENGTH.unpack_from(stream, position)[0]
        frames.append(stream[position + LENGTH.size : end])
        position = end
    return frames


def framed(payload: bytes) -> bytes:
    return LENGTH.pack(len(payload)) + payload


@dataclass(frozen=True)
class Direction:
    stream: bytes
    handshake: list[bytes]
    envelopes: list[Envelope]

    @property
    def sender(self) -> bytes:
        return next(frame[5:21] for frame in self.handshake if frame[0] in (6, 8))

    @property
    def filter(self) -> tuple[str, ...]:
        raw = next(frame for frame in self.handshake if frame[0] in (10, 11))
        return decode_filter(raw, 1, LIMIT_PREFIXES)[0]

    def control(self) -> list[Envelope]:
        return [each for each in self.envelopes if each.type not in (EnvelopeType.DATA, EnvelopeType.COMMAND)]

    def of_type(self, kind: EnvelopeType) -> list[Envelope]:
        return [each for each in self.envelopes if each.type is kind]

    def filters(self) -> list[tuple[str, ...]]:
        updates = self.of_type(EnvelopeType.ROUTING_UPDATE)
        return [decode_filter(each.payload, 0, LIMIT_PREFIXES)[0] for each in updates]


def connection(name: str) -> dict[Role, Direction]:
    streams: dict[Role, bytes] = {
        "connector": gzip.decompress((RECORDINGS / f"{name}.c2s.gz").read_bytes()),
        "acceptor": gzip.decompress((RECORDINGS / f"{name}.s2c.gz").read_bytes()),
    }
    split_streams = {role: split(stream) for role, stream in streams.items()}
    originator: Role = "connector" if b"\x0c" in split_streams["connector"] else "acceptor"
    found: dict[Role, Direction] = {}
    for role, frames in split_streams.items():
        last = 12 if role == originator else 11
        count = next(number for number, frame in enumerate(frames) if frame[0] == last) + 1
        envelopes = [decode_envelope(frame) for frame in frames[count:]]
        found[role] = Direction(streams[role], frames[:count], envelopes)
    return found


def errors() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((RECORDINGS / "n04-handshake-errors.json").read_text())
    return loaded


Reported = Run[Way] | Stretch[Way] | Event


@dataclass
class Side:
    session: Session[Way]
    table: Table = field(default_factory=Table)
    events: list[Reported] = field(default_factory=list)
    outgoing: bytes = b""
    on_event: Callable[[Reported], None] = lambda _: None
    """What the owner does, beside going on with the handshake."""

    decides: bool = True
    """Whether it goes on with the handshake."""

    def hear(self, pieces: Iterable[bytes]) -> None:
        self.drain()
        for piece in pieces:
            self.session.feed(piece)
            self.drain()

    def drain(self) -> None:
        while (event := self.session.next_event()) is not NEED_DATA:
            if event is None:
                continue
            assert not isinstance(event, type(NEED_DATA))
            self.events.append(event)
            if isinstance(event, PeerKnown) and self.decides:
                self.session.proceed()
            self.on_event(event)
        self.outgoing += self.session.take_outgoing()

    def frames(self) -> list[Frame]:
        return [frame for event in self.events for run in runs_in(event) for frame in iterate_frames(run.frames)]

    def messages(self) -> list[tuple[bytes, bytes]]:
        return [(frame.key, frame.body) for frame in self.frames()]

    def of_type(self, *kinds: type) -> list[Reported]:
        return [event for event in self.events if isinstance(event, kinds)]


def side_of(own_id: bytes = HIGH, role: Role = "acceptor", prefixes: tuple[str, ...] = ("/a",), **limits: int) -> Side:
    table = Table()
    return Side(Session(own_id, role, table, prefixes, **limits), table)
