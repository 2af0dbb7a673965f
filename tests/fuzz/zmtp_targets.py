"""Streams of ZMTP, as nodes of a Zeek cluster send them: on the side that subscribes, and on the one that publishes."""

from __future__ import annotations

from contextlib import suppress

from hub.batch import Batch
from hub.stretch import Run, Stretch
from peers.values import Count
from peers.values.event import Event
from peers.wire.scanner import NEED_DATA
from peers.zeek.broker.writing import UNREAD_BYTES
from peers.zeek.zmtp.events import SERIALIZERS, EventSession, EventWriter, to_json
from peers.zeek.zmtp.frames import Command, encode_command, encode_message
from peers.zeek.zmtp.logs import LogBatch, LogBatchError
from peers.zeek.zmtp.session import Greeting, Session, SocketType, encode_properties
from tests.fuzz.target import Target
from tests.zeek.zmtp.recordings import TO_BROKER, wire
from tests.zeek.zmtp.test_logs import recorded

__all__ = ["ZMTP_TARGETS"]

_LIMIT = 64 * 1024
_HANDSHAKE = Greeting("NULL").encode() + encode_command(Command(b"READY", encode_properties({"Socket-Type": b"XPUB"})))


class _Routes:
    """Takes every key."""

    def __init__(self) -> None:
        self.table: dict[bytes, bytes] = {}

    def miss(self, key: bytes) -> bytes:
        self.table[key] = key
        return key


def _run_publisher(data: bytes) -> None:
    """What is taken for events is written again, in either serializer, and read again as so many events."""
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
    """Feed it in two reads, the first of which ends where the data says."""
    cut = data[0] if data else 0
    batches: list[Batch] = []
    for part in (data[1 : 1 + cut], data[1 + cut :]):
        session.feed(part)
        while (event := session.next_event()) is not NEED_DATA:
            if isinstance(event, Run | Stretch):
                batches.append(event.whole() if isinstance(event, Stretch) else event)
    return batches


def _run_subscriber(data: bytes) -> None:
    session = Session(SocketType.XPUB, _LIMIT)
    session.feed(data)
    while session.next_event() is not NEED_DATA:
        pass
    assert session.held_bytes <= _LIMIT + 64


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


def _run_log_batch(data: bytes) -> None:
    with suppress(LogBatchError):
        batch = LogBatch(data)
        while batch.left:
            assert batch.take(2)[1] in {1, 2}


ZMTP_TARGETS = (
    Target("zmtp_publisher", _run_publisher, _publisher_seeds, [b"\x01\x00", b"broker-json-v1", b"\xff" * 8]),
    Target("log_batch", _run_log_batch, recorded, [b"\xff" * 8, b"\0\0\0\x0e", b"\0\0\0\x13"]),
    Target("zmtp_subscriber", _run_subscriber, lambda: _streams("XSUB to"), [b"\x04\x09SUBSCRIBE", b"\x06CANCEL"]),
)
