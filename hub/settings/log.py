"""Settings of the log."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hub.settings.ranges import GIB, KIB, LIVE, MIB, between

__all__ = ["LogSettings"]


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
