"""FETCH and RECORDS read the journal piece by piece; STAGE and COMMIT write many messages as one.

```
FETCH     msgpack map, see `Fetch`
RECORDS   u32 request, u32 number of blocks, u64 start, u64 next, u64 first, u64 head, u64 epoch, then per block u64
          length, block; then, if the FETCH has `journal`, the id of the journal
STAGE     u32 request, u16 length of the transaction's name, name, u64 part, MESSAGES frames back to back
COMMIT    msgpack map, see `Commit`
```

One FETCH gets one answer: RECORDS, or NOTICE "error" with its request. No state is kept between two FETCHes. A block is
copied from the disk as it is (`hub.journal.block`), with its checksum, unless the FETCH asks for some of its columns.
STAGE is answered by NOTICE "confirmed" or "error", COMMIT by "confirmed" with `offset` and `count`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 -- a class
from typing import Annotated, NamedTuple

import msgspec

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.journal.layout import COLUMNS, Column
from hub.messages.frame import encode_frame
from peers.wire.control import MALFORMED, PREFIXES_LIMIT, reader, writer
from peers.wire.kinds import Kind

FETCH_BYTES = 1024 * 1024  # default size of one answer: a full block. Twice as much is no faster.
END_OF_TIME_US = 2**63 - 1  # a time later than any record: it asks for the end of the journal
FETCH_WAIT_LIMIT_MS = 60_000  # longest time that a FETCH may wait for records that are not there yet
TRANSACTION_LIMIT_BYTES = 255  # longest name of a transaction or of a query
PARTS_LIMIT = 1_000_000  # most parts of one batch: one for each task of a very large job
HUB_LIMIT_BYTES = 64  # longest name of a hub; its id, in hexadecimal digits, is shorter

JOURNAL_ID_BYTES = 16

REPLACED = "the hub has another journal than before: start again at its beginning"
"""The error for a reader whose offsets name other records now."""

_RECORDS = Struct(">IIQQQQQ")
_LENGTH = Struct(">Q")
_STAGE = Struct(">IH")
_REQUEST = Struct(">I")
_PART = Struct(">Q")

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_JournalId = Annotated[bytes, msgspec.Meta(max_length=JOURNAL_ID_BYTES)]
_Request = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]


class Fetch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client asks for a piece of the journal."""

    request: _Request
    start: _Offset = 0  # the first offset that is wanted
    time: _Offset | None = None  # µs since 1970, in place of `start`: the first record that is not older
    end: _Offset | None = None  # behind the last one wanted; None for all that is committed by then
    prefixes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=PREFIXES_LIMIT)] = ("",)
    """Only records with topics under these are wanted."""
    bytes: Annotated[int, msgspec.Meta(ge=0)] = FETCH_BYTES  # size at which the answer ends; 0: only offsets
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=FETCH_WAIT_LIMIT_MS)] = 0  # for new records
    hub: Annotated[str, msgspec.Meta(max_length=HUB_LIMIT_BYTES)] = ""  # name or id of another hub
    journal: _JournalId | None = None  # empty for any, whose id is in the answer; None for neither
    columns: Annotated[tuple[Column, ...], msgspec.Meta(max_length=len(COLUMNS))] | None = None
    """The columns of each record to return; None for all."""
    epoch: _Offset = 0
    """The epoch of the journal in which `start` was read; 0 if unknown. If records before `start` were lost since, the
    answer begins with the first record that replaced them."""


