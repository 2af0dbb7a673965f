"""A journal that records nothing before the test says so, and whose readers are the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from hub.core import Core
from hub.errors import CloseCode, RejectedError
from hub.messages.batch import Batch
from hub.quotas import Usage
from hub.routing.routes import Route
from peers.journal.forms import Order
from peers.journal.readers import Deliver
from peers.journal.recorder import Answer, Entry, OnMarked, Probe, Progress, Recorder
from peers.journal.remote_journals import Cancel, NoJournal, Publish
from peers.wire.records import Fetch


class SlowJournal(NoJournal):
    id = bytes(range(16))

    def __init__(self, core: Core, *topics: str, buffer_bytes: int = 1_000_000) -> None:
        self.entries: list[Entry | Probe] = []
        self.orders: list[tuple[Order, Deliver]] = []
        self.cancelled: list[int] = []
        self.recorder = Recorder(
            core, topics or ("/",), self.entries.append, buffer_bytes=buffer_bytes, at=Progress(0, 100, 0)
        )

    @property
    def taken(self) -> int:  # type: ignore[override]
        return self.recorder.taken

    @property
    def is_behind(self) -> bool:  # type: ignore[override]
        return self.recorder.is_behind

    def wait_room(self, resume: Callable[[], None]) -> None:
        self.recorder.wait_room(resume)

    def forget_room(self, resume: Callable[[], None]) -> None:
        self.recorder.forget_room(resume)

    def position(self) -> int | None:
        return self.recorder.position()

    def records(self, route: Route) -> bool:
        return self.recorder.handler in route.handlers

    def heed(self, on_marked: OnMarked) -> None:
        self.recorder.on_marked = on_marked

    def confirm(self, route: Route, batch: Batch, publish: Publish, answer: Answer) -> None:
        publish(batch)
        if self.records(route):
            self.recorder.answer_at_commit(batch.messages, answer)
        else:
            answer(RejectedError(CloseCode.NOT_ALLOWED, "topic not recorded here"))

    def fetch(self, fetch: Fetch, deliver: Deliver, usage: Usage | None = None) -> Cancel:  # noqa: ARG002
        self.orders.append((cast("Order", fetch), deliver))
        return lambda: self.cancelled.append(fetch.request)

    def write(self) -> None:
        position = self.recorder.position()
        assert position is not None
        entries = [entry for entry in self.entries if isinstance(entry, Entry)]
        self.entries.clear()
        done = Progress(0, position, 0, len(entries), sum(entry.size_bytes for entry in entries))
        self.recorder.on_committed(done)
