"""Of what keys are made: units, ranges, and what a text may be.

The annotation of each key carries its unit, its range and what it does, so that documentation, environment and command
line are made from it (`hub.keys`). Owner of the state: nobody, these are constants.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

__all__ = [
    "FOREVER_S",
    "GIB",
    "KIB",
    "LIVE",
    "MIB",
    "NAME_BYTES",
    "PATH_BYTES",
    "PRINTABLE",
    "ROLE",
    "SMALLEST_QUEUE_BYTES",
    "TIB",
    "URL_BYTES",
    "Url",
    "between",
    "file_path",
]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

FOREVER_S = 100 * 366 * 86_400.0
"""A hundred years, seconds."""

NAME_BYTES = 64
"""The wire's HELLO takes names of up to 64 bytes."""

SMALLEST_QUEUE_BYTES = KIB
"""Below this a queue holds no message of ordinary size, which would be "drop all" under another name."""

PATH_BYTES = 4096
"""PATH_MAX of Linux."""

URL_BYTES = 2048

PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"

ROLE = r"^([A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63})?$"
"""The name of a role, or nothing."""

Url = Annotated[str, Meta(pattern=PRINTABLE, min_length=1, max_length=URL_BYTES)]

LIVE = Meta(extra={"live": True})
"""A reload changes it, for those who come and for what is due from then on. Other keys need a restart: what was made of
them at the start stays as it was made."""


def between(unit: str, least: float, most: float, description: str) -> Meta:
    """Describe a number of `unit` within a closed range."""
    return Meta(ge=least, le=most, description=description, extra={"unit": unit})


def file_path(description: str) -> Meta:
    """Describe the path of a file, empty for none."""
    return Meta(pattern=PRINTABLE, description=description, extra={"most_bytes": PATH_BYTES})
