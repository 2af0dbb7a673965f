"""Units, ranges and text patterns of settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

FOREVER_S = 100 * 366 * 86_400.0

NAME_BYTES = 64
"""The wire's HELLO takes names of up to 64 bytes."""

SMALLEST_QUEUE_BYTES = KIB
"""A smaller queue would hold no ordinary message."""

PATH_BYTES = 4096
"""PATH_MAX of Linux."""

URL_BYTES = 2048

PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"

ROLE = r"^([A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63})?$"

Url = Annotated[str, Meta(pattern=PRINTABLE, min_length=1, max_length=URL_BYTES)]

LIVE = Meta(extra={"live": True})
"""A reload changes the key, for new connections and for timeouts set from then on. Other keys need a restart."""


def between(unit: str, least: float, most: float, description: str) -> Meta:
    """Describe a number of `unit` within a closed range."""
    return Meta(ge=least, le=most, description=description, extra={"unit": unit})


def file_path(description: str) -> Meta:
    """Describe the path of a file, empty for none."""
    return Meta(pattern=PRINTABLE, description=description, extra={"most_bytes": PATH_BYTES})
