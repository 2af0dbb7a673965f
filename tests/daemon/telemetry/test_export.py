"""The queue of spans, and the thread that empties it."""

from __future__ import annotations

import logging
import threading

from structlog.testing import capture_logs

from hub.spans import Span
from peers.daemon.telemetry.export import BATCH_SPANS, Export
from peers.node.span_statistics import SpanStatistics
from tests.daemon.telemetry.test_otlp import span


class FakeCollector:
    """Takes spans once it may; `answers` says what becomes of each request, the last one for all that follow."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.answers = list(answers)
        self.sizes: list[int] = []
        self.may = threading.Event()
        self.may.set()
        self.asked = threading.Event()
        self.is_closed = False

    def send(self, spans: list[Span]) -> bool:
        """Take spans."""
        self.sizes.append(len(spans))
        self.asked.set()
        self.may.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Let a request go that waits."""
        self.is_closed = True
        self.may.set()


def test_all_that_was_taken_is_sent_at_the_end() -> None:
    """In requests of bounded size."""
    collector = FakeCollector(True)
    export = Export(collector, 10_000)
    for _ in range(BATCH_SPANS + 3):
        export.take(span())
    assert export.statistics(5) == SpanStatistics(waiting=BATCH_SPANS + 3, limit=10_000, skipped=5)
    export.start()
    export.stop(60)
    assert collector.sizes == [BATCH_SPANS, 3]
    assert export.statistics() == SpanStatistics(limit=10_000, exported=BATCH_SPANS + 3)
    assert collector.is_closed


def test_a_collector_that_does_not_answer_costs_spans_only() -> None:
    """What waits is bounded, the rest is counted; nobody waits for it, not even the end."""
    collector = FakeCollector(False)
    collector.may.clear()
    export = Export(collector, 10)
    export.take(span())
    export.start()
    collector.asked.wait()
    for _ in range(25):
        export.take(span())
    assert export.statistics() == SpanStatistics(waiting=11, limit=10, overflowed=15)
    export.stop(0.01)
    export._thread.join()
    assert export.statistics() == SpanStatistics(limit=10, failed=11, overflowed=15)


def test_it_is_logged_when_that_changes() -> None:
    """Not each time; the last line of the library is the reason."""
    collector = FakeCollector(False, False, ValueError("odd"), True, True)
    export = Export(collector, 10)
    with capture_logs() as lines:
        export.start()
        logging.getLogger("opentelemetry.exporter").error("Failed to export: %s", 500)
        for _ in range(5):
            export.take(span())
            export._send_all()
        export.stop(60)
    assert [(line["event"], line.get("reason")) for line in lines] == [
        ("spans are lost: the collector does not take them", "Failed to export: 500"),
        ("the collector takes spans again", None),
    ]
    assert export.statistics() == SpanStatistics(limit=10, exported=2, failed=3)
