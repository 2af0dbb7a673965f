"""The kinds of frames. Their bodies are described in `docs/protocol.md`."""

from __future__ import annotations

from enum import IntEnum

from hub.frame import KIND_MESSAGES

__all__ = ["IGNORABLE", "Kind"]


class Kind(IntEnum):
    """What a frame is. Kinds that later versions fill (requests, mesh) are named, and refused for now."""

    HELLO = 1
    MESSAGES = KIND_MESSAGES
    SUBSCRIBE = 3
    UNSUBSCRIBE = 4
    REQUEST = 5
    REPLY = 6
    PING = 7
    PONG = 8
    NOTICE = 9
    CLOSE = 10
    ORIGIN = 11
    ROUTING = 12
    FETCH = 13
    RECORDS = 14
    STAGE = 15
    COMMIT = 16


IGNORABLE = 0x80
"""Unknown kinds with this bit are passed over, so that later versions can add what an older hub need not know."""
