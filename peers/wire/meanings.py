"""What frames say whose sense depends on nothing that was said before.

```
frame ─▶ decode ─┬─▶ event
                 └─▶ RejectedError ─▶ number ─▶ the far side is told that this request was refused
```

Pure functions of a frame. Not here: which kinds are expected when, and what HELLO, MESSAGES and others say, whose sense
depends on that (`peers.wire.session`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from hub.frame import Frame
from peers.wire.account import decode_account
from peers.wire.control import decode_notice, decode_subscription
from peers.wire.events import Event, ServiceChange, SubscriptionChange
from peers.wire.kinds import Kind
from peers.wire.names import decode_claim, decode_names, decode_release, numbered
from peers.wire.records import decode_commit, decode_fetch, decode_records, decode_stage, request_number
from peers.wire.rules import decode_rules
from peers.wire.shared import decode_released
from peers.wire.token import decode_token

__all__ = ["MEANINGS", "Meaning"]


class Meaning(NamedTuple):
    """How frames of one kind are read."""

    decode: Callable[[Frame], Event]
    """Returns what the frame says; raises `ProtocolError` or, where there is a `number`, `RejectedError`."""
    number: Callable[[Frame], int] | None = None
    """Returns the number of a request that was refused, 0 if it has none; None where nothing is ever refused."""


def _subscription(frame: Frame) -> Event:
    request, prefixes = decode_subscription(frame.kind, frame.body)
    return SubscriptionChange(frame.kind == Kind.SUBSCRIBE, prefixes, request)


def _service(frame: Frame) -> Event:
    request, prefixes = decode_subscription(frame.kind, frame.body)
    return ServiceChange(frame.kind == Kind.SERVE, prefixes, request)


def _rule(frame: Frame) -> Event:
    return decode_rules(frame.kind, frame.body)


def _body(decode: Callable[[bytes], Event]) -> Callable[[Frame], Event]:
    """Make what reads a frame of what reads its body."""
    return lambda frame: decode(frame.body)


def _numbered(frame: Frame) -> int:
    return numbered(frame.body)


def _of_journal(frame: Frame) -> int:
    return request_number(Kind(frame.kind), frame.body)


def _unnumbered(_: Frame) -> int:
    return 0


MEANINGS: Final[Mapping[Kind, Meaning]] = {
    Kind.SUBSCRIBE: Meaning(_subscription, _unnumbered),
    Kind.UNSUBSCRIBE: Meaning(_subscription, _unnumbered),
    Kind.SERVE: Meaning(_service, _unnumbered),
    Kind.UNSERVE: Meaning(_service, _unnumbered),
    Kind.RULE: Meaning(_rule, _numbered),
    Kind.UNRULE: Meaning(_rule, _numbered),
    Kind.CLAIM: Meaning(_body(decode_claim), _numbered),
    Kind.RELEASE: Meaning(_body(decode_release), _numbered),
    Kind.NAMES: Meaning(_body(decode_names), _unnumbered),
    Kind.TOKEN: Meaning(_body(decode_token), _numbered),
    Kind.FETCH: Meaning(_body(decode_fetch), _of_journal),
    Kind.STAGE: Meaning(_body(decode_stage), _of_journal),
    Kind.COMMIT: Meaning(_body(decode_commit), _of_journal),
    Kind.RECORDS: Meaning(_body(decode_records)),
    Kind.NOTICE: Meaning(_body(decode_notice)),
    Kind.RELEASED: Meaning(_body(decode_released)),
    Kind.ACCOUNT: Meaning(_body(decode_account)),
}
