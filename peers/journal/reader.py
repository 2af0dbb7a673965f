"""A reader process: answers FETCH from the journal's folder, so that the hub's event loop need not.

    python -m peers.journal.reader PATH TIER DESCRIPTOR

It gets FETCH frames on a socket and answers each, in order, with a RECORDS frame or a NOTICE. It ends with the socket.
A thread would be slower, and would slow the hub: both would share one interpreter lock.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator

from hub.errors import CloseCode, GoneError, JournalCorruptError, RejectedError, StorageError
from hub.messages.frame import HEADER, HEADER_BYTES
from peers.journal.folder import write_all
from peers.journal.forms import Order, body_parts, decode_order, may_read
from peers.journal.history import History
from peers.wire.control import Notice, encode_notice
from peers.wire.kinds import Kind

_NICENESS = 5  # the reader gives way to the hub where there are too few processors
_RECEIVE_BYTES = 64 * 1024


def answer(history: Callable[[], History], order: Order) -> list[bytes]:
    try:
        found = history().fetch(
            order.start, order.end, order.prefixes, order.bytes, time_us=order.time, may_read=may_read(order)
        )
        parts = body_parts(order, found)
    except GoneError as error:
        return [_refusal(order, CloseCode.GONE, error.text, error.first)]
    except JournalCorruptError as error:
        return [_refusal(order, CloseCode.JOURNAL_FAILED, str(error))]
    except StorageError as error:
        return [_refusal(order, CloseCode.TRY_AGAIN_LATER, str(error))]
    return [HEADER.pack(sum(map(len, parts)), Kind.RECORDS, 0, 0), *parts]


def _refusal(order: Order, code: CloseCode, text: str, offset: int | None = None) -> bytes:
    return encode_notice(Notice("error", request=order.request, code=code, text=text, offset=offset))


def serve(path: str, connection: socket.socket, tier: str = "") -> None:
    opened: list[History] = []

    def history() -> History:
        if not opened:  # later, where the journal is not there yet
            opened.append(History(path, tier))
        return opened[0]

    for body in _bodies(connection):
        try:
            order = decode_order(body)
        except RejectedError as error:
            parts = [encode_notice(Notice("error", code=error.code, text=error.text))]
        else:
            parts = answer(history, order)
        write_all(parts, lambda some, _: connection.sendmsg(some))


def _bodies(connection: socket.socket) -> Iterator[bytes]:
    held = b""
    while True:
        while len(held) >= HEADER_BYTES:
            end = HEADER_BYTES + HEADER.unpack_from(held)[0]
            if len(held) < end:
                break
            yield held[HEADER_BYTES:end]
            held = held[end:]
        read = connection.recv(_RECEIVE_BYTES)
        if not read:
            return
        held += read


def main() -> None:
    path, tier, descriptor = sys.argv[1:]
    os.nice(_NICENESS)
    with socket.socket(fileno=int(descriptor)) as connection:
        try:
            serve(path, connection, tier)
        except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
            return  # the hub has ended


if __name__ == "__main__":
    main()
