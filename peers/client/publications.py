"""`Publications`: the outbound buffer of a client, as frames, bounded in bytes; `Publishing` sends them.

Values published one after the other to the same topic leave as one BATCH frame; a value for another topic seals the
batch, so that the order over all topics is the order of the calls. A `Target` without labels and names is the topic
itself, so that publishing to topics costs nothing more. A call that raises has added nothing. Frames are charged with
the objects around them; the values of the one open batch, at most 4096, cost 41 bytes each on top.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, cast

from hub.errors import BusyError, CloseCode, ConnectionLostError, HubError, InvalidTopicError, RejectedError
from hub.labels.envelope import Envelope, tagged
from hub.messages.batch import Batch, encode_values
from hub.messages.frame import BATCH_COUNT, FLAG_CONFIRM, HEADER_BYTES, KIND_MESSAGES, Frame
from hub.topics import RESERVED, check_topic, printable
from peers.client.conversation import ABNORMAL, wake
from peers.wire.control import Notice
from peers.wire.hello import FRAME_LIMIT_BYTES, Hello
from peers.wire.oversize import fitting

if TYPE_CHECKING:
    from peers.client.connection import Connection
    from peers.shm.ring import BlockValues

BUFFER_BYTES = 8 * 1024 * 1024  # Default: 80,000 messages of 100 bytes, or a second of a busy sensor
BATCH_BYTES = 64 * 1024  # Largest body of a batch: beyond it a frame costs nothing more per message, only latency
_BATCH_VALUES = 4096  # Most values of a batch, so that a client with tiny values does not hold an object for each byte
_LENGTH = Struct(">I")
_HEAD_BYTES = HEADER_BYTES - _LENGTH.size
_FLAGS_IN_HEAD = 1

_FRAME_OVERHEAD_BYTES = 48
"""Cost of a sealed frame beside its bytes: the object (33), its place in a deque (8), rounded up."""

_TOPICS_LIMIT = 65_536  # Most topics remembered as checked, by all publishers of a process; about 300 bytes each


Target = str | Envelope  # A topic that is not checked yet, or an envelope that is
_ENVELOPES_LIMIT = 4_096  # Most envelopes remembered by all publishers of a process, about 2 KiB each
_envelope = lru_cache(_ENVELOPES_LIMIT)(tagged)

Receipt = asyncio.Future[int | HubError]
"""Gets the offset of one message in the journal, or the reason why there is none."""


def _settle(receipt: Receipt, outcome: int | HubError) -> None:
    if not receipt.done():  # the publisher may have been cancelled
        receipt.set_result(outcome)


def target(topic: str, labels: Iterable[str], sender: str, to: str) -> Target:
    """Return the target of a message; raise InvalidTopicError or InvalidNameError for an invalid one."""
    if not (labels or sender or to):
        return topic
    return _envelope(topic, tuple(labels), sender, to)


class Publications:
    """The outbound buffer of one client."""

    def __init__(self, limit_bytes: int = BUFFER_BYTES) -> None:
        self.awaited: deque[Receipt] = deque()
        """The receipts of frames that were taken and are not confirmed, oldest first."""
        self.limit_bytes = limit_bytes
        self.buffered_bytes = 0  # With the objects around it
        self.sealed_messages = 0
        # Frames that are sealed and wait, each with the number of its values and its receipts.
        self._frames: deque[tuple[bytes, int, list[Receipt]]] = deque()
        self._receipts: list[Receipt] = []  # Receipts of the values that are open
        self._open: list[bytes] = []  # Values of one target, for the next frame
        self._open_bytes = 0
        self._topic: Target | None = None
        self._head = b""  # The head of that frame
        self._overhead_bytes = 0  # The charge for that frame beside its values, bytes
        self._frame_limit = FRAME_LIMIT_BYTES  # Both limits follow the hub that is connected: see `fit`
        self._batch_limit = BATCH_BYTES

    def __bool__(self) -> bool:
        return bool(self._frames) or bool(self._open)

    @property
    def published_messages(self) -> int:
        return self.sealed_messages + len(self._open)

    @property
    def buffered_messages(self) -> int:
        return sum(messages for _, messages, _ in self._frames) + len(self._open)

    def append(self, topic: Target, packed: bytes, receipt: Receipt | None = None) -> None:
        """Take a value that is msgpack already; `receipt` gets its offset. Raises as `Client.publish_nowait`."""
        if topic != self._topic:
            self._turn_to(topic)
        if (receipt is None) is bool(self._receipts):
            self.seal()
        size = len(packed)
        if self._open_bytes + size > self._batch_limit or len(self._open) >= _BATCH_VALUES:
            self.check_size(topic, size)
            self.seal()
        charge = size if self._open else size + self._overhead_bytes
        if self.buffered_bytes + charge > self.limit_bytes:
            self.check_size(topic, size)
            raise BusyError(
                f"{self.buffered_bytes} bytes wait to be sent, the limit is {self.limit_bytes}: the hub or the network "
                f"is slower than this publisher; wait with `await publish()`, or connect with a larger buffer_bytes"
            )
        self.buffered_bytes += charge
        self._open_bytes += size
        self._open.append(packed)
        if receipt is not None:
            self._receipts.append(receipt)

    def check_size(self, topic: Target, size_bytes: int) -> None:
        """Check whether a value fits into the hub's frames, and alone into this buffer. Thread-safe."""
        if size_bytes > self._frame_limit:
            text = f"a value of {size_bytes} bytes, the hub accepts at most {self._frame_limit} bytes"
            raise RejectedError(CloseCode.TOO_BIG, text)
        if size_bytes + _overhead_bytes(checked_head(topic)) > self.limit_bytes:
            text = f"a value of {size_bytes} bytes, this client's buffer_bytes are {self.limit_bytes}"
            raise RejectedError(CloseCode.TOO_BIG, text)

    def seal(self) -> None:
        values = self._open
        if not values:
            return
        if len(values) == 1:  # topics in turn: the usual case where it matters
            head = _LENGTH.pack(self._open_bytes) + self._head
            value = values[0]
            # The value of a `Block` makes a frame without a copy.
            frame = cast("BlockValues", value).frame(head) if hasattr(value, "block") else head + value
            self.buffered_bytes -= BATCH_COUNT.size  # was charged, but one value alone has no count
        else:
            frame = encode_values(self._head[_HEAD_BYTES:], values, self._head[_FLAGS_IN_HEAD])
        receipts, self._receipts = self._receipts, []
        self._frames.append((_confirmable(frame) if receipts else frame, len(values), receipts))
        self.sealed_messages += len(values)
        self._open = []
        self._open_bytes = 0

    def take(self, limit_bytes: int) -> list[bytes]:
        """Remove and return the oldest frames, one or more if there are any, until `limit_bytes` are taken."""
        if self._open:
            self.seal()
        frames = self._frames
        taken: list[bytes] = []
        size = 0
        while frames and size < limit_bytes:
            frame, _, receipts = frames.popleft()
            taken.append(frame)
            if receipts:
                self.awaited.extend(receipts)
            size += len(frame)
        self.buffered_bytes -= size + _FRAME_OVERHEAD_BYTES * len(taken)
        return taken

    def fit(self, frame_limit_bytes: int) -> int:
        """Obey the limit of the hub that is connected now; return how many values were too large, and dropped."""
        self.seal()
        self._frame_limit = frame_limit_bytes
        self._batch_limit = min(BATCH_BYTES, frame_limit_bytes - BATCH_COUNT.size)
        if all(len(frame) - HEADER_BYTES <= frame_limit_bytes for frame, _, _ in self._frames):
            return 0
        waiting = list(self._frames)
        self._frames.clear()
        lost = sum([self._fit_frame(*one) for one in waiting])
        self.buffered_bytes = sum(len(frame) + _FRAME_OVERHEAD_BYTES for frame, _, _ in self._frames)
        return lost

    def _fit_frame(self, frame: bytes, messages: int, receipts: list[Receipt]) -> int:
        """Put a frame back, in pieces if need be; return how many of its values are lost."""
        lost = 0
        for piece in fitting([Batch(frame, messages)], self._frame_limit):
            if isinstance(piece, Batch):
                mine, receipts = receipts[: piece.messages], receipts[piece.messages :]
                self._frames.append((piece.frames, piece.messages, mine))
                continue
            lost += piece
            gone, receipts = receipts[:piece], receipts[piece:]
            for receipt in gone:
                _settle(receipt, RejectedError(CloseCode.TOO_BIG, "the value is larger than this hub accepts"))
        return lost

    def clear(self, error: HubError) -> int:
        """Drop all frames, because of `error`; return how many values they had."""
        lost = self.buffered_messages
        for receipts in (*(receipts for _, _, receipts in self._frames), self._receipts):
            for receipt in receipts:
                _settle(receipt, error)
        self._frames.clear()
        self._receipts = []
        self._open = []
        self._open_bytes = self.buffered_bytes = 0
        return lost

    def _turn_to(self, topic: Target) -> None:
        head = checked_head(topic)
        self.seal()
        self._topic = topic
        self._head = head
        self._overhead_bytes = _overhead_bytes(head)


