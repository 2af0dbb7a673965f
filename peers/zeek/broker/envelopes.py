"""Broker's envelopes to and from frames of the hub: `Reader` makes runs with routes, `data_envelopes` envelopes.

```
[data /a][data /a][data /b][routing_update][data /a] ...            envelopes
 └──── one run ───┘└ run ─┘└── Envelope ──┘
 └──────── one stretch ───┘

envelope:  length  sender receiver type ttl │ topic length  topic  payload      41 + T + P bytes
frame:               P  kind  flags         │ topic length  topic  payload       8 + T + P bytes
```

The bytes behind the bar are copied unread: values stay in Broker's binary format. Cost of an envelope: 0.3 µs while
the topic repeats, 1 µs when topics alternate, 4 µs for a topic that is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar

from hub.errors import ProtocolError, RejectedError
from hub.messages.batch import Batch, value_ends
from hub.messages.frame import (
    BATCH_COUNT,
    BROKER_FLAGS,
    FLAG_BATCH,
    FLAG_TAGGED,
    HEADER,
    HEADER_BYTES,
    KIND_MESSAGES,
    Encoding,
    Frame,
)
from hub.messages.runs import RUNS_LIMIT
from hub.messages.stretch import Run, Stretch
from peers.values.binary import read_length
from peers.wire.scanner import NEED_DATA, FrameBuffer, NeedData, RouteTable
from peers.zeek.broker.messages import (
    FIXED_BYTES,
    LENGTH,
    NIL_ID,
    TOPIC_OFFSET,
    BrokerCode,
    Envelope,
    EnvelopeType,
    data_header,
    decode_envelope,
)

_TLS_HANDSHAKE = b"\x16\x03"  # Beginning of a TLS handshake in every version; as a length, it means 369 MB or more


class Incoming(FrameBuffer):
    """Finds whole frames in the input; `frame_limit_bytes` does not count their length."""

    __slots__ = ()

    _header_bytes = LENGTH.size

    def next_size(self) -> int:
        """Return the size, length included, of the frame at `position`; 0 if it is not whole.

        Raises:
            ProtocolError: A length is over the limit, so nothing behind it can be read.
        """
        while self.data or (self._later and self._advance()):
            size = self._frame_size(self.data, self.position)
            if self.position + size <= len(self.data):
                return size
            self._hold(size)
        return 0

    def take_frame(self, size: int) -> bytes:
        """Return the frame at `position` without its length, and go behind it."""
        start = self.position
        frame = self.data[start + LENGTH.size : start + size]
        self.go_to(start + size)
        return frame

    def _frame_size(self, data: bytes, position: int) -> int:
        if len(data) - position < LENGTH.size:
            return LENGTH.size
        length: int = LENGTH.unpack_from(data, position)[0]
        if length > self.frame_limit_bytes:
            if data.startswith(_TLS_HANDSHAKE, position):
                raise ProtocolError(
                    BrokerCode.INVALID_MESSAGE,
                    "the other side begins a TLS handshake, and this connection is without TLS",
                )
            raise ProtocolError(
                BrokerCode.INVALID_MESSAGE, f"frame of {length} bytes, the limit is {self.frame_limit_bytes} bytes"
            )
        return LENGTH.size + length


_LENGTHS = Struct(">I35xH")  # the length, and the topic length behind sender, receiver, type and ttl
_FRAME_START = Struct(">IBB")  # the fields of a frame in front of its key length
_KEY_START = bytes((KIND_MESSAGES, BROKER_FLAGS))
_EMPTY_FRAME = bytes(LENGTH.size)
_GROWTH_BYTES = _FRAME_START.size - TOPIC_OFFSET  # how much larger a frame is than its envelope; this is negative
R = TypeVar("R")


class Skipped(NamedTuple):
    """Messages of the peer were skipped; the conversation goes on."""

    reason: str
    messages: int = 1


def find_envelope_runs(
    data: bytes, position: int, header: bytes, table: Mapping[bytes, R], limit_bytes: int
) -> tuple[list[bytes], tuple[list[R], list[int], list[int]], int]:
    """Walk over complete data envelopes from `position` on whose headers are `header` and whose keys are in `table`.

    Returns:
        The parts of the same messages as the hub's frames; of each run, its route, where it ends in these parts put
        together, and its number of messages; and where the last envelope ends. At most `RUNS_LIMIT` runs.
    """
    # Local names, and no calls that can be spared: this is paid for every change of the topic.
    find, unpack, pack, starts_with = table.get, _LENGTHS.unpack_from, _FRAME_START.pack, data.startswith
    end = len(data)
    parts: list[bytes] = []
    add = parts.append
    routes: list[R] = []
    ends: list[int] = []
    counts: list[int] = []
    route: R | None = None
    while position + FIXED_BYTES < end and starts_with(header, position + 4):
        length, topic_length = unpack(data, position)
        payload_start = position + FIXED_BYTES + topic_length
        frame_end = position + 4 + length
        if frame_end > end or length > limit_bytes or payload_start >= frame_end:
            break
        found = find(_KEY_START + data[position + TOPIC_OFFSET : payload_start])
        if found is None:
            break
        if found is not route:
            if len(routes) == RUNS_LIMIT:
                break
            routes.append(found)
            ends.append(ends[-1] if ends else 0)
            counts.append(0)
            route = found
        add(pack(frame_end - payload_start, KIND_MESSAGES, BROKER_FLAGS))
        add(data[position + TOPIC_OFFSET : frame_end])
        counts[-1] += 1
        ends[-1] += frame_end - position + _GROWTH_BYTES
        same = data[position + 4 : payload_start]
        position = frame_end
        if starts_with(same, position + 4):
            parts_before = len(parts)
            position = _take_one_topic(data, position, same, limit_bytes, parts)
            messages = (len(parts) - parts_before) // 2
            counts[-1] += messages
            ends[-1] += position - frame_end + messages * _GROWTH_BYTES
    return parts, (routes, ends, counts), position


def _take_one_topic(data: bytes, position: int, same: bytes, limit_bytes: int, parts: list[bytes]) -> int:
    """Add envelopes with the same header and topic to `parts` as frames, two parts a message; return where they end."""
    # Local names, and no calls that can be spared: this is paid for every message.
    unpack_length, pack, starts_with, add = LENGTH.unpack_from, _FRAME_START.pack, data.startswith, parts.append
    end = len(data)
    overhead = len(same)
    start, start_length = b"", -1
    while starts_with(same, position + 4):
        (length,) = unpack_length(data, position)
        frame_end = position + 4 + length
        if frame_end > end or length > limit_bytes or length <= overhead:
            break
        if length != start_length:
            start = pack(length - overhead, KIND_MESSAGES, BROKER_FLAGS)
            start_length = length
        add(start)
        add(data[position + TOPIC_OFFSET : frame_end])
        position = frame_end
    return position


class Reader(Generic[R]):
    """Cuts a stream of envelopes into stretches of messages and other envelopes.

    The hub takes data that the peer itself has sent, to all or to this hub. An endpoint that forwards puts its own id
    in the place of the sender, so envelopes of other senders are skipped, and so is data for another endpoint.
    """

    __slots__ = ("_header", "_incoming", "_own_id", "_peer_id", "_routes")

    def __init__(self, incoming: Incoming, routes: RouteTable[R], own_id: bytes, peer_id: bytes) -> None:
        self._incoming = incoming
        self._routes = routes
        self._own_id = own_id
        self._peer_id = peer_id
        self._header = data_header(peer_id)
        """Of the last data envelope that did not come in a run; only envelopes with this header are taken as runs."""

    def next_item(self) -> Run[R] | Stretch[R] | Envelope | Skipped | NeedData:
        """Return the next item; data envelopes for the hub come as runs. Raises `ProtocolError` as `next_size`."""
        incoming = self._incoming
        while size := incoming.next_size():
            data, position = incoming.data, incoming.position
            parts, runs, end = find_envelope_runs(
                data, position, self._header, self._routes.table, incoming.frame_limit_bytes
            )
            if parts:
                incoming.go_to(end)
                routes, _, messages = runs
                frames = b"".join(parts)
                if len(routes) == 1:
                    return Run(routes[0], frames, messages[0])
                return Stretch(frames, 0, runs)
            if size == LENGTH.size:  # frames without content mean nothing
                while data.startswith(_EMPTY_FRAME, position):
                    position += size
                incoming.go_to(position)
                continue
            odd = self._slow(data[position + LENGTH.size : position + size])
            if odd is not None:
                incoming.go_to(position + size)
                return odd
        return NEED_DATA

    def _slow(self, frame: bytes) -> Envelope | Skipped | None:
        """Take a frame that was no run; None if only its header or key was new, which are known now."""
        try:
            envelope = decode_envelope(frame)
        except ValueError as error:
            return Skipped(str(error))
        if envelope.type is not EnvelopeType.DATA:
            return envelope
        if envelope.receiver not in (NIL_ID, self._own_id):
            return Skipped("data for another endpoint")
        if envelope.sender != self._peer_id:
            return Skipped(f"data from {envelope.sender.hex()}, which is not the other side")
        key = HEADER.pack(0, KIND_MESSAGES, BROKER_FLAGS, len(envelope.topic))[4:] + envelope.topic
        if key not in self._routes.table:
            try:
                self._routes.miss(key)
            except RejectedError as error:
                return Skipped(error.text)
        self._header = frame[: TOPIC_OFFSET - LENGTH.size]
        return None


# Batches to envelopes.

UNREAD_BYTES: Final = 32 * 1024  # Largest body that is forwarded unread
LEVELS_LIMIT: Final = UNREAD_BYTES // 2
"""Deepest nesting that is forwarded: as deep as a body of `UNREAD_BYTES` can nest."""

STEPS_LIMIT: Final = 200_000  # most values of one body that are looked at
_STRINGS = frozenset({5, 11})  # tags of strings and enum values: a length follows, and so many bytes
_CONTAINERS = {12: 1, 13: 2, 14: 1}  # tags of sets, tables and vectors, with the number of values in an element
_SIZES = {0: 0, 1: 1, 2: 8, 3: 8, 4: 8, 6: 16, 7: 17, 8: 3, 9: 8, 10: 8}  # all other tags, with the bytes that follow


def nests_too_deep(body: bytes) -> bool:
    """Return whether a value in Broker's binary format has, or may have, more than `LEVELS_LIMIT` levels.

    C++ Broker reads values by recursion, and a deep value ends its process.
    """
    return (
        len(body) > UNREAD_BYTES and sum(map(body.count, _CONTAINERS)) > LEVELS_LIMIT and _reaches(body, LEVELS_LIMIT)
    )


def _reaches(body: bytes, limit: int) -> bool:
    """Return whether the value nests deeper than `limit` levels, or whether the search takes too long."""
    left: list[int] = []  # for each open container, how many of its values are still to come
    position = 0
    try:
        for _ in range(STEPS_LIMIT):
            tag = body[position]
            position += 1
            if tag in _CONTAINERS:
                count, position = read_length(body, position)
                if count:
                    left.append(count * _CONTAINERS[tag])
                    if len(left) > limit:
                        return True
                    continue  # no value is complete: its first one comes next
            elif tag in _STRINGS:
                size, position = read_length(body, position)
                position += size
            else:
                position += _SIZES[tag]
            while left and left[-1] == 1:  # the last value of its container is complete, and so is the container
                left.pop()
            if not left:
                return False
            left[-1] -= 1
    except (IndexError, KeyError, ValueError):  # it is no value, and Broker's reader stops here, too
        return False
    return True


Convert = Callable[[bytes], bytes]
"""Converts a msgpack value to Broker's binary format; raises ValueError for a value that it cannot convert."""


