"""Spans in OpenTelemetry's words."""

from __future__ import annotations

from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hub.delivery import Role
from hub.spans import Span, SpanSource
from hub.traceparent import TraceParent
from peers.daemon.telemetry.otlp import TOPIC_CHARACTERS, Otlp

TRACE, PUBLISHER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

SOURCE = SpanSource(7, "sensor", "127.0.0.1:4000", Role.CLIENT)


def span(
    topic: str = "/a", parent: TraceParent | None = None, source: SpanSource | None = SOURCE, links: int | None = 2
) -> Span:
    """A span."""
    return Span(topic, parent, source, 3, 90, 5, links, 1, 4, 1_000, 1_500, 2_500)


class Failing(InMemorySpanExporter):
    """An exporter whose collector takes nothing."""

    def export(self, spans: object) -> SpanExportResult:  # type: ignore[override]  # noqa: ARG002
        """Fail."""
        return SpanExportResult.FAILURE


def test_what_is_told() -> None:
    """Its times, its topic, who has published it, whom it reached, and which hub says so."""
    exporter = InMemorySpanExporter()
    assert Otlp(exporter, "hub-1", "0a-12").send([span()])
    [told] = exporter.get_finished_spans()
    assert (told.name, told.start_time, told.end_time, told.parent) == ("route /a", 1_000, 2_500, None)
    assert [(event.name, event.timestamp) for event in told.events] == [("routed", 1_500), ("written", 2_500)]
    assert dict(told.attributes or {}) == {
        "messaging.system": "topichub",
        "messaging.operation.name": "route",
        "messaging.destination.name": "/a",
        "messaging.batch.message_count": 3,
        "messaging.client.id": "sensor",
        "network.peer.address": "127.0.0.1:4000",
        "topichub.bytes": 90,
        "topichub.subscribers": 5,
        "topichub.links": 2,
        "topichub.waiting": 1,
        "topichub.dropped": 4,
        "topichub.connection": 7,
        "topichub.role": "client",
    }
    resource = told.resource.attributes
    assert (resource["service.name"], resource["service.instance.id"]) == ("topichub", "0a-12")
    assert resource["topichub.name"] == "hub-1"


def test_what_belongs_to_a_trace() -> None:
    """It is a part of the publisher's span; others begin traces of their own."""
    exporter = InMemorySpanExporter()
    parent = TraceParent(TRACE, PUBLISHER, is_sampled=True)
    Otlp(exporter, "hub", "1").send([span(parent=parent, source=None, links=None), span(), span()])
    child, *others = exporter.get_finished_spans()
    assert child.parent is not None
    assert child.context is not None
    assert f"{child.context.trace_id:032x} {child.parent.span_id:016x}" == f"{TRACE} {PUBLISHER}"
    assert child.parent.is_remote
    assert {"messaging.client.id", "topichub.links"}.isdisjoint(child.attributes or {})
    assert len({one.context.trace_id for one in others if one.context is not None}) == 2


def test_a_long_topic_is_cut() -> None:
    """Collectors keep each text that they have seen."""
    exporter = InMemorySpanExporter()
    Otlp(exporter, "hub", "1").send([span(topic="/" + "x" * 5_000)])
    [told] = exporter.get_finished_spans()
    assert told.attributes is not None
    assert told.attributes["messaging.destination.name"] == "/" + "x" * (TOPIC_CHARACTERS - 1)


def test_what_is_not_taken() -> None:
    """That is told, and the spans are not sent again."""
    exporter = Failing()
    otlp = Otlp(exporter, "hub", "1")
    assert not otlp.send([span()])
    assert otlp._ended.spans == []
