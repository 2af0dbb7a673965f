"""Streams of ZMTP, as nodes of a Zeek cluster send them, and commands of Broker's data stores."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from contextlib import suppress

from hub.messages.batch import Batch
from hub.messages.stretch import Run, Stretch
from peers.values import Count
from peers.values.event import Event
from peers.wire.scanner import NEED_DATA
from peers.zeek.broker.envelopes import UNREAD_BYTES
from peers.zeek.broker.messages import NIL_ID, Envelope, EnvelopeType
from peers.zeek.broker.stores.command import (
    KIND_OFFSET,
    NIL_ENTITY,
    SENDER_OFFSET,
    InvalidCommandError,
    clone_topic,
    entity,
    master_topic,
)
from peers.zeek.broker.stores.forwarder import ForwarderLimits
from peers.zeek.zmtp.events import SERIALIZERS, EventSession, EventWriter, to_json
from peers.zeek.zmtp.frames import Command, encode_command, encode_message
from peers.zeek.zmtp.session import Greeting, encode_properties
from tests.fuzz.target import Target
from tests.zeek.broker.recorded import connection
from tests.zeek.broker.stores.simulated import HUB, Hub, Node
from tests.zeek.zmtp.recordings import TO_BROKER, wire

_LIMIT = 64 * 1024
_HANDSHAKE = Greeting("NULL").encode() + encode_command(Command(b"READY", encode_properties({"Socket-Type": b"XPUB"})))


class _Routes:
    def __init__(self) -> None:
        self.table: dict[bytes, bytes] = {}

    def miss(self, key: bytes) -> bytes:
        self.table[key] = key
        return key


def _run_publisher(data: bytes) -> None:
    session: EventSession[bytes] = EventSession(_LIMIT, _Routes(), lambda *_: None)
    found = _batches(session, data)
    assert session.held_bytes <= _LIMIT + 64
    for serializer in (b"", *SERIALIZERS):
        writer = EventWriter(b"hub")
        writer.serializer = serializer
        written = [writer.write(batch) for batch in found]
        assert not any(lost for _, lost in written) or any(batch.frames_bytes > UNREAD_BYTES for batch in found)
        again = EventSession(16 * _LIMIT, _Routes(), lambda *_: None)
        again.feed(_HANDSHAKE)
        assert again.next_event() is None
        read = _batches(again, b"\0" + b"".join(frames for frames, _ in written))
        assert sum(batch.messages for batch in read) == sum(
            batch.messages - lost for batch, (_, lost) in zip(found, written, strict=True)
        )


def _batches(session: EventSession[bytes], data: bytes) -> list[Batch]:
    cut = data[0] if data else 0
    batches: list[Batch] = []
    for part in (data[1 : 1 + cut], data[1 + cut :]):
        session.feed(part)
        while (event := session.next_event()) is not NEED_DATA:
            if isinstance(event, Run | Stretch):
                batches.append(event.whole() if isinstance(event, Stretch) else event)
    return batches


def _streams(socket: str) -> list[bytes]:
    recorded = wire("z01-null-wire.jsonl").items()
    return [b"".join(reads)[:4000] for (name, way), reads in recorded if way == TO_BROKER and socket in name]


def _publisher_seeds() -> list[bytes]:
    streams = _streams("XPUB to")
    event = Event("Demo::hello", "x" * 300).encode()
    further = encode_message([b"zeek.a", b"worker-1", b"broker-bin-v1", event])
    as_json = encode_message(
        [b"zeek.a", b"worker-1", b"broker-json-v1", to_json(Event("Demo::e", Count(1), "x").encode())]
    )
    both = [stream + more for stream in streams[:1] for more in (further * 2, as_json * 2)]
    return [b"\x10" + stream for stream in (*streams, *both)]


def _run_ends(data: bytes) -> None:
    hub = Hub(limits=ForwarderLimits(entities=50))
    one, two = hub.peer(1), hub.peer(2)
    two.serve("db")
    two.copy("db")
    position = 0
    while position + 2 <= len(data):
        size = int.from_bytes(data[position : position + 2], "big")
        payload = data[position + 2 : position + 2 + size]
        position += 2 + size
        topic = (clone_topic if size % 2 else master_topic)("db").encode()
        to = NIL_ID if size % 3 else HUB
        receiver = _RECEIVERS[size % 5](two) if len(payload) >= KIND_OFFSET else b""
        payload = payload[:SENDER_OFFSET] + entity(one.id, size % 7) + receiver + payload[KIND_OFFSET:]
        with suppress(InvalidCommandError):  # the node reads what is forwarded, as the hub's own would
            hub.hear(Envelope(one.id, to, EnvelopeType.COMMAND, topic, payload))
            hub.tick()
    assert hub.forwarder.entities <= 50 + 10
    assert two.strangers == 0


_RECEIVERS: tuple[Callable[[Node], bytes], ...] = (
    lambda _: NIL_ENTITY,
    lambda _: entity(HUB, 1),
    lambda node: _alias(node.masters["db"].own),
    lambda node: _alias(entity(node.id, 2000)),
    lambda node: node.masters["db"].own,
)


def _alias(of: bytes) -> bytes:
    return entity(HUB, int.from_bytes(hashlib.blake2b(of, digest_size=8, key=HUB).digest(), "big"))


def _end_seeds() -> list[bytes]:
    commands = _command_seeds()
    return [b"".join(len(each).to_bytes(2, "big") + each for each in commands[start::4]) for start in range(4)]


def _command_seeds() -> list[bytes]:
    sides = [*connection("t01-clone-attach").values(), *connection("n05-data-store").values()]
    commands = [each.payload for side in sides for each in side.of_type(EnvelopeType.COMMAND)]
    return sorted(set(commands))


TARGETS = (
    Target("zmtp_publisher", _run_publisher, _publisher_seeds, [b"\x01\x00", b"broker-json-v1", b"\xff" * 8]),
    Target("store_ends", _run_ends, _end_seeds, [struct.pack(">Q", 2**64 - 1), b"\0\x3a", b"\0\x41"], runs=300),
)