def bodies_of(frame: Frame, convert: Convert) -> tuple[list[bytes], int]:
    """Return the non-empty values of a MESSAGES frame, and how many others it has: those cannot become envelopes.

    Lost are values without a Broker form, that nest too deep, or are empty (Broker before 2.8 takes no empty payload),
    and a malformed BATCH. Zeeks know no labels and names.
    """
    if frame.flags & ~FLAG_TAGGED == BROKER_FLAGS and frame.body:
        return ([], 1) if nests_too_deep(frame.body) else ([frame.body], 0)
    if frame.encoding != Encoding.MSGPACK:
        return [], frame.messages
    values: Iterable[bytes] = (frame.body,)
    if frame.flags & FLAG_BATCH:
        ends = value_ends(frame)
        if ends is None:
            return [], frame.messages
        values = (frame.body[start:end] for start, end in pairwise([BATCH_COUNT.size, *ends]))
    bodies = []
    lost = 0
    for value in values:
        try:
            body = convert(value)
        except ValueError:
            body = b""
        if body:
            bodies.append(body)
        else:
            lost += 1
    return bodies, lost


_BROKER_KEY_START = bytes((KIND_MESSAGES, BROKER_FLAGS))
_KEY_LENGTH_OFFSET = 6  # from this offset on, a frame is the same as an envelope behind its ttl
_KEY_LENGTH = Struct(">H")


