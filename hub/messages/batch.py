"""`Batch`: the unit that is routed, queued and written: MESSAGES frames back to back that share a route.

In the usual case a batch is a run of frames of one read, cut from it in one slice. The hub does not look into bodies.
Another form for a handler (JSON text, a WebSocket frame) is made at most once and shared. A batch is
immutable but for its origin, and owns its bytes: it never keeps a larger receive buffer alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgpack

from hub.errors import RejectedError
from hub.messages.frame import (
    BATCH_COUNT,
    BATCH_LIMIT_MESSAGES,
    FLAG_BATCH,
    HEADER,
    HEADER_BYTES,
    KIND_MESSAGES,
    Encoding,
    Frame,
    Origin,
    encode_frame,
    iterate_frames,
)

# Memory of a queued batch beside its frames, so that the bound of a queue is real memory: objects (80), bytes (33),
# sizes (2 x 28) and a place in a deque (8), rounded down for sharing
BATCH_OVERHEAD_BYTES = 160

T = TypeVar("T")


class Message(NamedTuple):
    """A topic and a value, for people and programs."""

    topic: str
    value: Any

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def sender(self) -> str:
        """Name of the publisher; empty if it is unknown."""
        return ""

    @property
    def destination(self) -> str:
        """Name of the only receiver; empty for none."""
        return ""

    @property
    def origin(self) -> bytes:
        """Id of the hub where the message has entered the mesh; empty if it is unknown."""
        return b""

    def view(self) -> AbstractContextManager[memoryview]:
        """Look at a value that is bytes, for `with message.view() as memory`.

        Nothing is copied where it came in shared memory, to a client that takes views: see docs/shared-memory.md.

        Raises:
            TypeError: The value is no bytes.
            GoneError: At the end of the `with`, or at its beginning: its publisher has taken it back.
        """
        return self.value if hasattr(self.value, "__enter__") else nullcontext(memoryview(self.value))


class Batch:
    """One or more frames of one route."""

    __slots__ = ("_forms", "_is_sound", "frames", "frames_bytes", "messages", "origin", "size_bytes")

    frames: bytes  # Whole MESSAGES frames, ready for the wire

    messages: int  # How many values they hold together, 1 or more

    frames_bytes: int  # The length of `frames`, for which they need not be made

    size_bytes: int  # Its charge to a queue, bytes

    def __init__(self, frames: bytes, messages: int) -> None:
        self.frames = frames
        self.messages = messages
        self.frames_bytes = frames_bytes = len(frames)
        self.size_bytes = frames_bytes + BATCH_OVERHEAD_BYTES
        # Where it has entered the mesh; None for a batch that goes to no peer hub. The core sets it before the
        # batch is offered.
        self.origin: Origin | None = None
        # None until a handler needs another form; from then on each form that was made, by the function that makes
        # it.
        self._forms: dict[Callable[[Batch], Any], Any] | None = None
        # True once the first frame, a BATCH, is known to hold the values that it says; False before the check.
        self._is_sound = False

    def __repr__(self) -> str:
        return f"<Batch of {self.messages} messages, {len(self.frames)} bytes>"

    @classmethod
    def of(cls, topic: str, values: Iterable[Any]) -> Batch:
        """Make a batch of msgpack values under one topic. The topic is not checked.

        Raises:
            TypeError, ValueError, OverflowError: A value has no msgpack form.
            RejectedError: No value, or more than `BATCH_LIMIT_MESSAGES`.
        """
        return cls.under(topic.encode(), values)

    @classmethod
    def under(cls, key: bytes, values: Iterable[Any], flags: int = 0) -> Batch:
        """Make a batch of msgpack values under one key: a topic, or with TAGGED among `flags` an envelope.

        Raises:
            TypeError, ValueError, OverflowError: A value has no msgpack form.
            RejectedError: No value, or more than `BATCH_LIMIT_MESSAGES`.
        """
        packed = [encode_value(value) for value in values]
        return cls(encode_values(key, packed, flags), len(packed))

    def form(self, make: Callable[[Batch], T]) -> T:
        """Return `make(self)`, made at most once per batch and shared by all callers with the same function."""
        forms = self._forms
        if forms is None:
            forms = self._forms = {}
        if make not in forms:
            forms[make] = make(self)
        made: T = forms[make]
        return made

    def keep_form(self, make: Callable[[Batch], T], form: T) -> None:
        self._forms = {make: form}

    def topics(self) -> Iterable[bytes]:
        return (frame.topic for frame in self.parts())

    def parts(self) -> Iterable[Frame]:
        return iterate_frames(self.frames)

    def split(self, messages: int) -> tuple[Batch, Batch | None]:
        """Cut after the first `messages` messages, 1 or more.

        A frame with inseparable values (malformed, or of another encoding) is not cut: it goes to the head.

        Returns:
            The head, of at least that many messages, and the rest, None if nothing is left.
        """
        frames = self.frames
        position = counted = 0
        while position < len(frames) and counted < messages:
            end, inside = _measure(frames, position)
            if counted + inside > messages:
                frame = next(iterate_frames(frames[position:end]))
                value_end = next(islice(self._value_ends(frame, position), messages - counted - 1, None), None)
                if value_end is not None:
                    head, tail = _cut_frame(frame, messages - counted, value_end)
                    rest = self._part(tail + frames[end:], self.messages - messages, is_sound=True)
                    return self._part(frames[:position] + head, messages), rest
            counted += inside
            position = end
        if position == len(frames):
            return self, None
        return self._part(frames[:position], counted), self._part(frames[position:], self.messages - counted)

    def _part(self, frames: bytes, messages: int, *, is_sound: bool = False) -> Batch:
        part = Batch(frames, messages)
        part.origin = self.origin
        part._is_sound = is_sound
        return part

    def messages_within(self, limit_messages: int, limit_bytes: int) -> int:
        """Return how many of the first messages, made a batch, stay within both limits; 0 if not even one does."""
        within = 0
        if limit_messages <= 0:  # a queue that is full drops each batch, and looks at none of them
            return within
        for messages, head_bytes, _ in self._cuts():
            if messages > limit_messages or head_bytes > limit_bytes:
                break
            within = messages
        return within

    def messages_beyond(self, limit_bytes: int) -> int:
        """Return how many of the first messages must go so that the rest takes at most `limit_bytes`."""
        return next((messages for messages, _, rest_bytes in self._cuts() if rest_bytes <= limit_bytes), self.messages)

    def _cuts(self) -> Iterator[tuple[int, int, int]]:
        """Yield every place to cut at: messages in the head, `size_bytes` of the head, `size_bytes` of the rest."""
        frames = self.frames
        size = len(frames)
        position = counted = 0
        while position < size:
            end, inside = _measure(frames, position)
            if inside > 1:
                frame = next(iterate_frames(frames[position:end]))
                body_start = position + HEADER_BYTES + len(frame.key)
                again_bytes = body_start - position + BATCH_COUNT.size  # the rest needs a header and a count of its own
                inner_ends = islice(self._value_ends(frame, position), inside - 1)
                for index, value_end in enumerate(inner_ends, 1):
                    cut = body_start + value_end
                    yield counted + index, cut + BATCH_OVERHEAD_BYTES, size - cut + again_bytes + BATCH_OVERHEAD_BYTES
            counted += inside
            position = end
            yield counted, position + BATCH_OVERHEAD_BYTES, size - position + BATCH_OVERHEAD_BYTES

    def _value_ends(self, frame: Frame, position: int) -> Iterable[int]:
        """Return where the values of the frame at `position` end in its body; nothing if they cannot be separated.

        That is found out once for the frame in front: a queue that is cut repeatedly pays only for the dropped part.
        """
        if position == 0 and self._is_sound:
            return _walk_values(frame)
        ends = value_ends(frame)
        if position == 0 and ends is not None:
            self._is_sound = True
        return ends or ()


def _measure(frames: bytes, position: int) -> tuple[int, int]:
    """Return where the frame at `position` ends and how many messages it says it holds."""
    body_length, _, flags, key_length = HEADER.unpack_from(frames, position)
    body_start = position + HEADER_BYTES + key_length
    inside: int = BATCH_COUNT.unpack_from(frames, body_start)[0] if flags & FLAG_BATCH else 1
    return body_start + body_length, inside


def _cut_frame(frame: Frame, messages: int, value_end: int) -> tuple[bytes, bytes]:
    head = BATCH_COUNT.pack(messages) + frame.body[BATCH_COUNT.size : value_end]
    tail = BATCH_COUNT.pack(frame.messages - messages) + frame.body[value_end:]
    return (
        encode_frame(KIND_MESSAGES, head, key=frame.key, flags=frame.flags),
        encode_frame(KIND_MESSAGES, tail, key=frame.key, flags=frame.flags),
    )


def value_ends(frame: Frame) -> list[int] | None:
    """Return where each value of a BATCH frame ends in its body; None if the body is malformed."""
    if frame.encoding != Encoding.MSGPACK:
        return None
    try:
        ends = list(_walk_values(frame))
    except (ValueError, msgpack.UnpackException):
        return None
    return ends if ends and ends[-1] == len(frame.body) else None


def _walk_values(frame: Frame) -> Iterator[int]:
    start = BATCH_COUNT.size
    unpacker = msgpack.Unpacker(max_buffer_size=max(1, len(frame.body)))
    unpacker.feed(memoryview(frame.body)[start:])
    for _ in range(frame.messages):
        unpacker.skip()
        yield start + unpacker.tell()


def encode_value(value: Any) -> bytes:
    """Return `value` as msgpack; a `datetime` with a zone becomes a timestamp."""
    packed: bytes = msgpack.packb(value, datetime=True)
    return packed


def encode_values(key: bytes, packed: list[bytes], flags: int = 0) -> bytes:
    """Return one frame with one or more values that are msgpack already.

    Raises:
        RejectedError: No value, or more than `BATCH_LIMIT_MESSAGES`.
    """
    if len(packed) == 1:
        return encode_frame(KIND_MESSAGES, packed[0], key=key, flags=flags)
    if not 0 < len(packed) <= BATCH_LIMIT_MESSAGES:
        raise RejectedError(1009, f"a batch of {len(packed)} values, the limit is 1 to {BATCH_LIMIT_MESSAGES}")
    body = BATCH_COUNT.pack(len(packed)) + b"".join(packed)
    return encode_frame(KIND_MESSAGES, body, key=key, flags=flags | FLAG_BATCH)


def decode_values(frame: Frame) -> list[Any]:
    """Return the values of one MESSAGES frame.

    Raises:
        ValueError: The body is not msgpack, of another number of values, nested too deep, or of another encoding.
    """
    if frame.encoding != Encoding.MSGPACK:
        raise ValueError(f"encoding {frame.encoding} is not read by this version")
    if frame.flags & FLAG_BATCH and len(frame.body) < BATCH_COUNT.size:
        raise ValueError(f"BATCH: a body of {len(frame.body)} bytes is shorter than its count")
    count = frame.messages
    if not count:
        raise ValueError("BATCH: no values")
    body = memoryview(frame.body)[BATCH_COUNT.size :] if frame.flags & FLAG_BATCH else frame.body
    unpacker = msgpack.Unpacker(max_buffer_size=max(1, len(frame.body)), strict_map_key=False, timestamp=3)
    unpacker.feed(body)
    try:
        values = [unpacker.unpack() for _ in range(count)]
    except msgpack.OutOfData:
        raise ValueError(f"msgpack ends before the last of {count} values") from None
    except (msgpack.UnpackException, ValueError, OverflowError, RecursionError, TypeError) as error:
        raise ValueError(f"not msgpack: {error or type(error).__name__}") from error
    if unpacker.tell() != len(body):
        raise ValueError(f"{len(body) - unpacker.tell()} bytes follow the last of {count} values")
    return values
