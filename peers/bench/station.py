"""`Station`: a worker's end of the line to the command: orders from stdin, answers to stdout.

Owner of the state: one worker. A worker whose command is gone ends by itself.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

from hub.errors import HubError
from peers.bench.board import Board
from peers.bench.orders import Answer, Failed, Order, Setup

__all__ = ["Station", "serve"]

S = TypeVar("S", bound=Setup)

_STDIN, _STDOUT = 0, 1


class Station:
    """Orders and answers."""

    __slots__ = ("_buffer", "_orders")

    def __init__(self) -> None:
        self._buffer = b""
        self._orders: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)

    def fileno(self) -> int:
        """To be polled: an order has come when it can be read."""
        return _STDIN

    def take(self) -> list[Order]:
        """Wait for orders; return those that have come.

        Raises:
            EOFError: There will be no more.
        """
        return [self._orders.decode(line) for line in self._lines()]

    def take_setup(self, kind: type[S]) -> S:
        """Wait for the set-up."""
        return msgspec.json.decode(self._lines()[0], type=kind)

    def answer(self, answer: Answer) -> None:
        """Answer the oldest order that is not yet answered."""
        data = msgspec.json.encode(answer) + b"\n"
        while data:
            data = data[os.write(_STDOUT, data) :]

    def _lines(self) -> list[bytes]:
        while True:
            data = os.read(_STDIN, 64 * 1024)
            if not data:
                raise EOFError
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            if lines:
                return lines


def serve(kind: type[S], run: Callable[[Station, S, Board], None]) -> None:
    """Be a worker, until stdin ends.

    Args:
        kind: Of its set-up.
        run: What it does, after it was set up.
    """
    station = Station()
    try:
        setup = station.take_setup(kind)
        if setup.cpus:
            os.sched_setaffinity(0, setup.cpus)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        gc.disable()  # nothing here is cyclic, and a collection would be measured as latency
        run(station, setup, Board(setup.board, setup.publishers, setup.subscribers))
    except EOFError:
        return
    except (HubError, OSError) as error:
        station.answer(Failed(f"{kind.__name__.removesuffix('Setup').lower()}: {error}"))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
