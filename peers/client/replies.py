"""`Replies`: what a client's services have answered, becoming REPLY frames.

```
put(7, [a, b])  put(9, [c])  fail(10, "no such key")  put(3, [d]) ─▶ take(): 3: d │ 7 to 9: a b c │ 10: failed
```

The answers of a turn whose transaction ids follow one another leave as one frame, bounded at 64 KiB.

Owner: one client. No I/O. Cost: for answers to whole frames O(1) each; those of single ones are sorted once a turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from hub.frame import BATCH_COUNT, FLAG_BATCH
from hub.request_frame import TRANSACTIONS, Reply, Status, failure
from peers.client.publications import BATCH_BYTES
from peers.client.values import InvalidValueError, encode_value, encode_values
from peers.shm.ring import joined
from peers.wire.hello import FRAME_LIMIT_BYTES

__all__ = ["Replies"]

_REPLIES_LIMIT = 4096
"""Most answers that are joined to one frame, as of values that are published."""

_HEAD_BYTES = 5 + BATCH_COUNT.size
"""How much stands in a frame before its values, bytes."""

_REASON_CHARACTERS = 4096
"""How much of a reason is told, characters."""


class Replies:
    """The answers of one client that are not sent yet."""

    __slots__ = ("_answers", "_failures", "frame_limit_bytes")

    def __init__(self) -> None:
        self.frame_limit_bytes = FRAME_LIMIT_BYTES
        # Answers of this turn: id of the first, how many, and the values back to back. `take` and `clear` empty it.
        self._answers: list[tuple[int, int, bytes]] = []
        # Failures of this turn, likewise.
        self._failures: list[Reply] = []

    def __bool__(self) -> bool:
        return bool(self._answers) or bool(self._failures)

    def put(self, first: int, values: Sequence[Any]) -> None:
        """Answer requests, whose ids follow one another from `first` on, with values.

        Raises:
            InvalidValueError: A value has no msgpack form, or is too large: nothing was answered.
        """
        packed = encode_values(values)
        if len(packed) + _HEAD_BYTES > self.frame_limit_bytes:
            if len(values) == 1:
                limit = self.frame_limit_bytes - _HEAD_BYTES
                raise InvalidValueError(f"the reply has {len(packed)} bytes, the hub takes at most {limit}")
            self._put_halves(first, values)
        else:
            self._answers.append((first, len(values), packed))

    def put_one(self, number: int, value: Any) -> None:
        """Answer one request, and raise as `put`."""
        packed = encode_value(value)
        if len(packed) + _HEAD_BYTES > self.frame_limit_bytes:
            self.put(number, [value])
        self._answers.append((number, 1, packed))

    def _put_halves(self, first: int, values: Sequence[Any]) -> None:
        before = len(self._answers)
        half = len(values) // 2
        try:
            self.put(first, values[:half])
            self.put((first + half) % TRANSACTIONS, values[half:])
        except InvalidValueError:
            del self._answers[before:]
            raise

    def fail(self, first: int, count: int, reason: str) -> None:
        """Answer requests with a failure."""
        text = reason[:_REASON_CHARACTERS].encode("utf-8", "replace").decode()
        self._failures.append(failure(first, count, Status.FAILED, text))

    def take(self) -> Iterator[Reply]:
        """Remove everything, as frames."""
        answers, self._answers = self._answers, []
        failures, self._failures = self._failures, []
        if len(answers) > 1:
            answers.sort(key=itemgetter(0))
            answers = _joined(answers, min(BATCH_BYTES, self.frame_limit_bytes - _HEAD_BYTES))
        for first, count, packed in answers:
            if count == 1:
                yield Reply(first, Status.OK, packed)
            else:
                yield Reply(first, Status.OK, BATCH_COUNT.pack(count) + packed, FLAG_BATCH)
        yield from failures

    def clear(self) -> None:
        """Forget everything: the connection that it was for is lost."""
        self._answers.clear()
        self._failures.clear()


def _joined(answers: list[tuple[int, int, bytes]], limit_bytes: int) -> list[tuple[int, int, bytes]]:
    """Join what follows one another."""
    frames: list[tuple[int, int, bytes]] = []
    parts: list[bytes] = []
    begin, following, size = answers[0][0], answers[0][0], 0
    for first, count, packed in answers:
        size += len(packed)
        if parts and (first != following or following + count - begin > _REPLIES_LIMIT or size > limit_bytes):
            frames.append((begin, following - begin, joined(parts)))
            parts, size, begin = [], len(packed), first
        parts.append(packed)
        following = first + count
    frames.append((begin, following - begin, joined(parts)))
    return frames
