"""Messages of a journal on their way to the reader of a stream."""

from __future__ import annotations

from hub.batch import Batch, Message
from hub.frame import KIND_MESSAGES, encode_frame
from hub.journal.block import pack, select
from hub.journal.message import RecordedMessage
from peers.client.journal_stream import decoded, recorded_batches
from peers.client.values import decode_batch


def messages_of(block: bytes) -> list[Message]:
    read = [decoded(batch, lambda *one: decode_batch(*one)[0]) for batch in recorded_batches(block)]
    return [message for some in read for message in some]


def places_of(messages: list[Message]) -> list[tuple[int, int]]:
    return [(one.offset, one.time_us) for one in messages if isinstance(one, RecordedMessage)]


def test_each_message_has_the_offset_and_the_time_of_its_record() -> None:
    (block,) = pack([(100, Batch.of("/a", [1, 2]).frames), (150, Batch.of("/b", [3]).frames)], 3)
    found = messages_of(block)
    assert found == [("/a", 1), ("/a", 2), ("/b", 3)]
    assert places_of(found) == [(3, 100), (4, 100), (5, 150)]


def test_offsets_may_have_gaps() -> None:
    frames = b"".join(Batch.of(topic, [number]).frames for number, topic in enumerate(["/a", "/b", "/a"]))
    (block,) = pack([(100, frames)], 7)
    found = messages_of(select(block, 7, 10, bytes([1, 0])))
    assert found == [("/a", 0), ("/a", 2)]
    assert places_of(found) == [(7, 100), (9, 100)]


def test_what_cannot_be_read_moves_no_offset() -> None:
    frames = b"".join(encode_frame(KIND_MESSAGES, body, key=b"/a") for body in (b"\x01", b"\xc1", b"\x03"))
    (block,) = pack([(100, frames)], 0)
    found = messages_of(block)
    assert found == [("/a", 1), ("/a", 3)]
    assert places_of(found) == [(0, 100), (2, 100)]


def test_what_is_read_value_by_value_has_room_for_offsets() -> None:
    frames = b"".join(encode_frame(KIND_MESSAGES, body, key=b"/a") for body in (b"\x01", b"\xc1", b"\x03"))
    found, _ = decode_batch(Batch(frames, 3), RecordedMessage)
    assert [type(message) for message in found] == [RecordedMessage] * 2


def test_live_messages_are_left_as_they_are() -> None:
    (message,) = decoded(Batch.of("/a", [1]), lambda *one: decode_batch(*one)[0])
    assert message == ("/a", 1)
    assert not isinstance(message, RecordedMessage)
