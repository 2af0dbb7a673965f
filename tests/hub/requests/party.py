"""What the tests of requests share: handlers that remember what they were told, and values that can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from hub.core import Core, Outside
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import CoreLimits, RequestLimits
from hub.mesh.announcement import Announcement, Served
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH
from hub.messages.request_frame import Item, Reply, Request, Status
from tests.hub.fakes import ROOMY, FakeOutlet, at_once, handler_of, mesh_link

MOST = 2**32


def packed(values: Sequence[Any], *, batch: bool | None = None) -> tuple[bytes, int]:
    body = b"".join(msgpack.packb(value) for value in values)
    if batch is None:
        batch = len(values) != 1
    return (BATCH_COUNT.pack(len(values)) + body, FLAG_BATCH) if batch else (body, 0)


def request(target: str, first: int, *values: Any, timeout_ms: int = 0, flags: int = 0) -> Request:
    body, batch = packed(values)
    return Request(target.encode(), first, timeout_ms, body, batch | flags)


def reply(first: int, *values: Any, status: int = Status.OK) -> Reply:
    body, batch = packed(values)
    return Reply(first, status, body, batch)


def answers(items: Sequence[Item]) -> list[tuple[int, int, Any]]:
    found: list[tuple[int, int, Any]] = []
    for item in items:
        assert isinstance(item, Reply), item
        values = values_of(item)
        if item.status and item.flags & FLAG_BATCH:
            values *= item.requests
        assert len(values) == item.requests
        found += [((item.first + place) % MOST, item.status, value) for place, value in enumerate(values)]
    return found


def asked(items: Sequence[Item]) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for item in items:
        assert isinstance(item, Request), item
        found += [((item.first + place) % MOST, value) for place, value in enumerate(values_of(item))]
    return found


def values_of(item: Item) -> list[Any]:
    unpacker = msgpack.Unpacker()
    unpacker.feed(item.values[BATCH_COUNT.size :] if item.flags & FLAG_BATCH else item.values)
    return list(unpacker)


class Room(Outside):
    def __init__(self, limits: RequestLimits | None = None, hub_id: bytes = b"") -> None:
        self.woken = False
        self.alarm_ms: int | None = None
        self.now_ms = 0
        asked = CoreLimits(requests=limits or RequestLimits())
        self.core = Core(self, asked, hub_id=hub_id)
        self.requests = self.core.requests

    def wake(self) -> None:
        self.woken = True

    def wake_at(self, due_ms: int) -> None:
        self.alarm_ms = due_ms

    def join(
        self, *prefixes: str, role: Role = Role.CLIENT, messages: int = ROOMY.messages, frame_limit_bytes: int = MOST
    ) -> tuple[Handler, FakeOutlet]:
        outlet = FakeOutlet()
        handler = handler_of(outlet, role=role, messages=messages, frame_limit_bytes=frame_limit_bytes)
        self.core.attach(handler)
        if role is Role.LINK:
            mesh_link(self.core, handler, *map(Served, prefixes))
        elif prefixes:
            at_once(self.requests.serving(handler, list(prefixes)))
        return handler, outlet

    def link(self, hub: bytes) -> tuple[Handler, FakeOutlet]:
        outlet = FakeOutlet()
        handler = handler_of(outlet, role=Role.LINK)
        self.core.attach(handler)
        self.core.link(handler, hub, lambda: None)
        self.core.mesh.hear(handler, Announcement(hub, 0, 1, "", ((self.core.mesh.hub, 1),)))
        self.core.mesh.check(0.0)
        return handler, outlet

    def turn(self) -> None:
        self.woken = False
        self.core.flush()

    def settle(self) -> None:
        self.turn()
        while self.woken or (self.alarm_ms is not None and self.alarm_ms <= self.now_ms):
            if self.alarm_ms is not None and self.alarm_ms <= self.now_ms:
                self.alarm_ms = None
                self.requests.expire(self.now_ms)
            self.turn()

    def ask(self, handler: Handler, item: Request) -> str:
        refused = self.requests.ask(handler, item, self.now_ms)
        self.settle()
        return refused.text if refused is not None else ""

    def answer(self, handler: Handler, item: Reply) -> str:
        refused = self.requests.answer(handler, item)
        self.settle()
        return refused.text if refused is not None else ""

    def later(self, ms: int) -> None:
        self.now_ms += ms
        self.settle()
