"""The kinds of frames. Their bodies are described in `docs/protocol.md`."""

from __future__ import annotations

from enum import IntEnum

from hub.messages.frame import KIND_MESSAGES
from hub.messages.request_frame import KIND_REPLY, KIND_REQUEST


class Kind(IntEnum):
    """The kind of a frame."""

    HELLO = 1
    MESSAGES = KIND_MESSAGES
    SUBSCRIBE = 3
    UNSUBSCRIBE = 4
    REQUEST = KIND_REQUEST
    REPLY = KIND_REPLY
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
    SERVE = 17
    UNSERVE = 18
    CLAIM = 19
    RELEASE = 20
    RULE = 22
    UNRULE = 23
    SEGMENT = 24
    RELEASED = 25
    TOKEN = 26
    ACCOUNT = 129


IGNORABLE = 0x80  # unknown kinds with this bit are ignored: later versions can add kinds that others need not know
