"""Requests to stores, their answers, and published changes; used by hubs and clients.

Requests go to `$store/NAME/read` and `.../write`; messages to `.../write` are commands without an answer; changes
are published under `$store/NAME/changes/` (docs/stores.md). A key or value is msgpack `bin` with msgpack inside, or its
base64 as text from clients without `bin`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgpack
import msgspec

from hub.errors import CloseCode, HubError, PeerError, StoreError
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH
from hub.messages.request_frame import TRANSACTIONS, Reply, Request, Status
from hub.stores.command import Change, Command, store_topic

PAGE_BYTES = 256 * 1024  # length of a page, and of a message of changes, bytes: a quarter of a frame
PAGE_ROWS = 10_000  # most rows or changes of a page: 10 ms


def read_topic(name: str) -> str:
    return store_topic(name, "read")


def write_topic(name: str) -> str:
    return store_topic(name, "write")


def changes_topic(name: str) -> str:
    """Return the topic of changes; its slash keeps subscriptions, which are prefixes, within the granted topics."""
    return store_topic(name, "changes/")


class Get(msgspec.Struct, frozen=True, array_like=True, tag="get", gc=False):
    """Read an entry."""

    key: bytes


class Exists(msgspec.Struct, frozen=True, array_like=True, tag="exists", gc=False):
    """Ask whether there is an entry."""

    key: bytes


class Index(msgspec.Struct, frozen=True, array_like=True, tag="index", gc=False):
    """Read a part of a value."""

    key: bytes
    index: bytes


class State(msgspec.Struct, frozen=True, array_like=True, tag="state", gc=False):
    """Read numbers and size of the store."""


class Rows(msgspec.Struct, frozen=True, array_like=True, tag="rows", gc=False):
    """Begin to read all entries or keys."""

    prefix: str = ""
    values: bool = True


class More(msgspec.Struct, frozen=True, array_like=True, tag="more", gc=False):
    """Read the next page."""

    reading: int


class Since(msgspec.Struct, frozen=True, array_like=True, tag="since", gc=False):
    """Read the changes after a number."""

    number: int


Read: TypeAlias = Get | Exists | Index | State | Rows | More | Since

_Row: TypeAlias = tuple[bytes, bytes, int, int | None]
_ChangeRow: TypeAlias = tuple[int, int, bytes, bytes | None, int | None, object]


class Page(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A page of entries or keys."""

    epoch: int
    reading: int
    first_number: int
    number: int
    rows: Sequence[_Row] | Sequence[bytes]


class SinceAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Changes after a number."""

    epoch: int
    number: int
    changes: list[_ChangeRow]


def _decoder(kind: Any) -> Callable[[bytes], Any]:
    """Return the decoder of a kind, which also takes base64 text in place of `bin`; it raises `msgspec.DecodeError`."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def decoded(packed: bytes) -> Any:
        try:
            return decode(packed)
        except msgspec.ValidationError as error:
            try:
                return msgspec.convert(msgspec.msgpack.decode(packed), kind)
            except (msgspec.ValidationError, TypeError):
                hint = "; a key or value is `bin`, or text that is its base64" if "`bytes`" in str(error) else ""
                raise msgspec.ValidationError(f"{error}{hint}") from None

    return decoded


commands_of: Callable[[bytes], list[Command]] = _decoder(list[Command])
reads_of: Callable[[bytes], list[Read]] = _decoder(list[Read])


def heard(rows: Iterable[_ChangeRow], now_ns: int) -> list[Change]:
    return [
        Change(number, kind, key, value, None, None if left_ns is None else now_ns + left_ns, publisher)
        for number, kind, key, value, left_ns, publisher in rows
    ]


def change_rows(changes: Iterable[Change], now_ns: int) -> list[_ChangeRow]:
    return [
        (number, kind, key, value, None if expires_ns is None else expires_ns - now_ns, publisher)
        for number, kind, key, value, _, expires_ns, publisher in changes
    ]


Answers: TypeAlias = list[tuple[Status, bytes]]  # for each command or read: status, and answer or reason in msgpack
_OK: Final = Status.OK  # `Status.OK` itself takes 30 ns
_NUMBERED: Final = frozenset({"put", "put_unique", "erase", "clear"})  # answered with the number of the change alone
_pack = msgspec.msgpack.Encoder().encode


def refusal(error: StoreError) -> tuple[Status, bytes]:
    status = Status.OVERFLOW if error.code == CloseCode.TRY_AGAIN_LATER else Status.FAILED
    return status, msgpack.packb(error.text)


def unknown(error: HubError) -> tuple[Status, bytes]:
    """Return the answer to a command whose change is not kept yet: the hub may end before."""
    text = error.text if isinstance(error, PeerError) else str(error)
    return Status.TIMED_OUT, msgpack.packb(f"carried out, and it is unknown whether it will be kept: {text}")


def answer_of(command: Command | StoreError, outcome: Change | StoreError | None) -> tuple[Status, bytes]:
    if outcome is None:
        return _OK, b"\xc0"
    if isinstance(outcome, StoreError):
        return refusal(outcome)
    if isinstance(command, Command) and command.kind in _NUMBERED:
        return _OK, _pack(outcome.number)
    return _OK, _pack((outcome.number, outcome.value))


def give_answers(request: Request, reply: Callable[[Reply, int], object], answers: Answers, place: int = 0) -> None:
    """Reply to a frame, from `place` in it on: successful answers in a row are one frame; each error is one."""
    if not request.flags & FLAG_BATCH:
        (status, value), *_ = answers
        reply(Reply(request.first, status, value), 1)
        return
    start = 0
    while start < len(answers):
        status = answers[start][0]
        end = start + 1
        if status is _OK:
            while end < len(answers) and answers[end][0] is _OK:
                end += 1
        first = (request.first + place + start) % TRANSACTIONS
        values = b"".join([value for _, value in answers[start:end]])
        reply(Reply(first, status, BATCH_COUNT.pack(end - start) + values, FLAG_BATCH), end - start)
        start = end
