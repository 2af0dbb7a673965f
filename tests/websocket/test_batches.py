"""Forms: what clients read of a batch, that it is made once, and what stays of it."""

from __future__ import annotations

import json
from ipaddress import ip_address
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from hub.labels.envelope import tagged
from hub.messages.batch import Batch
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, encode_frame
from peers.values import Count, Port, encode, ext_hook
from peers.values.conversion import BROKER_LIMIT_BYTES, CONVERTED_LIMIT_BYTES
from peers.values.event import Event
from peers.values.forms import KEPT_LIMIT_BYTES, Form
from peers.websocket.batches import MERGED_LIMIT_BYTES, encode_message, json_form, msgpack_form

BROKER = 0b010
ENCODINGS = {"json": json_form, "msgpack": msgpack_form}


def packed(topic: str, body: bytes, *, flags: int = 0) -> bytes:
    return encode_frame(KIND_MESSAGES, body, key=topic.encode(), flags=flags)


def together(topic: str, *bodies: bytes) -> bytes:
    return packed(topic, BATCH_COUNT.pack(len(bodies)) + b"".join(bodies), flags=FLAG_BATCH)


def value(topic: str, one: Any) -> bytes:
    return packed(topic, msgpack.packb(one))


def payloads(data: bytes) -> list[tuple[Opcode, bytes]]:
    client = ClientProtocol(parse_uri("ws://h/"), state=OPEN, max_size=None)
    client.receive_data(data)
    frames = client.events_received()
    assert client.close_sent is None
    return [(frame.opcode, bytes(frame.data)) for frame in frames if isinstance(frame, Frame)]


def read(batch: Batch, make: Any) -> list[dict[str, Any]]:
    return [
        json.loads(payload) if opcode is Opcode.TEXT else msgspec.msgpack.decode(payload)
        for opcode, payload in payloads(batch.form(make).frames(batch))
    ]


def messages(topic: str, *values: Any) -> dict[str, Any]:
    return {"type": "messages", "topic": topic, "values": list(values)}


@pytest.fixture(params=["json", "msgpack"])
def make(request: pytest.FixtureRequest) -> Any:
    return ENCODINGS[request.param]


def test_labels_and_names_stand_beside_the_topic(make: Any) -> None:
    key = tagged("/a", ["é", "low"], "s.s", "d.d").encode()
    frames = [
        encode_frame(KIND_MESSAGES, b"\1", key=key, flags=FLAG_TAGGED),
        encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(2) + b"\2\3", key=key, flags=FLAG_TAGGED | FLAG_BATCH),
        value("/a", 4),
        encode_frame(KIND_MESSAGES, b"\5", key=tagged("/a", ["low"]).encode(), flags=FLAG_TAGGED),
        encode_frame(KIND_MESSAGES, encode(Count(6)), key=tagged("/a").encode(), flags=FLAG_TAGGED | BROKER),
    ]
    found = read(Batch(b"".join(frames), 6), make)
    values = [message.pop("values") for message in found]
    assert [one for some in values[:-1] for one in some] == [1, 2, 3, 4, 5]
    everything = {"type": "messages", "topic": "/a", "labels": ["low", "é"], "sender": "s.s", "to": "d.d"}
    assert found[0] == everything
    assert found[-3:] == [
        {"type": "messages", "topic": "/a"},
        {"type": "messages", "topic": "/a", "labels": ["low"]},
        {"type": "messages", "topic": "/a"},
    ]


def test_frames_of_one_topic_are_merged(make: Any) -> None:
    frames = [value("/a", 1), value("/a", 2), together("/b", b"\x03", b"\x04"), value("/a", 5)]
    batch = Batch(b"".join(frames), 5)
    assert read(batch, make) == [messages("/a", 1, 2), messages("/b", 3, 4), messages("/a", 5)]
    assert batch.form(make).frames(batch) is batch.form(make).frames(batch), "it is made once"


def test_merging_stops_at_its_limit(make: Any) -> None:
    values = [[number, "x" * 1000] for number in range(200)]
    found = read(Batch(b"".join(value("/a", one) for one in values), 200), make)
    assert [one for message in found for one in message["values"]] == values
    sizes = [sum(len(msgpack.packb(one)) for one in message["values"]) for message in found]
    assert len(found) == 4
    assert all(MERGED_LIMIT_BYTES - 2048 < size <= MERGED_LIMIT_BYTES for size in sizes[:-1])


@pytest.mark.parametrize("count", [1, 15, 16, 4096])
def test_a_batch_of_any_number(make: Any, count: int) -> None:
    assert read(Batch.of("/a", range(count)), make) == [messages("/a", *range(count))]