class Commit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client ends a transaction: either all staged messages are published, or all are dropped."""

    request: _Request
    transaction: Annotated[str, msgspec.Meta(min_length=1, max_length=TRANSACTION_LIMIT_BYTES)]
    query: Annotated[str, msgspec.Meta(max_length=TRANSACTION_LIMIT_BYTES)] = ""
    """The writer. Its batches are numbered, so that none is written twice; batches without a query are not."""
    batch: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    """The number of the batch. If it is not above that of the query's last committed batch, the batch is not written
    again."""
    parts: Annotated[list[_Offset], msgspec.Meta(max_length=PARTS_LIMIT)] = []
    """Which parts belong to the batch; other parts that were staged, by tasks that were repeated, are dropped."""
    abort: bool = False  # whether to drop staged messages


class Stage(NamedTuple):
    """Messages that wait for their COMMIT."""

    request: int
    transaction: str
    part: int  # the number of the task that writes them, or another number that distinguishes parts
    frames: bytes  # MESSAGES frames back to back


class Records(NamedTuple):
    """A piece of the journal."""

    request: int
    start: int
    """The offset at which the piece begins; the one that `time` was resolved to, if a time was asked for. If it is less
    than the wanted offset, the records from here to there are lost, and others have their offsets."""
    next: int  # the offset from which the next FETCH should ask
    first: int  # the oldest offset that is retained
    head: int  # the offset behind the newest committed record
    blocks: list[bytes]
    """Blocks of the journal, as they are on the disk; excerpts of them (`hub.journal.layout`) where not all columns
    were asked for."""
    journal: bytes = b""  # the id of the journal; empty where the FETCH did not ask for it
    epoch: int = 0  # the epoch of the journal, of `next` and `head`


class _Numbered(msgspec.Struct):
    """The one field that all requests which are maps have in common."""

    request: _Request


_decode_numbered = msgspec.msgpack.Decoder(_Numbered).decode

encode_fetch: Callable[[Fetch], bytes] = writer(Kind.FETCH)
decode_fetch = reader(Kind.FETCH, Fetch)
encode_commit: Callable[[Commit], bytes] = writer(Kind.COMMIT)
decode_commit = reader(Kind.COMMIT, Commit)


def request_number(kind: Kind, body: bytes) -> int:
    """Return the request number of an otherwise malformed frame, so that the error can name it; 0 if it has none."""
    if kind == Kind.STAGE:
        return int.from_bytes(body[: _REQUEST.size], "big") if len(body) >= _REQUEST.size else 0
    try:
        return _decode_numbered(body).request
    except MALFORMED:
        return 0


def encode_stage(stage: Stage) -> bytes:
    name = stage.transaction.encode()
    head = _STAGE.pack(stage.request, len(name)) + name + _PART.pack(stage.part)
    return encode_frame(Kind.STAGE, head + stage.frames)


def decode_stage(body: bytes) -> Stage:
    try:
        request, length = _STAGE.unpack_from(body)
        end = _STAGE.size + length
        name = body[_STAGE.size : end].decode()
        part = _PART.unpack_from(body, end)[0]
    except (ValueError, IndexError, StructError) as error:
        raise RejectedError(CloseCode.BAD_DATA, f"STAGE: {error}") from error
    if not 0 < length <= TRANSACTION_LIMIT_BYTES:
        text = f"STAGE: a transaction's name has 1 to {TRANSACTION_LIMIT_BYTES} bytes, this one has {length}"
        raise RejectedError(CloseCode.BAD_DATA, text)
    return Stage(request, name, part, body[end + _PART.size :])


def records_parts(records: Records) -> list[bytes]:
    """Return the body of a RECORDS frame as a list of parts, so that blocks are not copied."""
    parts = [_RECORDS.pack(records.request, len(records.blocks), *records[1:5], records.epoch)]
    for block in records.blocks:
        parts += (_LENGTH.pack(len(block)), block)
    if records.journal:
        parts.append(records.journal)
    return parts


def decode_records(body: bytes) -> Records:
    """Read the body of a RECORDS frame. The blocks are not looked into.

    Raises:
        ProtocolError: The lengths do not add up.
    """
    ends = _block_ends(body)
    request, count, begin, after, first, head, epoch = _RECORDS.unpack_from(body)
    starts = [_RECORDS.size, *ends][:count]
    blocks = [body[start + _LENGTH.size : end] for start, end in zip(starts, ends, strict=True)]
    behind = ends[-1] if ends else _RECORDS.size
    return Records(request, begin, after, first, head, blocks, body[behind:], epoch)


def check_records(body: memoryview, request: int) -> None:
    """Check that bytes are the body of a RECORDS frame that answers this request, without a copy.

    Raises:
        ProtocolError: They are not.
    """
    _block_ends(body)
    answered = _REQUEST.unpack_from(body)[0]
    if answered != request:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"RECORDS: they answer {answered}, not {request}")


def _block_ends(body: bytes | memoryview) -> list[int]:
    """Return where each block ends.

    Raises:
        ProtocolError: The lengths do not add up.
    """
    if len(body) < _RECORDS.size:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"RECORDS: {len(body)} bytes, the head has {_RECORDS.size}")
    count = _RECORDS.unpack_from(body)[1]
    position = _RECORDS.size
    ends: list[int] = []
    for _ in range(count):
        start = position + _LENGTH.size
        if start > len(body):
            break
        position = start + _LENGTH.unpack_from(body, position)[0]
        ends.append(position)
    if len(ends) != count or len(body) - position not in {0, JOURNAL_ID_BYTES}:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"RECORDS: {len(body)} bytes are not the {count} blocks it says")
    return ends
