"""`Writer`: confirmed publishing that may be repeated: a sequence number is recorded once.

All messages that wait while a batch is on its way become the next one. A batch (STAGE and COMMIT) has the number of its
last message, and the hub remembers the last one of each writer: repeated after a lost connection, it is recognised. So
that a program which starts again is recognised message by message, each message is a batch of its own until the first
that is new. After a failure nothing that waited behind it is recorded: its number would say that the failed message
was, too. Cost: two round trips and a commit a batch.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from hub.errors import CloseCode, ConnectionLostError, HubError, InternalError, RejectedError, UsageError
from hub.messages.frame import KIND_MESSAGES, encode_frame
from peers.client.journal import Committed, JournalAccess
from peers.client.publications import checked_head
from peers.client.values import encode_value
from peers.transport.timing import LINK_CAP_S, Backoff
from peers.wire.hello import Hello
from peers.wire.records import TRANSACTION_LIMIT_BYTES, Commit, Stage

_BATCH_BYTES = 512 * 1024

_HEAD_BYTES = 1024  # Room in a frame for the other fields of STAGE
_FIRST_S = 0.02  # The longest first pause before it tries again, seconds
_NAME_BYTES = TRANSACTION_LIMIT_BYTES // 2  # Longest name of a writer: the hub puts its user's in front
_AGAIN = frozenset({CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY, CloseCode.GONE})
"""Refusals that say nothing of the messages: GONE comes if the hub was restarted between STAGE and COMMIT."""


class _Message(NamedTuple):
    sequence: int
    frame: bytes
    offset: asyncio.Future[int | None]


class Writer:
    """Publishes messages that are recorded once each. Made by `Client.writer`."""

    def __init__(
        self, journal: JournalAccess, name: str, hub: Callable[[], Hello | None], ended: Callable[[], bool]
    ) -> None:
        if len(name.encode()) > _NAME_BYTES:
            raise UsageError(f"the name of a writer has at most {_NAME_BYTES} bytes")
        self._journal = journal
        self._hub = hub
        self._client_ended = ended
        self._backoff = Backoff(base_s=_FIRST_S, cap_s=LINK_CAP_S)
        self.name = name or f"writer-{secrets.token_hex(8)}"  # Its name at the hub
        self._last = 0  # The last number, so that numbers only grow; after a failure the last one recorded
        self._recorded = 0
        self._waiting: deque[_Message] = deque()
        self._bringing: asyncio.Task[None] | None = None
        self._is_new = False  # True once a batch was new to the hub: all numbers behind it are, too

    async def publish(self, topic: str, value: Any, *, sequence: int | None = None) -> int | None:
        """Publish, and wait until the message is recorded, over as many connections as it takes.

        Cancellation: the message may be recorded or not; it may be published again under its number.

        Args:
            topic: Topic of the message; the hub must record it.
            value: Anything that has a msgpack form.
            sequence: Its number, above that of the one before. A program that starts again gives the same numbers to
                the same messages. Without it the clock gives one, which is recognised as long as this writer lives.

        Returns:
            Its offset; None if it was recorded before, by a program that did not hear of it, and others since.

        Raises:
            UsageError: The number does not grow.
            RejectedError: It is not recorded; the text says why. What waits behind it is not recorded either.
            InvalidTopicError, InvalidValueError, ClosedError, PeerError: As `Client.publish_nowait`.
        """
        number = max(time.time_ns() // 1000, self._last + 1) if sequence is None else sequence
        if not self._last < number < 1 << 63:
            raise UsageError(f"sequence {number}: it must be above {self._last}, the one before")
        checked_head(topic)
        frame = encode_frame(KIND_MESSAGES, encode_value(value), key=topic.encode())
        self._check_size(frame)
        self._last = number
        message = _Message(number, frame, asyncio.get_running_loop().create_future())
        self._waiting.append(message)
        if self._bringing is None:
            self._bringing = asyncio.get_running_loop().create_task(self._bring(), name=f"writer {self.name}")
        return await message.offset

    def _check_size(self, frame: bytes) -> None:
        hello = self._hub()
        if hello is not None and len(frame) + _HEAD_BYTES > hello.frame:
            text = f"a message of {len(frame)} bytes, the hub accepts {hello.frame - _HEAD_BYTES} from a writer"
            raise RejectedError(CloseCode.TOO_BIG, text)

    async def _bring(self) -> None:
        try:
            await asyncio.sleep(0)  # publications of the same turn go together
            while self._waiting:
                await self._bring_batch(self._next_batch())
        finally:
            self._bringing = None

    def _next_batch(self) -> list[_Message]:
        batch = [self._waiting.popleft()]
        size = len(batch[0].frame)
        while self._is_new and self._waiting and size + len(self._waiting[0].frame) <= _BATCH_BYTES:
            batch.append(self._waiting.popleft())
            size += len(batch[-1].frame)
        return batch

    async def _bring_batch(self, batch: list[_Message]) -> None:
        try:
            committed = await self._commit(batch)
        except HubError as error:
            self._fail(batch, error)
        except BaseException as error:
            self._fail(batch, InternalError(f"publishing was given up: {error!r}"))
            raise
        else:
            self._is_new = self._is_new or not committed.again
            self._recorded = batch[-1].sequence
            self._backoff.reset()
            # If it was recorded before, only the last message is surely the same.
            first = committed.first + committed.messages - len(batch) if committed.messages else None
            for place, message in enumerate(batch):
                if not message.offset.done():
                    message.offset.set_result(None if first is None else first + place)

    async def _commit(self, batch: list[_Message]) -> Committed:
        frames = b"".join([message.frame for message in batch])
        while True:
            transaction = f"{self.name}-{secrets.token_hex(8)}"
            try:
                await self._journal.stage(Stage(0, transaction, 0, frames))
                return await self._journal.commit(Commit(1, transaction, self.name, batch[-1].sequence, [0]))
            except ConnectionLostError:
                if self._client_ended():
                    raise
            except RejectedError as error:
                if error.code not in _AGAIN:
                    raise
            await asyncio.sleep(self._backoff.next_s())

    def _fail(self, batch: list[_Message], error: HubError) -> None:
        messages = [*batch, *self._waiting]
        self._waiting.clear()
        self._last = self._recorded
        self._is_new = False  # some of it may be recorded all the same
        for message in messages:
            if not message.offset.done():
                message.offset.set_exception(error)
