"""`Otlp`: spans in OpenTelemetry's words, sent to a collector by OTLP over HTTP.

The attributes have the names of OpenTelemetry's conventions for messaging where there is one, and begin with
`topichub.` where there is none. Each process of a hub is a resource of its own, `service.instance.id`.

Called by one thread, which may wait here (`peers.daemon.telemetry.export`). Not here: what is followed (`hub.spans`),
what becomes of spans that nobody takes.
"""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context
from opentelemetry.util.types import AttributeValue

from hub import __version__
from hub.spans import Span
from hub.traceparent import TraceParent
from peers.daemon.telemetry.session import bounded_session

__all__ = ["Otlp", "otlp_exporter"]

TOPIC_CHARACTERS = 256
"""Most characters of a topic that a span tells: collectors keep each text that they have seen."""


class _Ended(SpanProcessor):
    """Holds what has ended until it is sent."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span."""
        self.spans.append(span)

    def take(self) -> list[ReadableSpan]:
        """Return and forget what has ended."""
        spans, self.spans = self.spans, []
        return spans


class Otlp:
    """What turns spans into requests.

    Args:
        exporter: Sends them.
        name: The name of the hub.
        instance: The id of the hub, and of its process where there are several.
    """

    def __init__(self, exporter: SpanExporter, name: str, instance: str) -> None:
        self._exporter = exporter
        self._ended = _Ended()
        resource = Resource.create(
            {
                "service.name": "topichub",
                "service.version": __version__,
                "service.instance.id": instance,
                "topichub.name": name,
            }
        )
        provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer("topichub", __version__)

    def send(self, spans: Iterable[Span]) -> bool:
        """Send spans, and return whether the collector has taken them; waits for as long as its exporter does."""
        for span in spans:
            self._tell(span)
        return self._exporter.export(self._ended.take()) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """End what waits for the collector; called in any thread."""
        self._exporter.shutdown()

    def _tell(self, span: Span) -> None:
        topic = span.topic[:TOPIC_CHARACTERS]
        context = None if span.parent is None else set_span_in_context(NonRecordingSpan(_context(span.parent)))
        told = self._tracer.start_span(
            f"route {topic}",
            context or set_span_in_context(trace.INVALID_SPAN),
            SpanKind.INTERNAL,
            _attributes(span, topic),
            start_time=span.began_ns,
        )
        told.add_event("routed", timestamp=span.routed_ns)
        told.add_event("written", timestamp=span.written_ns)
        told.end(span.written_ns)


def _context(parent: TraceParent) -> SpanContext:
    return SpanContext(
        int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )


def _attributes(span: Span, topic: str) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "messaging.system": "topichub",
        "messaging.operation.name": "route",
        "messaging.destination.name": topic,
        "messaging.batch.message_count": span.messages,
        "topichub.bytes": span.size_bytes,
        "topichub.subscribers": span.subscribers,
        "topichub.waiting": span.waiting,
        "topichub.dropped": span.dropped,
    }
    if span.links is not None:
        attributes["topichub.links"] = span.links
    if span.source is not None:
        attributes |= {
            "messaging.client.id": span.source.name,
            "network.peer.address": span.source.address,
            "topichub.connection": span.source.id,
            "topichub.role": span.source.role.value,
        }
    return attributes


def otlp_exporter(endpoint: str, headers: dict[str, str], timeout_s: float) -> SpanExporter:
    """Return what sends spans to a collector.

    Args:
        endpoint: Whole URL, as a rule `http://host:4318/v1/traces`.
        headers: Sent with each request.
        timeout_s: Most that one request takes, with those that repeat it.
    """
    return OTLPSpanExporter(endpoint=endpoint, headers=headers, timeout=timeout_s, session=bounded_session())