def _overhead_bytes(head: bytes) -> int:
    return _LENGTH.size + len(head) + BATCH_COUNT.size + _FRAME_OVERHEAD_BYTES


_FLAGS_AT = 5


def _confirmable(frame: bytes) -> bytes:
    flags = frame[_FLAGS_AT] | FLAG_CONFIRM
    return b"%b%c%b" % (frame[:_FLAGS_AT], flags, frame[_FLAGS_AT + 1 :])


@lru_cache(_TOPICS_LIMIT)
def checked_head(topic: Target) -> bytes:
    """Return the bytes between length and body of a frame with one value of this topic. Thread-safe."""
    if isinstance(topic, Envelope):
        return topic.routing_key
    if check_topic(topic).startswith(RESERVED):
        raise InvalidTopicError(f"topic {printable(topic)}: {RESERVED} is the hub's own, clients do not publish to it")
    return Frame(KIND_MESSAGES, 0, topic.encode(), b"").routing_key


_WRITE_BYTES = 256 * 1024
"""How many bytes are written in one go; also how much is collected in one turn before it is written early."""

_VALUE_OVERHEAD_BYTES = 32
"""Counted for a value beside its bytes, so that tiny ones let others run as often as large ones."""

_log = logging.getLogger("peers.client")


class Publishing:
    """The outbound side of one client."""

    def __init__(self, buffer_bytes: int, on_refused: Callable[[RejectedError, int], None]) -> None:
        self._on_refused = on_refused
        self.publications = Publications(buffer_bytes)
        self.unsent_messages = 0  # How many values were published and will not be sent
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._ended: HubError | None = None
        self._flush_due = False
        self._unyielded_bytes = 0  # How much `put` has taken since it let others run, bytes
        self._progress = asyncio.Event()  # Set when there is room, or everything is sent

    @property
    def waiting(self) -> bool:
        return bool(self.publications.awaited)

    def put_nowait(self, topic: Target, packed: bytes, receipt: Receipt | None = None) -> None:
        """Take a value, as `Client.publish_nowait`."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        publications = self.publications
        publications.append(topic, packed, receipt)
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)
        elif publications.buffered_bytes >= _WRITE_BYTES:
            self.write()

    async def put(self, topic: Target, packed: bytes, receipt: Receipt | None = None) -> None:
        """Take a value when there is room; let others run after each 256 KiB."""
        while True:
            try:
                self.put_nowait(topic, packed, receipt)
            except BusyError:
                await self._progress.wait()
            else:
                break
        self._unyielded_bytes += len(packed) + _VALUE_OVERHEAD_BYTES
        if self._unyielded_bytes >= _WRITE_BYTES:
            self._unyielded_bytes = 0
            await asyncio.sleep(0)  # let the loop read and others run, a few milliseconds after the last time

    async def put_confirmed(self, topic: Target, packed: bytes) -> int:
        """Take a value, and wait until it is in the hub's journal; return its offset."""
        receipt: Receipt = self._loop.create_future()
        await self.put(topic, packed, receipt)
        outcome = await receipt
        if isinstance(outcome, HubError):
            raise outcome
        return outcome

    async def drain(self) -> None:
        """Wait until the operating system has everything; raises as `Client.drain`."""
        self.write()
        while not self._sent:
            if self._ended is not None:
                raise self._ended.with_traceback(None)
            await self._progress.wait()

    async def wait_sent(self, timeout_s: float) -> None:
        """Wait until the operating system has everything, the connection is lost, or the time is up."""
        self.write()
        try:
            async with asyncio.timeout(timeout_s):
                while self._connection is not None and not self._sent:
                    await self._progress.wait()
        except TimeoutError:
            _log.warning("closing although the hub does not read: the last messages may be lost")

    def write(self) -> None:
        """Send frames, as long as the operating system takes them."""
        publications, connection = self.publications, self._connection
        while connection is not None and connection.writable and publications:
            connection.publish(publications.take(_WRITE_BYTES))
        if publications.buffered_bytes <= publications.limit_bytes // 2:
            wake(self._progress)

    def answer(self, notice: Notice) -> None:
        """Take the hub's answer to one frame that was to be confirmed."""
        awaited = self.publications.awaited
        for number in range(min(notice.count, len(awaited))):
            is_recorded = notice.kind == "recorded" and notice.offset is not None
            outcome = (notice.offset or 0) + number if is_recorded else RejectedError(notice.code, notice.text)
            _settle(awaited.popleft(), outcome)

    def connected(self, connection: Connection, hello: Hello) -> None:
        too_large = self.publications.fit(hello.frame)
        if too_large:
            text = f"{too_large} values that waited are larger than the {hello.frame} bytes that this hub accepts"
            self._on_refused(RejectedError(CloseCode.TOO_BIG, text), too_large)
        self._connection = connection
        self.write()

    def disconnected(self) -> None:
        """Settle receipts of frames that were sent: they may be lost. Others go on waiting."""
        self._connection = None
        text = "the connection was lost before the hub confirmed; the message may be recorded or not"
        awaited = self.publications.awaited
        while awaited:
            _settle(awaited.popleft(), ConnectionLostError(ABNORMAL, text))

    def finish(self, ended: HubError) -> None:
        self._ended = ended
        self.give_up(self.publications.clear(ended))
        self.disconnected()
        wake(self._progress)

    def give_up(self, messages: int) -> None:
        if messages:
            self.unsent_messages += messages
            _log.warning("%d messages were published and never sent", messages)

    @property
    def _sent(self) -> bool:
        return not self.publications and self._connection is not None and self._connection.writable

    def _flush(self) -> None:
        self._flush_due = False
        self.write()
