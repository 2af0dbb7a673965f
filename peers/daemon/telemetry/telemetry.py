"""`Telemetry`: follows some of the messages of a hub, and tells a collector: made from the settings, by the daemon.

Owner: the daemon, from its start to its end. OpenTelemetry is loaded by `open_telemetry`, where an endpoint is set: it
is an extra. Not here: what is followed (`hub.spans`), how it is sent (`peers.daemon.telemetry.export`).
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final
from urllib.parse import urlsplit

from hub.config import ConfigError
from hub.errors import UsageError
from hub.settings.telemetry import TelemetrySettings
from hub.spans import SpanTap
from peers.daemon.telemetry.export import Collector, Export
from peers.daemon.telemetry.headers import read_headers
from peers.node.node import Node
from peers.node.span_statistics import SpanStatistics

__all__ = ["Telemetry", "open_telemetry"]

_STOP_S: Final = 2.0
"""How long a hub that stops waits for a collector to take the last spans, seconds."""


class Telemetry:
    """What follows messages and tells of them.

    Args:
        node: The hub.
        settings: What is followed, and how much may wait.
        collector: Where spans go.
    """

    def __init__(self, node: Node, settings: TelemetrySettings, collector: Collector) -> None:
        self._export = Export(collector, settings.queue_spans)
        self._tap = SpanTap(settings.every, settings.spans_per_s, self._export.take, time.time_ns)
        self._export.start()
        node.core.follow(self._tap)
        node.span_statistics = self.statistics

    def statistics(self) -> SpanStatistics:
        """Return what has become of spans."""
        return self._export.statistics(self._tap.skipped)

    async def stop(self) -> None:
        """Have the collector take what it takes within two seconds."""
        await asyncio.to_thread(self._export.stop, _STOP_S)


def open_telemetry(node: Node) -> Telemetry | None:
    """Follow messages, if the settings name a collector.

    Raises:
        ConfigError: They name none, or headers that cannot be read.
        UsageError: OpenTelemetry is not installed.
    """
    settings = node.settings.telemetry
    if not settings.endpoint:
        return None
    _check(settings.endpoint)
    headers = read_headers(settings.headers)
    try:
        from peers.daemon.telemetry.otlp import Otlp, otlp_exporter  # noqa: PLC0415 -- an extra, and 0.2 s to load
    except ImportError as error:
        raise UsageError("telemetry needs OpenTelemetry, which is not installed: pip install '.[otel]'") from error
    exporter = otlp_exporter(settings.endpoint, headers, settings.timeout_s)
    return Telemetry(node, settings, Otlp(exporter, node.name, f"{node.id.hex()}-{os.getpid()}"))


def _check(endpoint: str) -> None:
    """Raise ConfigError for what is no URL of a collector."""
    try:
        parts = urlsplit(endpoint)
        is_url = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise ConfigError("", "telemetry.endpoint", "expected a URL such as 'http://127.0.0.1:4318/v1/traces'")
    if "@" in parts.netloc:
        raise ConfigError("", "telemetry.endpoint", "secrets do not belong into a URL: give a file of headers")
