"""A collector of spans on loopback: what OTLP over HTTP is, and no more. It may be slow, or refuse everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Told

__all__ = ["LoopbackCollector", "attributes_of", "collecting"]

_PIECE_BYTES = 65_536


@dataclass
class LoopbackCollector:
    """What it was told."""

    status: str = "200 OK"
    answers: bool = True
    more: str = "content-length: 0"
    """What else stands in the head of an answer."""
    body: bytes = b""
    sent_bytes: int = 0
    """Of bodies, as far as whoever asked has taken them."""
    connections: int = 0
    url: str = ""
    requests: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    spans: list[Told] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self.connections += 1
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                lines = head.split("\r\n")[1:-2]
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers["content-length"]))
                self.requests += 1
                self.headers.append(headers)
                if not self.answers:
                    await reader.read()
                    return
                if self.status.startswith("200"):
                    self._take(body)
                writer.write(f"HTTP/1.1 {self.status}\r\n{self.more}\r\n\r\n".encode())
                for start in range(0, len(self.body), _PIECE_BYTES):
                    piece = self.body[start : start + _PIECE_BYTES]
                    writer.write(piece)
                    await writer.drain()
                    self.sent_bytes += len(piece)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(attributes_of(resource.resource))
            for scope in resource.scope_spans:
                self.spans += scope.spans


def attributes_of(told: Any) -> dict[str, Any]:
    """The attributes of a span or a resource."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in told.attributes}


@asynccontextmanager
async def collecting(**how: Any) -> AsyncIterator[LoopbackCollector]:
    """Collect for as long as the block lasts."""
    collector = LoopbackCollector(**how)
    server = await asyncio.start_server(collector.serve, "127.0.0.1", 0)
    collector.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/traces"
    try:
        yield collector
    finally:
        server.close()
