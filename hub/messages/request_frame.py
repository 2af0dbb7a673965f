"""`Request` and `Reply`: the content of REQUEST and REPLY frames.

```
REQUEST   key: the topic, or with NAMED a service name     REPLY   no key
0  u32  transaction id of the first value                  0  u32  transaction id of the first value
4  u32  time-out, ms; 0 for the hub's default              4  u8   status
8       one value; with BATCH: u32 count, values           5       one value; with BATCH: u32 count, values
```

A frame with BATCH holds `count` requests (replies) with consecutive transaction ids, modulo 2^32. A REPLY with BATCH
and a status other than OK has one value, the reason for all. The requester chooses transaction ids; on the way to the
service the hub puts its own in their place. With SHARED a handle of shared memory (`peers.shm`) stands in the place of
the values: the core passes it on unread, or asks it for bytes (`as_bytes`).
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple, Protocol, TypeVar, cast

import msgpack

from hub.errors import CloseCode, RejectedError
from hub.messages.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, FLAG_SHARED, HEADER, Frame

KIND_REQUEST = 5
KIND_REPLY = 6

FLAG_NAMED = 0b1000  # Of REQUEST: the key is a service name, not a topic

TRANSACTIONS = 1 << 32  # Transaction ids are counted modulo this

_REQUEST_FLAGS = 0b11111
_REPLY_FLAGS = 0b10111
_REQUEST_HEAD = Struct(">II")
_REPLY_HEAD = Struct(">IB")


class Status(IntEnum):
    """The fate of a request."""

    OK = 0  # A reply with a value
    FAILED = 1  # The service has failed; the value is its reason
    NO_RESPONDER = 2  # No service for this topic, or no owner of this name
    RESPONDER_GONE = 3  # The service was lost before it answered
    TIMED_OUT = 4  # There was no answer within the time that the request gives
    OVERFLOW = 5  # The queue of the service, or a limit of the requester's, is full
    NOT_ALLOWED = 6  # No permission
    TOO_BIG = 7  # The request is larger than the service accepts, or the reply larger than the requester accepts


class Request(NamedTuple):
    """One REQUEST frame: one request, or several of the same target."""

    target: bytes  # The topic or service name, unchecked
    first: int  # Transaction id of the first
    timeout_ms: int
    values: bytes  # As in the body of MESSAGES: one value, or with BATCH a count and values
    flags: int = 0  # Bits of BATCH, NAMED and the encoding

    @property
    def requests(self) -> int:
        return BATCH_COUNT.unpack_from(self.values)[0] if self.flags & FLAG_BATCH else 1

    @property
    def size_bytes(self) -> int:
        return _REQUEST_HEAD.size + _values_bytes(self.values, self.flags)

    def head(self) -> bytes:
        target = self.target
        header = HEADER.pack(_REQUEST_HEAD.size + len(self.values), KIND_REQUEST, self.flags, len(target))
        return header + target + _REQUEST_HEAD.pack(self.first, self.timeout_ms)

    def encode(self) -> bytes:
        return self.head() + self.values

    @classmethod
    def decode(cls, frame: Frame) -> Request:
        """Take a frame apart; its body may be a view.

        Raises:
            RejectedError: It is malformed; the stream goes on behind it.
        """
        if len(frame.body) <= _REQUEST_HEAD.size:
            raise RejectedError(CloseCode.BAD_DATA, f"REQUEST: {len(frame.body)} bytes hold no value")
        _check_flags("REQUEST", frame.flags, _REQUEST_FLAGS)
        first, timeout_ms = _REQUEST_HEAD.unpack_from(frame.body)
        values = bytes(frame.body[_REQUEST_HEAD.size :])
        _check_count("REQUEST", frame.flags, values)
        return cls(frame.key, first, timeout_ms, values, frame.flags)


class Reply(NamedTuple):
    """One REPLY frame: one reply, or several."""

    first: int  # Transaction id of the first
    status: int
    values: bytes  # As in `Request`; where the status is not OK, one value for all
    flags: int = 0  # Bits of BATCH and the encoding

    @property
    def requests(self) -> int:
        return BATCH_COUNT.unpack_from(self.values)[0] if self.flags & FLAG_BATCH else 1

    @property
    def size_bytes(self) -> int:
        return _REPLY_HEAD.size + _values_bytes(self.values, self.flags)

    def head(self) -> bytes:
        header = HEADER.pack(_REPLY_HEAD.size + len(self.values), KIND_REPLY, self.flags, 0)
        return header + _REPLY_HEAD.pack(self.first, self.status)

    def encode(self) -> bytes:
        return self.head() + self.values

    @classmethod
    def decode(cls, frame: Frame) -> Reply:
        """Take a frame apart; its body may be a view.

        Raises:
            RejectedError: It is malformed; the stream goes on behind it.
        """
        if len(frame.body) <= _REPLY_HEAD.size:
            raise RejectedError(CloseCode.BAD_DATA, f"REPLY: {len(frame.body)} bytes hold no value")
        _check_flags("REPLY", frame.flags, _REPLY_FLAGS)
        first, status = _REPLY_HEAD.unpack_from(frame.body)
        values = bytes(frame.body[_REPLY_HEAD.size :])
        if status == Status.OK:
            _check_count("REPLY", frame.flags, values)
        elif frame.flags & FLAG_BATCH:
            _check_failures(values)
        return cls(first, status, values, frame.flags)


Item = Request | Reply  # Written to requesters and services


class _Handle(Protocol):
    """Values of a frame with SHARED: `bytes` that are a handle."""

    def plain(self, flags: int) -> bytes:
        """Return the values themselves.

        Raises:
            RejectedError: They are gone.
        """


ItemT = TypeVar("ItemT", bound=Item)


def as_bytes(item: ItemT) -> ItemT | None:
    """Return an item whose values are in shared memory with bytes in their place; None if they are gone."""
    try:
        values = cast("_Handle", item.values).plain(item.flags)
    except RejectedError:
        return None
    return cast("ItemT", item._replace(values=values, flags=item.flags & ~FLAG_SHARED))


def failure(first: int, count: int, status: Status, text: str) -> Reply:
    """Return the answer with the reason why `count` requests are not carried out."""
    value = msgpack.packb(text)
    if count == 1:
        return Reply(first, status, value)
    return Reply(first, status, BATCH_COUNT.pack(count) + value, FLAG_BATCH)


def _values_bytes(values: bytes, flags: int) -> int:
    beyond: int = getattr(values, "shared_bytes", 0) if flags & FLAG_SHARED else 0
    return len(values) + beyond


def _check_flags(kind: str, flags: int, known: int) -> None:
    if flags & ~known:
        raise RejectedError(CloseCode.BAD_DATA, f"{kind}: flags 0b{flags:08b}, known are 0b{known:08b}")


def _check_failures(values: bytes) -> None:
    if len(values) <= BATCH_COUNT.size or not 0 < BATCH_COUNT.unpack_from(values)[0] <= BATCH_LIMIT_MESSAGES:
        raise RejectedError(CloseCode.BAD_DATA, "REPLY: BATCH of no replies, of too many, or without a value")


def _check_count(kind: str, flags: int, values: bytes) -> None:
    if not flags & FLAG_BATCH:
        return
    count = int.from_bytes(values[: BATCH_COUNT.size]) if len(values) > BATCH_COUNT.size else 0
    most = BATCH_LIMIT_MESSAGES if flags & FLAG_SHARED else len(values) - BATCH_COUNT.size
    if not 0 < count <= min(most, BATCH_LIMIT_MESSAGES):
        text = f"{kind}: BATCH of {count} values in {len(values)} bytes; 1 to {BATCH_LIMIT_MESSAGES} are possible"
        raise RejectedError(CloseCode.BAD_DATA, text)