def test_msgpack_bodies_are_not_rewritten() -> None:
    odd = b"\xd3\0\0\0\0\0\0\0\x01"  # 1, in nine bytes
    batch = Batch(packed("/a", odd) + packed("/a", odd) + together("/a", odd, odd), 4)
    _, (first, second) = None, [payload for _, payload in payloads(msgpack_form(batch).frames(batch))]
    assert first.endswith(b"\x92" + odd * 2)
    assert second.endswith(b"\x92" + odd * 2)


def test_a_batch_that_cannot_be_told_apart_is_a_gap() -> None:
    batch = Batch(value("/a", 1) + together("/a", b"\x01", b"\xc1", b"\x02") + value("/a", 2), 5)
    assert read(batch, json_form) == [messages("/a", 1), {"type": "dropped", "count": 3}, messages("/a", 2)]
    assert batch.form(json_form).lost_messages == 3


def test_another_encoding_has_no_form(make: Any) -> None:
    frames = packed("/a", b"??", flags=BROKER) + packed("/a", BATCH_COUNT.pack(4) + b"????", flags=BROKER | FLAG_BATCH)
    batch = Batch(value("/a", 1) + frames, 6)
    assert read(batch, make) == [messages("/a", 1), {"type": "dropped", "count": 5}]
    assert batch.form(make).lost_messages == 5


def test_values_of_zeek() -> None:
    event = Event("Demo::hello", ip_address("192.0.2.7"), Count(3), Port(53, "udp"))
    plain = [1, 1, ["Demo::hello", ["192.0.2.7", 3, "53/udp"]]]
    batch = Batch(packed("/z", event.encode(), flags=BROKER) + packed("/z", event.to_msgpack()), 2)
    assert read(batch, json_form) == [messages("/z", plain, plain)]
    ((_, payload),) = payloads(batch.form(msgpack_form).frames(batch))
    values = msgspec.msgpack.decode(payload, ext_hook=lambda code, data: ext_hook(code, bytes(data)))["values"]
    assert [Event.of(one) for one in values] == [event, event]


def test_what_is_no_value_of_zeek() -> None:
    good = packed("/z", encode(Count(3)), flags=BROKER)
    bad = packed("/z", b"\xff", flags=BROKER)
    large = packed("/z", encode("x" * BROKER_LIMIT_BYTES), flags=BROKER)
    for make in ENCODINGS.values():
        batch = Batch(good + bad + large + good, 4)
        kinds = [message["type"] for message in read(batch, make)]
        assert kinds == ["messages", "dropped", "messages"]
        assert batch.form(make).lost_messages == 2


def test_a_body_that_is_too_large_has_no_json_form() -> None:
    big = "x" * CONVERTED_LIMIT_BYTES
    batch = Batch(value("/a", big), 1)
    assert read(batch, json_form) == [{"type": "dropped", "count": 1}]
    assert read(batch, msgpack_form) == [messages("/a", big)]


def test_forms_are_let_go_and_made_again() -> None:
    made = []

    def counted(batch: Batch) -> tuple[bytes, int]:
        made.append(batch)
        return bytes(KEPT_LIMIT_BYTES // 4), 0

    batches = [Batch(value("/a", number), 1) for number in range(6)]
    forms = [Form(counted) for _ in batches]
    for form, batch in zip(forms, batches, strict=True):
        form.frames(batch)
        form.frames(batch)
    assert made == batches, "each was made once while it was kept"
    assert [form.held_bytes for form in forms] == [0, 0] + [KEPT_LIMIT_BYTES // 4] * 4
    assert forms[0].frames(batches[0]) == bytes(KEPT_LIMIT_BYTES // 4)
    assert made == [*batches, batches[0]]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["/a", "/b"]),
            st.lists(st.sampled_from([b"\x01", b"\xa1x", b"\x91\x05", b"\xd4\x05x"]), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_message_is_told_or_delivered_in_order(publications: list[tuple[str, list[bytes]]]) -> None:
    frames = b"".join(packed(t, b[0]) if len(b) == 1 else together(t, *b) for t, b in publications)
    total = sum(len(bodies) for _, bodies in publications)
    expected: list[Any] = []
    for topic, bodies in publications:
        for body in bodies:
            if body != b"\xd4\x05x":
                expected.append((topic, msgpack.unpackb(body)))
            elif expected and isinstance(expected[-1], int):
                expected[-1] += 1
            else:
                expected.append(1)
    found: list[Any] = []
    for message in read(Batch(frames, total), json_form):
        if message["type"] == "dropped":
            found.append(message["count"])
        else:
            found += [(message["topic"], one) for one in message["values"]]
    assert found == expected


SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 70_000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
def test_a_client_reads_what_was_written(opcode: Opcode, size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert payloads(encode_message(opcode, payload)) == [(opcode, payload)]


def test_parts_stand_back_to_back() -> None:
    assert encode_message(Opcode.BINARY, b"a", b"", b"bc") == encode_message(Opcode.BINARY, b"abc")
