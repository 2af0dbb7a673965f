"""`Terms` of a named consumer, as on the wire and on the disk."""

from __future__ import annotations

from typing import Annotated

import msgspec

NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"
"""Name of a consumer: it stands in logs, metrics and commands."""

PREFIXES_LIMIT = 64
"""Most prefixes of a consumer: they are compared for each piece that is read."""

_TOPIC_CHARACTERS = 1024

_KEY_PATTERN = r"""^(topic|all|none|field:[^"\\\x00-\x1f]{1,256})\Z"""
"""A field of at most so many characters may be a path: `id.orig_h`. msgspec cannot look for the excluded ones."""

_Text = Annotated[str, msgspec.Meta(max_length=_TOPIC_CHARACTERS)]


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of a named consumer."""

    prefixes: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1, max_length=PREFIXES_LIMIT)]
    key: Annotated[str, msgspec.Meta(pattern=_KEY_PATTERN)] = "topic"
    """Which messages keep their order: "topic", "all", "none" or "field:NAME" (`order_of`)."""
    redeliver_s: Annotated[float, msgspec.Meta(ge=0.1, le=86_400.0)] = 30.0
    """Time to acknowledge a message before it is redelivered, seconds."""
    deliveries: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    """Failures after which a message is a dead letter; 0: never."""
    dead_letters: _Text = ""
    """Topic for dead letters; empty for none."""
