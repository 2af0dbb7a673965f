"""The loops of the journal, paid for every message: frames to blocks, blocks to blocks, and blocks to frames.

The pure twin of `hub/journal/_packing.pyx`; `hub.journal.block` chooses.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import gt
from zlib import crc32

from hub.journal.layout import (
    CHECKED_FROM,
    OFFSET_LIMIT,
    RECORDS_LIMIT,
    SECTION_LIMIT_BYTES,
    SPARSE,
    TOPIC_LIMIT_BYTES,
    Columns,
    Layout,
    columns_of,
    read_layout,
    write_block,
)
from hub.messages.batch import encode_values, value_ends
from hub.messages.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    FLAG_BATCH,
    FLAG_TAGGED,
    HEADER,
    HEADER_BYTES,
    KIND_MESSAGES,
    Encoding,
    Frame,
    encode_frame,
)

# Of each first byte of msgpack: how many bytes of length follow it (-1: there is no such byte), else which of its own
# bits are the length; how many bytes follow that for any length; and for each of the length, bytes and values.
_LENGTH_BYTES = [0] * 256
_LENGTH_BITS = [0] * 256
_FIXED_BYTES = [0] * 256
_BYTES_EACH = [0] * 256
_VALUES_EACH = [0] * 256
for _tag in range(0x80, 0x90):  # map
    _LENGTH_BITS[_tag], _VALUES_EACH[_tag] = 0x0F, 2
for _tag in range(0x90, 0xA0):  # array
    _LENGTH_BITS[_tag], _VALUES_EACH[_tag] = 0x0F, 1
for _tag in range(0xA0, 0xC0):  # str
    _LENGTH_BITS[_tag], _BYTES_EACH[_tag] = 0x1F, 1
_LENGTH_BYTES[0xC1] = -1
for _tag, _width, _fixed in (  # bin, ext, str: a length, for ext a type, the bytes
    *((0xC4, 1, 0), (0xC5, 2, 0), (0xC6, 4, 0)),
    *((0xC7, 1, 1), (0xC8, 2, 1), (0xC9, 4, 1)),
    *((0xD9, 1, 0), (0xDA, 2, 0), (0xDB, 4, 0)),
):
    _LENGTH_BYTES[_tag], _FIXED_BYTES[_tag], _BYTES_EACH[_tag] = _width, _fixed, 1
for _tag, _fixed in zip(range(0xCA, 0xD9), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 2, 3, 5, 9, 17), strict=True):
    _FIXED_BYTES[_tag] = _fixed  # float, uint, int, fixext with its type
for _tag, _width, _each in ((0xDC, 2, 1), (0xDD, 4, 1), (0xDE, 2, 2), (0xDF, 4, 2)):  # array, map
    _LENGTH_BYTES[_tag], _VALUES_EACH[_tag] = _width, _each


def skip_value(data: bytes | memoryview, position: int, end: int) -> int:
    """Return where the msgpack value at `position` ends, at any depth; -1 if it is malformed or cut off."""
    due = 1
    while due:
        if due > end - position:  # each takes at least one byte
            return -1
        tag = data[position]
        position += 1
        width = _LENGTH_BYTES[tag]
        if width < 0 or width > end - position:
            return -1
        length = int.from_bytes(data[position : position + width]) if width else tag & _LENGTH_BITS[tag]
        position += width + _FIXED_BYTES[tag] + length * _BYTES_EACH[tag]
        due += length * _VALUES_EACH[tag] - 1
        if position > end:
            return -1
    return position


BLOCK_RECORDS = 8_192  # default records of a block: a reader of one record reads the whole block
BLOCK_BYTES = 2**20  # default bytes of values, or of topics, of a block
_TOPIC_LENGTH_BYTES = 2
BLOCK_BYTES_LIMIT = 2**30  # largest value, and largest limit of a block: both together fit in one section


def pack(
    parts: list[tuple[int, bytes]], first: int, limit_records: int = BLOCK_RECORDS, limit_bytes: int = BLOCK_BYTES
) -> list[bytes]:
    """Make dense blocks of frames.

    Only the topic of a TAGGED frame is kept, without labels and names. A BATCH frame that cannot be cut (its body is
    not as many values, or of another encoding than msgpack) takes as many records as it has messages: the first has the
    whole body behind the count, the others are empty.

    Args:
        parts: When the hub took them, µs since 1970 UTC, and whole MESSAGES frames back to back.
        first: Offset of the first message.
        limit_records: Records of a block, 1 to 65,536.
        limit_bytes: A block is cut when its values, or the text of its topics, reach so many, 1 to 2^30.

    Raises:
        ValueError: A limit or `first` is out of range, or the bytes are no whole MESSAGES frames.
    """
    if not 0 < limit_records <= RECORDS_LIMIT or not 0 < limit_bytes <= BLOCK_BYTES_LIMIT:
        raise ValueError(f"blocks of {limit_records} records and {limit_bytes} bytes are not within the limits")
    if not 0 <= first < OFFSET_LIMIT:
        raise ValueError(f"the offset {first} is not within the limits")
    blocks = []
    draft = _Draft(first)
    for time_us, frames in parts:
        for frame in _whole_frames(frames):
            for value in _values_of(frame):
                draft.add(time_us, frame, value)
                if len(draft.times) == limit_records or max(draft.value_bytes, draft.topic_bytes) >= limit_bytes:
                    blocks.append(draft.block())
                    first += len(draft.times)
                    draft = _Draft(first)
    if draft.times:
        blocks.append(draft.block())
    return blocks


class _Draft:
    def __init__(self, first: int) -> None:
        self.times: list[int] = []
        self.value_bytes = 0  # length of all values so far, bytes; with `topic_bytes` it decides when the block is full
        self.topic_bytes = 0  # length of the text of all different topics so far, bytes
        self._first = first
        self._numbers: dict[bytes, int] = {}  # topic → its number in the dictionary of the block
        self._topic_nos: list[int] = []  # the other columns of the block, of as many records as there are times
        self._encodings = bytearray()
        self._values: list[bytes] = []

    def add(self, time_us: int, frame: Frame, value: bytes) -> None:
        number = self._numbers.get(frame.key)
        if number is None:
            frame.key.decode()
            number = self._numbers[frame.key] = len(self._numbers)
            self.topic_bytes += len(frame.key)
        self.times.append(time_us)
        self._topic_nos.append(number)
        self._encodings.append(frame.encoding)
        self._values.append(value)
        self.value_bytes += len(value)

    def block(self) -> bytes:
        offsets = range(self._first, self._first + len(self.times))
        return write_block(self.times, offsets, self._topic_nos, self._encodings, list(self._numbers), self._values)


def _whole_frames(frames: bytes) -> Iterator[Frame]:
    position = 0
    while position < len(frames):
        if len(frames) - position < HEADER_BYTES:
            raise ValueError("a frame is cut off")
        body_length, kind, flags, key_length = HEADER.unpack_from(frames, position)
        key_start = position + HEADER_BYTES
        body_start = key_start + key_length
        position = body_start + body_length
        if position > len(frames):
            raise ValueError("a frame is cut off")
        if kind != KIND_MESSAGES or body_length > BLOCK_BYTES_LIMIT:
            raise ValueError(f"a frame of kind {kind} and {body_length} bytes has no place in the journal")
        frame = Frame(kind, flags, frames[key_start:body_start], frames[body_start:position])
        yield _untagged(frame) if flags & FLAG_TAGGED else frame


def _untagged(frame: Frame) -> Frame:
    key = frame.key
    size = int.from_bytes(key[:_TOPIC_LENGTH_BYTES], "big")
    if len(key) < _TOPIC_LENGTH_BYTES + size:
        raise ValueError(f"a tagged key of {len(key)} bytes is shorter than its topic")
    return frame._replace(key=frame.topic, flags=frame.flags & ~FLAG_TAGGED)


def _values_of(frame: Frame) -> Iterator[bytes]:
    body = frame.body
    if not frame.flags & FLAG_BATCH:
        yield body
        return
    if len(body) < BATCH_COUNT.size or not 0 < frame.messages <= BATCH_LIMIT_MESSAGES:
        raise ValueError(f"a BATCH of {len(body)} bytes holds an impossible number of values")
    start = BATCH_COUNT.size
    for end in _ends_of(frame):
        yield body[start:end]
        start = end


def _ends_of(frame: Frame) -> Sequence[int]:
    """Return where the values of a BATCH frame end; if they cannot be told apart, the first is all of them."""
    ends = value_ends(frame)
    if ends is None and frame.encoding == Encoding.MSGPACK:
        ends = _walk_values(frame)  # nested deeper than msgpack's own unpacker follows
    return [len(frame.body)] * frame.messages if ends is None else ends


def _walk_values(frame: Frame) -> list[int] | None:
    end = BATCH_COUNT.size
    ends = []
    for _ in range(frame.messages):
        end = skip_value(frame.body, end, len(frame.body))
        ends.append(end)
        if end < 0:
            return None
    return ends if end == len(frame.body) else None


def select(block: bytes, start: int, end: int, wanted: bytes | None) -> bytes:
    """Return a block of some records of another: `block` itself if all are chosen, empty bytes if none.

    Records have offsets from `start` to before `end`. `wanted` has one byte for each entry of the topic dictionary, 0
    if it is not wanted; None: all are.

    Raises:
        ValueError: The block is damaged.
        IndexError: `wanted` is not as long as the dictionary.
    """
    layout = read_layout(block)
    columns = columns_of(memoryview(block), layout)
    if wanted is not None and len(wanted) != layout.topics:
        raise IndexError(f"{len(wanted)} topics wanted or not, the block has {layout.topics}")
    within = range(bisect_left(columns.offsets, start), bisect_left(columns.offsets, end))
    chosen = within if wanted is None else [index for index in within if wanted[columns.topic_nos[index]]]
    if len(chosen) == layout.records:
        return block
    return _gather(columns, chosen) if chosen else b""


def _gather(columns: Columns, chosen: Sequence[int]) -> bytes:
    used = sorted({columns.topic_nos[index] for index in chosen})
    numbers = {old: new for new, old in enumerate(used)}
    return write_block(
        [columns.times[index] for index in chosen],
        [columns.offsets[index] for index in chosen],
        [numbers[columns.topic_nos[index]] for index in chosen],
        [columns.encodings[index] for index in chosen],
        [columns.topic(number) for number in used],
        [columns.value(index) for index in chosen],
    )


def merge(blocks: list[bytes]) -> bytes:
    """Make one block of several consecutive dense ones; raises `ValueError` if they are damaged or too much for one."""
    layouts = [read_layout(block) for block in blocks]
    _check_consecutive(layouts)
    if len(blocks) == 1:
        return blocks[0]
    columns = [columns_of(memoryview(block), layout) for block, layout in zip(blocks, layouts, strict=True)]
    numbers: dict[bytes, int] = {}
    tables = [
        [numbers.setdefault(some.topic(number), len(numbers)) for number in range(layout.topics)]
        for some, layout in zip(columns, layouts, strict=True)
    ]
    first = layouts[0].first
    return write_block(
        [time for some in columns for time in some.times],
        range(first, first + sum(layout.records for layout in layouts)),
        [table[number] for some, table in zip(columns, tables, strict=True) for number in some.topic_nos],
        [encoding for some in columns for encoding in some.encodings],
        list(numbers),
        [some.value(index) for some in columns for index in range(len(some.times))],
    )


def _check_consecutive(layouts: Sequence[Layout]) -> None:
    if not layouts:
        raise ValueError("nothing to merge")
    if any(layout.flags & SPARSE for layout in layouts):
        raise ValueError("a sparse block is not merged: its offsets have gaps")
    next_ = layouts[0].first
    for layout in layouts:
        if layout.first != next_:
            raise ValueError(f"a block begins at {layout.first}, the one before it ends at {next_}")
        next_ += layout.records
    if next_ - layouts[0].first > RECORDS_LIMIT:
        raise ValueError(f"{next_ - layouts[0].first} records are too many for one block")
    if max(sum(layout.value_bytes for layout in layouts), sum(layout.topic_bytes for layout in layouts)) > (
        SECTION_LIMIT_BYTES
    ):
        raise ValueError("the values or topics are too many bytes for one block")


def whole_checksum(block: bytes) -> int:
    """Return the crc32 of a whole block, whose own must be right: the compiled twin derives this from it."""
    if len(block) < CHECKED_FROM:
        raise ValueError(f"{len(block)} bytes are shorter than a header")
    return crc32(block)


FRAME_MESSAGES = 4_096  # of one BATCH frame: cutting one in a queue walks over its values
FRAME_BYTES = 65_536  # default for the largest body of a BATCH frame: publishers stop there, too
FRAMES_BYTES = 262_144  # most bytes of frames returned as one object, unless one frame is larger


def to_frames(block: bytes, limit_bytes: int = FRAME_BYTES) -> list[tuple[bytes, int]]:
    """Turn a block into MESSAGES frames; consecutive values of one topic become one BATCH frame.

    Only a sound msgpack value is joined to others: a BATCH that cannot be cut is lost as a whole, and one broken value
    must not spoil its neighbours. Offsets and times are left out. `limit_bytes` is the largest body of a frame with
    several values.

    Returns:
        Whole frames back to back, up to `FRAMES_BYTES`, each time with the number of their messages.

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
    """Turn rows of two Arrow columns, the buffers of a string and a binary array, into frames, as `to_frames`.

    Offsets are int32: topic i is `topic_data[topic_offsets[i]:topic_offsets[i + 1]]`. The UTF-8 of topics is not
    checked. Data is None if it is empty, as in Arrow.

    Raises:
        ValueError: There are not so many rows, an offset leads out of its data, or a topic is too long for a frame.
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
    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._topic = b""
        self._run: list[bytes] = []  # values of that topic in a row which go in one frame; empty once that was ended
        self._run_bytes = 0
        self._frames: list[bytes] = []  # frames that are whole and were not handed out yet
        self._size = 0
        self._messages = 0
        self._done: list[tuple[bytes, int]] = []  # finished frames, with the number of their messages

    def add(self, topic: bytes, encoding: int, value: bytes) -> None:
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
