"""Questions of this hub to other hubs of the mesh: requests to a hub's id, with one reply each."""

from __future__ import annotations

from collections.abc import Callable

from hub.core import Core
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.request_frame import TRANSACTIONS, Item, Reply, Request

Take = Callable[[Reply], object]


class Asking:
    """The questions of one kind. If the way to the other hub is lost, the reply comes from this hub."""

    def __init__(self, core: Core, name: str, now_ms: Callable[[], int]) -> None:
        self._core = core
        self._name = name
        self._now_ms = now_ms
        self._handler: Handler | None = None  # the sender of the questions; None before the first
        self._asked: dict[int, Take] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, target: bytes, timeout_ms: int, value: bytes, take: Take) -> int:
        """Send a question (`hub.requests.hub_services`); return its number, for `forget`."""
        number = self._number()
        self._asked[number] = take
        self._core.requests.ask(self._attached(), Request(target, number, timeout_ms, value), self._now_ms())
        return number

    def forget(self, number: int) -> None:
        """Drop the callback of a question."""
        self._asked.pop(number, None)

    def _number(self) -> int:
        while self._next in self._asked:
            self._next = (self._next + 1) % TRANSACTIONS
        number = self._next
        self._next = (number + 1) % TRANSACTIONS
        return number

    def _attached(self) -> Handler:
        if self._handler is None:
            self._handler = Handler(
                self, role=Role.LOCAL, limits=QueueLimits(), name=self._name, address="local", poster=self
            )
            self._core.attach(self._handler)
        return self._handler

    # As the outlet and the poster of its handler.

    def send(self, batches: list[Batch]) -> None: ...

    def send_gap(self, lost_messages: int) -> None: ...

    def close(self, code: int, text: str) -> None: ...

    def post(self, items: list[Item]) -> None:
        for item in items:
            if isinstance(item, Reply):
                for place in range(item.requests):
                    take = self._asked.pop((item.first + place) % TRANSACTIONS, None)
                    if take is not None:
                        take(item)
