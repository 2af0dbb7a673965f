"""What clients ask of a store of the hub: commands and reads, each once answered, and what stays behind is sound."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Any

import msgpack

from hub.core import Core
from hub.delivery import Role
from hub.errors import RejectedError
from hub.frame import BATCH_COUNT, FLAG_BATCH, Frame
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.request_frame import KIND_REQUEST, Reply, Request, Status
from hub.stores.command import ENTRY_BYTES, StoreLimits
from peers.stores.keeping import InMemory
from peers.stores.master import Master
from peers.stores.operations import canonical_form
from tests.fuzz.target import Target
from tests.hub.fakes import FakeOutlet
from tests.stores.packed import pack

__all__ = ["STORES_TARGETS"]


class _NoClock:
    """Nothing happens by time."""

    def time(self) -> float:
        return 0.0

    def call_at(self, when: float, callback: Callable[..., object], /) -> TimerHandle:  # noqa: ARG002 -- nothing happens
        return _NEVER


class _Never:
    def cancel(self) -> None:
        """Do nothing."""


_NEVER: Any = _Never()


def _run_requests(data: bytes) -> None:
    """Frames, each behind a byte of what it is and two of its length, to one store."""
    limits = StoreLimits(entries=20, bytes=64 * 1024, entry_bytes=16 * 1024, changes=10)
    core = Core(lambda: None)
    master = Master(core, _NoClock(), lambda: 10**18, "s", limits, InMemory(lambda: 1))
    asker = Handler(FakeOutlet(), role=Role.CLIENT, limits=QueueLimits(), name="asker")
    position = 0
    while position + 3 <= len(data):
        kind, size = data[position], int.from_bytes(data[position + 1 : position + 3], "big")
        values = data[position + 3 : position + 3 + size]
        position += 3 + size
        target = (b"$store/s/write", b"$store/s/read", b"$store/s/other")[kind >> 6 & 1 if kind < 0xFF else 2]
        frame = Frame(KIND_REQUEST, kind & 0b111, target, bytes(8) + values)
        try:
            request = Request.decode(frame)
        except RejectedError:
            continue
        answered: list[int] = []

        def take(reply: Reply, count: int, answered: list[int] = answered) -> None:
            assert reply.requests == count
            answered.extend(range(reply.first, reply.first + count))
            if reply.status == Status.OK and reply.flags & FLAG_BATCH:
                unpacker = msgpack.Unpacker(strict_map_key=False)
                unpacker.feed(reply.values[BATCH_COUNT.size :])
                assert len(list(unpacker)) == count, "not as many values as requests"

        if request.requests <= len(data):
            master._answer(asker, request, take)
            assert answered == list(range(request.requests)), "not each request was answered once, in order"
    store = master.store
    assert len(store) <= limits.entries
    assert store.size_bytes == sum(len(key) + len(entry[0]) + ENTRY_BYTES for key, entry in store.entries.items())
    assert all(canonical_form(key) == key for key in store.entries)


def _frame(values: list[Any], *, read: bool = False) -> bytes:
    packed = b"".join(map(msgpack.packb, values))
    kind = (1 << 6) * read
    if len(values) > 1:
        kind |= FLAG_BATCH
        packed = BATCH_COUNT.pack(len(values)) + packed
    return bytes((kind,)) + len(packed).to_bytes(2, "big") + packed


def _seeds() -> list[bytes]:
    key = pack("k")
    return [
        _frame([["put", key, pack(1), None, None]]) + _frame([["get", key]], read=True),
        _frame([["put", pack(n), pack("x"), 10**9] for n in range(5)]) + _frame([["rows", "", True]], read=True),
        _frame([["push", key, pack(1)], ["pop", key], ["insert_entry", key, pack((1, 2))], ["add", key, pack(1)]]),
        _frame([["increment", key, pack(2)], ["erase", key, None, None, 2], ["clear"]])
        + _frame([["since", 1], ["state"], ["more", 1], ["index", key, pack(0)], ["exists", key]], read=True),
    ]


STORES_TARGETS = (
    Target(
        "store_requests",
        _run_requests,
        _seeds,
        [b"\x00\x00\x00\x02", b"\xc4", b"\xd7\x08", b"\xcf" + b"\xff" * 8, msgpack.packb("put_unique")],
        runs=1_000,
    ),
)