def data_envelopes(batch: Batch, own_id: bytes, convert: Convert) -> tuple[bytes, int]:
    """Return the messages of a batch as data envelopes to all, in order, and how many are lost."""
    header = data_header(own_id)
    frames = batch.frames
    parts: list[bytes] = []
    position = lost = 0
    while position < len(frames):
        behind = _copy_one_topic(frames, position, header, parts)
        if behind > position:
            position = behind
            continue
        body_length, kind, flags, key_length = HEADER.unpack_from(frames, position)
        key_end = position + HEADER_BYTES + key_length
        frame = Frame(kind, flags, frames[position + HEADER_BYTES : key_end], frames[key_end : key_end + body_length])
        payloads, lost_here = bodies_of(frame, convert)
        head = header + _KEY_LENGTH.pack(len(frame.topic)) + frame.topic
        for payload in payloads:
            parts += (LENGTH.pack(len(head) + len(payload)), head, payload)
        lost += lost_here
        position = key_end + body_length
    return b"".join(parts), lost


def _copy_one_topic(frames: bytes, position: int, header: bytes, parts: list[bytes]) -> int:
    """Add the frames from `position` on that repeat a routing key and can be copied unread; return where they end."""
    if not frames.startswith(_BROKER_KEY_START, position + 4):
        return position
    # Local names, and no calls that can be spared: this is paid for every message.
    unpack_length, pack_length, starts_with, add = LENGTH.unpack_from, LENGTH.pack, frames.startswith, parts.append
    key = frames[position + 4 : position + HEADER_BYTES + _KEY_LENGTH.unpack_from(frames, position + 6)[0]]
    key_end = 4 + len(key)
    overhead = len(header) + len(key) - len(_BROKER_KEY_START)
    start, start_length = b"", -1
    while starts_with(key, position + 4):
        (length,) = unpack_length(frames, position)
        if length != start_length:
            if not length or length > UNREAD_BYTES:
                break  # an empty body is lost, and a large one must be looked at, see `bodies_of`
            start = pack_length(overhead + length) + header
            start_length = length
        end = position + key_end + length
        add(start)
        add(frames[position + _KEY_LENGTH_OFFSET : end])
        position = end
    return position
