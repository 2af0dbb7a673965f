"""From blocks, or columns of Arrow, back to frames: `to_frames`, `frames_of_columns`.

```
block    topics  /a /a /a /b /a       ── to_frames ──▶  [/a BATCH 3][/b][/a]
         values   1  2  3  4  5
```

Consecutive values of one topic become one BATCH frame: a client gets a header for 4,096 messages and not for each. Only
a value that is one value of msgpack is joined to others, because a BATCH that cannot be cut is lost as a whole: one
value that somebody published broken must not spoil its neighbours. Broken ones, and those of other encodings, go as
they came, each in a frame of its own.

Invariants: the order stays; `pack` makes of these frames the records that they were made of.

Cost, for a value of 100 bytes, compiled and pure: 5 ns and 1 µs where a topic stays, 20 ns and 2 µs where each value
has another topic than the one before it, 24 ns and 3 to 4 µs for a map of 7 fields. Most of it is `skip_value`.

The compiled twin is in `hub/journal/_packing.pyx`. Not here: who gets the frames (`peers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import gt

from hub.batch import encode_values
from hub.frame import BATCH_COUNT, KIND_MESSAGES, Encoding, encode_frame
from hub.journal.layout import TOPIC_LIMIT_BYTES, columns_of, read_layout
from hub.journal.values import skip_value

__all__ = ["FRAMES_BYTES", "FRAME_BYTES", "FRAME_MESSAGES", "frames_of_columns", "to_frames"]

FRAME_MESSAGES = 4_096
"""Most values of one BATCH frame: cutting one in a queue walks over its values, so it must not hold all of a block."""

FRAME_BYTES = 65_536
"""Largest body of a BATCH frame, unless the caller says something else: where publishers stop too."""

FRAMES_BYTES = 262_144
"""Most bytes of frames that are handed out as one object, unless one frame is larger: what one read brings."""


def to_frames(block: bytes, limit_bytes: int = FRAME_BYTES) -> list[tuple[bytes, int]]:
    """Turn a block into MESSAGES frames.

    Args:
        block: Dense or sparse; offsets and times are left behind.
        limit_bytes: Largest body of a frame with several values.

    Returns:
        Whole frames back to back, and how many messages they hold: several times, each up to `FRAMES_BYTES`.

    Raises:
        ValueError: The block is damaged.
    """
    layout = read_layout(block)
    columns = columns_of(memoryview(block), layout)
    topics = [columns.topic(number) for number in range(layout.topics)]
    writer = _Writer(limit_bytes)
    for index, (number, encoding) in enumerate(zip(columns.topic_nos, columns.encodings, strict=True)):
        writer.add(topics[number], encoding, columns.value(index))
    return writer.take()


def frames_of_columns(  # noqa: PLR0913, PLR0917 -- two columns as Arrow has them, and which rows
    topic_offsets: bytes | memoryview,
    topic_data: bytes | memoryview | None,
    value_offsets: bytes | memoryview,
    value_data: bytes | memoryview | None,
    start: int,
    count: int,
) -> list[tuple[bytes, int]]:
    """Turn rows of two Arrow columns, the buffers of a string and of a binary array, into MESSAGES frames.

    Args:
        topic_offsets: int32: topic i is `topic_data[topic_offsets[i]:topic_offsets[i + 1]]`.
        topic_data: UTF-8, which is not checked here. None is empty, as Arrow has it.
        value_offsets: int32, the same of the values.
        value_data: Values as msgpack.
        start: The first row.
        count: How many rows.

    Returns:
        As `to_frames`.

    Raises:
        ValueError: There are not so many rows, an offset leads out of its data, or a topic is longer than a frame
            can bear.
    """
    topics = _rows("topics", topic_offsets, topic_data, start, count)
    values = _rows("values", value_offsets, value_data, start, count)
    writer = _Writer(FRAME_BYTES)
    for topic, value in zip(topics, values, strict=True):
        if len(topic) > TOPIC_LIMIT_BYTES:
            raise ValueError("a topic is longer than a frame can bear")
        writer.add(topic, Encoding.MSGPACK, value)
    return writer.take()


def _rows(
    name: str, offsets: bytes | memoryview, data: bytes | memoryview | None, start: int, count: int
) -> Iterable[bytes]:
    """Return rows of a column.

    Raises:
        ValueError: They are not there.
    """
    there = memoryview(offsets).nbytes // 4 - 1
    if start < 0 or count < 0 or start + count > max(there, 0):
        raise ValueError(f"the rows {start} to {start + count} of {name}, there are {max(there, 0)}")
    if not count:
        return ()
    ends: Sequence[int] = memoryview(offsets).cast("B")[4 * start : 4 * (start + count + 1)].cast("i")
    view = memoryview(data or b"").cast("B")
    if ends[0] < 0 or ends[-1] > len(view) or any(map(gt, ends, ends[1:])):
        raise ValueError(f"the offsets of {name} do not ascend within the {len(view)} bytes")
    return (bytes(view[begin:end]) for begin, end in pairwise(ends))


class _Writer:
    """A writer of frames: it joins messages to frames, and frames to larger bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        # Topic of the run that is being collected.
        self._topic = b""
        # Values of that topic in a row which go in one frame; empty once that was ended.
        self._run: list[bytes] = []
        # Length of these values, bytes.
        self._run_bytes = 0
        # Frames that are whole and were not handed out yet.
        self._frames: list[bytes] = []
        # Length of these frames, bytes.
        self._size = 0
        # How many messages they hold.
        self._messages = 0
        # What is ready to be handed out, each with its number of messages.
        self._done: list[tuple[bytes, int]] = []

    def add(self, topic: bytes, encoding: int, value: bytes) -> None:
        """Append one message."""
        if encoding != Encoding.MSGPACK or skip_value(value, 0, len(value)) != len(value):
            self._end_run()
            self._put(encode_frame(KIND_MESSAGES, value, key=topic, flags=encoding << 1), 1)
            return
        if (
            topic != self._topic
            or len(self._run) == FRAME_MESSAGES
            or self._run_bytes + len(value) + BATCH_COUNT.size > self._limit_bytes
        ):
            self._end_run()
            self._topic = topic
        self._run.append(value)
        self._run_bytes += len(value)

    def take(self) -> list[tuple[bytes, int]]:
        """Return all frames that were made of what was appended."""
        self._end_run()
        self._end_frames()
        return self._done

    def _end_run(self) -> None:
        if self._run:
            self._put(encode_values(self._topic, self._run), len(self._run))
            self._run = []
            self._run_bytes = 0

    def _put(self, frame: bytes, messages: int) -> None:
        if self._size + len(frame) > FRAMES_BYTES:
            self._end_frames()
        self._frames.append(frame)
        self._size += len(frame)
        self._messages += messages

    def _end_frames(self) -> None:
        if self._frames:
            self._done.append((b"".join(self._frames), self._messages))
            self._frames = []
            self._size = self._messages = 0
