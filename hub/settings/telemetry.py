"""What the hub tells of itself: its log, and what it follows for a collector of OpenTelemetry."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hub.settings.ranges import GIB, KIB, LIVE, MIB, PRINTABLE, URL_BYTES, between, file_path

__all__ = ["LogSettings", "TelemetrySettings"]


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged, and in which form."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe lines that are written."), LIVE
    ] = "info"
    format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="Form of a line; auto is text on a terminal and JSON otherwise."),
        LIVE,
    ] = "auto"
    queue_bytes: Annotated[
        int, between("bytes", 4 * KIB, GIB, "Lines that nobody has read yet; what comes beyond is dropped."), LIVE
    ] = MIB


class TelemetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether some messages are followed, and who is told of it."""

    endpoint: Annotated[
        str,
        Meta(
            pattern=PRINTABLE,
            description="Collector of OpenTelemetry that is sent spans by OTLP over HTTP; empty: nothing is followed.",
            extra={"unit": "a URL such as 'http://127.0.0.1:4318/v1/traces'", "most_bytes": URL_BYTES},
        ),
    ] = ""
    every: Annotated[
        int,
        between("messages", 0, 10**9, "One of so many is followed; 0: only those that say which trace they belong to."),
    ] = 1_000
    spans_per_s: Annotated[
        int, between("spans", 1, 10_000, "Most that are made in a second; further ones are counted.")
    ] = 100
    queue_spans: Annotated[
        int, between("spans", 1, 10**6, "Most that wait for the collector; further ones are lost, and counted.")
    ] = 2_048
    timeout_s: Annotated[
        float, between("seconds", 0.1, 600.0, "Time for one request to the collector, repetitions included.")
    ] = 10.0
    headers: Annotated[
        str, file_path("File of headers for each request, one a line, such as 'Authorization: Bearer ...'.")
    ] = ""
