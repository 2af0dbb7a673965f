"""`Terms`: what a named consumer wants, and how; as it comes over the wire, and as it is kept."""

from __future__ import annotations

from typing import Annotated

import msgspec

NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"
"""What a consumer may be called: it stands in logs, metrics and commands."""

PREFIXES_LIMIT = 64
"""Most prefixes of a consumer: they are compared each time that a piece is read for it."""

_TOPIC_CHARACTERS = 1024

_KEY_PATTERN = r"""^(topic|all|none|field:[^"\\\x00-\x1f]{1,256})\Z"""
"""The name of a field, at most so many characters, may be a path: `id.orig_h`. msgspec cannot look for the
others."""

_Text = Annotated[str, msgspec.Meta(max_length=_TOPIC_CHARACTERS)]


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a named consumer wants."""

    prefixes: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1, max_length=PREFIXES_LIMIT)]
    key: Annotated[str, msgspec.Meta(pattern=_KEY_PATTERN)] = "topic"
    """Which messages keep their order: "topic", "all", "none" or "field:NAME" (`hub.consumers.consumer.order_of`)."""
    redeliver_s: Annotated[float, msgspec.Meta(ge=0.1, le=86_400.0)] = 30.0
    """How long a message may take to be acknowledged before it is delivered again, seconds."""
    deliveries: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """How often a message may fail before it is given up; 0 for as often as it takes."""
    dead_letters: _Text = ""
    """Topic under which messages that were given up are published; empty for none."""
