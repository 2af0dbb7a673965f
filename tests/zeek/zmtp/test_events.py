"""Events of Zeek nodes, from ZeroMQ to frames of the hub and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import RejectedError
from hub.labels.envelope import Envelope
from hub.messages.batch import Batch
from hub.messages.frame import BATCH_COUNT, BROKER_FLAGS, FLAG_BATCH, KIND_MESSAGES, encode_frame, iterate_frames
from hub.messages.stretch import Run, Stretch
from peers.values import CONVERTED_LIMIT_BYTES, Count, encode, to_msgpack
from peers.values.event import Event
from peers.wire.scanner import NEED_DATA
from peers.zeek.zmtp.events import EventHead, EventSession, EventWriter, Keep, NoEvent, is_of_node, to_json
from peers.zeek.zmtp.frames import Command, Incoming, Message, encode_command, encode_message
from peers.zeek.zmtp.session import Ended, Greeting, Ready, encode_properties

HANDSHAKE = Greeting("NULL").encode() + encode_command(Command(b"READY", encode_properties({"Socket-Type": b"XPUB"})))
BINARY = b"broker-bin-v1"


class Table:
    def __init__(self) -> None:
        self.table: dict[bytes, bytes] = {}

    def miss(self, key: bytes) -> bytes:
        self.table[key] = key
        return key


def opened(limit_bytes: int = 1 << 20, keep: Keep = lambda *_: None) -> EventSession[bytes]:
    session = EventSession(limit_bytes, Table(), keep)
    session.feed(HANDSHAKE)
    assert session.next_event() is None
    assert isinstance(session.next_event(), Ready)
    return session


def drain(session: EventSession[bytes]) -> list[Any]:
    found: list[Any] = []
    while (event := session.next_event()) is not NEED_DATA:
        found += list(event) if isinstance(event, Stretch) else [event]
    return found


def message(topic: bytes, sender: bytes, payload: bytes) -> bytes:
    return encode_message([topic, sender, BINARY, payload])


topics = st.sampled_from([b"zeek.a", b"zeek.b", "zeek.ü".encode(), b"t" * 300])
senders = st.sampled_from([b"worker-1", b"worker-2"])
payloads = st.sampled_from([0, 1, 2, 200, 300, 70_000]).map(lambda size: Event("Demo::e", "x" * size).encode())
bad = st.sampled_from(
    [
        encode_message([b"zeek.a"]),
        encode_message([b"zeek.a", b"x", b"broker-bin-v2", b""]),
        message(b"zeek.a", b"worker-1", b""),
        message(b"zeek.a", b"worker-1", encode("no event")),
        message(b"\xff", b"worker-1", Event("Demo::e").encode()),
    ]
)
events = st.tuples(topics, senders, payloads)


@given(st.lists(events | bad, max_size=30), st.lists(st.integers(1, 5000)))
def test_however_reads_are_cut(parts: list[Any], cuts: list[int]) -> None:
    wire = b"".join(part if isinstance(part, bytes) else message(*part) for part in parts)
    session, found = opened(), []
    for size in [*cuts, len(wire)]:
        session.feed(wire[:size])
        found += drain(session)
        wire = wire[size:]
    frames = [frame for run in found if isinstance(run, Run) for frame in iterate_frames(run.frames)]
    assert [(Envelope.decode(frame.key).topic.encode(), _node(frame.key), frame.body) for frame in frames] == [
        part for part in parts if not isinstance(part, bytes)
    ]
    assert all(frame.routing_key == run.route for run in found if isinstance(run, Run) for frame in _frames(run))
    assert sum(run.messages for run in found if isinstance(run, Run)) == len(frames)
    refused = sum(isinstance(event, NoEvent) for event in found)
    assert refused == session.rejected_messages == len(parts) - len(frames)
    assert session.held_bytes == 0


def _frames(run: Run[bytes]) -> list[Any]:
    return list(iterate_frames(run.frames))


def _node(key: bytes) -> bytes:
    (label,) = Envelope.decode(key).labels
    return label.removeprefix("zeek-node=").encode()


@given(st.lists(events, min_size=1, max_size=20))
def test_what_nodes_send_to_each_other_is_the_same_bytes(sent: list[tuple[bytes, bytes, bytes]]) -> None:
    wire = b"".join(message(*one) for one in sent)
    kept: list[tuple[Batch, bytes]] = []
    session = opened(keep=lambda *one: kept.append(one))
    session.feed(wire)
    runs = drain(session)
    writer = EventWriter(b"hub")
    batch = Batch(b"".join(run.frames for run in runs), len(sent))
    assert writer.write(batch) == (wire, 0)
    assert all(writer.write(run) == (events, 0) for run, events in kept)


@given(st.binary(max_size=300), st.lists(st.integers(1, 50)))
def test_garbage_ends_the_session_or_is_no_event(garbage: bytes, cuts: list[int]) -> None:
    session = opened(10_000)
    for size in [*cuts, len(garbage)]:
        session.feed(garbage[:size])
        assert all(isinstance(event, NoEvent | Ended | None) for event in drain(session))
        garbage = garbage[size:]


def test_what_the_hub_sends_of_others() -> None:
    event = Event("Demo::hello", Count(1))
    packed, other = to_msgpack(event.encode()), to_msgpack(encode("text"))
    body = BATCH_COUNT.pack(3) + packed + other + packed
    batch = Batch(encode_frame(KIND_MESSAGES, body, key=b"zeek.a", flags=FLAG_BATCH), 3)
    sent = message(b"zeek.a", b"hub", event.encode())
    assert EventWriter(b"hub").write(batch) == (sent * 2, 1)


def test_events_of_nodes_are_not_passed_on_to_nodes() -> None:
    event = Event("Demo::hello", Count(1)).encode()
    keys = [EventHead(b"zeek.a", b"worker-1").routing_key, b"zeek.b"]
    frames = [len(event).to_bytes(4, "big") + keys[0] + event]
    frames.append(encode_frame(KIND_MESSAGES, event, key=keys[1], flags=BROKER_FLAGS))
    batch = Batch(b"".join([frames[0], frames[1], frames[0]]), 3)
    assert EventWriter(b"hub", passes_on=False).write(batch) == (message(b"zeek.b", b"hub", event), 0)
    assert EventWriter(b"hub").write(batch)[0].count(b"worker-1") == 2


@pytest.mark.parametrize(
    "sender", [b"", b"x" * 118, bytes(range(97, 123)) * 5, "é".encode() * 60, b"x" + "€".encode() * 84, b"xy=" * 85]
)
def test_ids_of_any_length(sender: bytes) -> None:
    head = EventHead(b"zeek.a", sender, b"broker-json-v1")
    assert EventHead.of(head.routing_key, b"hub") == head
    assert is_of_node(head.routing_key)


@pytest.mark.parametrize("sender", [b"\n", b"x" * 400])
def test_senders_that_the_hub_has_no_label_for(sender: bytes) -> None:
    head = EventHead(b"zeek.a", sender)
    with pytest.raises(RejectedError):
        assert head.routing_key


def test_the_serializer_of_the_cluster() -> None:
    event = Event("Demo::hello", Count(1))
    key = EventHead(b"zeek.a", b"worker-1", b"broker-json-v1").routing_key
    of_node = len(event.encode()).to_bytes(4, "big") + key + event.encode()
    of_client = encode_frame(KIND_MESSAGES, to_msgpack(event.encode()), key=b"zeek.a")
    batch = Batch(of_node + of_client, 2)
    writer = EventWriter(b"hub")

    def written() -> list[tuple[bytes, ...]]:
        frames, lost = writer.write(batch)
        assert not lost
        incoming = Incoming(1 << 20)
        incoming.feed(frames)
        return [tuple(one.parts) for one in iter(incoming.next_message, None) if isinstance(one, Message)]

    binary, text = (BINARY, event.encode()), (b"broker-json-v1", to_json(event.encode()))
    assert written() == [(b"zeek.a", b"worker-1", *text), (b"zeek.a", b"hub", *binary)]
    writer.serializer = b"broker-json-v1"
    assert written() == [(b"zeek.a", b"worker-1", *text), (b"zeek.a", b"hub", *text)]
    writer.serializer = BINARY
    assert written() == [(b"zeek.a", b"worker-1", *binary), (b"zeek.a", b"hub", *binary)]
    large = Event("Demo::large", "x" * CONVERTED_LIMIT_BYTES).encode()
    assert writer.write(Batch(encode_frame(KIND_MESSAGES, large, key=b"a", flags=BROKER_FLAGS), 1))[1] == 0
    writer.serializer = b"broker-json-v1"
    assert writer.write(Batch(encode_frame(KIND_MESSAGES, large, key=b"a", flags=BROKER_FLAGS), 1)) == (b"", 1)


@pytest.mark.parametrize("serializer", [b"", BINARY, b"broker-json-v1"])
def test_garbage_of_clients_reaches_no_node(serializer: bytes) -> None:
    event = Event("Demo::hello", Count(1)).encode()
    writer = EventWriter(b"hub")
    writer.serializer = serializer
    frames = [
        encode_frame(KIND_MESSAGES, body, key=b"zeek.a", flags=BROKER_FLAGS)
        for body in (event, event[:-1], event + b"x", event[:21] + b"\xff", b"", event)
    ]
    written, lost = writer.write(Batch(b"".join(frames), len(frames)))
    assert lost == 4
    assert written == writer.write(Batch(frames[0], 1))[0] * 2


def test_the_first_event_teaches_the_serializer() -> None:
    learnt: list[bytes] = []
    session: EventSession[bytes] = EventSession(1 << 20, Table(), lambda *_: None, learn=learnt.append)
    session.feed(HANDSHAKE)
    payload = Event("Demo::hello", Count(1)).encode()
    for parts in (
        [b"a", b"w", BINARY, b"none"],
        [b"a", b"topichub_x", BINARY, payload],
        [b"a", b"w", b"broker-json-v1", to_json(payload)],
        [b"b", b"w", BINARY, payload],
    ):
        session.feed(encode_message(parts))
        drain(session)
    assert learnt == [b"broker-json-v1"]
