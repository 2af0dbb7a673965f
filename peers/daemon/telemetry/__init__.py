"""Spans of some messages, for OpenTelemetry: a collector is told what is followed (`hub.spans`). An extra, `otel`."""
