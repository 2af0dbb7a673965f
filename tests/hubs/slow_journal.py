"""A journal that records nothing before the test says so, and whose readers are the test."""

from __future__ import annotations

from typing import cast

from hub.core import Core
from hub.errors import CloseCode, RejectedError
from hub.messages.batch import Batch
from hub.quotas import Usage
from hub.routing.routes import Route
from peers.journal.forms import Order
from peers.journal.readers import Deliver
from peers.journal.recorder import Answer, Entry, Probe, Progress, Recorder
from peers.journal.remote_journals import Cancel, NoJournal, Publish
from peers.wire.records import Fetch


class SlowJournal(NoJournal):
    id = bytes(range(16))

    recorder: Recorder

    def __init__(self, core: Core, *topics: str, buffer_bytes: int = 1_000_000) -> None:
        self.entries: list[Entry | Probe] = []
        self.orders: list[tuple[Order, Deliver]] = []
        self.cancelled: list[int] = []
        self.recorder = Recorder(
            core, topics or ("/",), self.entries.append, buffer_bytes=buffer_bytes, at=Progress(0, 100, 0)
        )

    def confirm(self, route: Route, batch: Batch, publish: Publish, answer: Answer) -> None:
        publish(batch)
        if self.recorder.records(route):
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
