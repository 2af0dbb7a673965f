"""The messages of `hub.v1.json` and `hub.v1.msgpack`, see docs/websocket.md, as typed values.

Values only; their two encodings are in `peers.websocket.codec`. What is published is a frame of the hub's own already.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from hub.batch import Batch
from hub.errors import RejectedError
from hub.labels import LABELS_LIMIT
from hub.overflow import QueueLimits
from hub.requests.layout import Reply, Request
from peers.wire.control import PREFIXES_LIMIT
from peers.wire.hello import SOFTWARE, QueueWish
from peers.wire.records import FETCH_WAIT_LIMIT_MS
from peers.wire.rules import RULES_PER_FRAME

__all__ = [
    "Claim",
    "ClientMessage",
    "Confirmed",
    "Dropped",
    "Error",
    "Fetch",
    "Hello",
    "HubMessage",
    "Labels",
    "NameStanding",
    "Ping",
    "Pong",
    "Publication",
    "Recorded",
    "RefusedError",
    "Release",
    "RequestNumber",
    "Rule",
    "Serve",
    "Subscribe",
    "SubscribeRules",
    "Unserve",
    "Unsubscribe",
    "UnsubscribeRules",
    "Welcome",
]

RequestNumber = Annotated[int, msgspec.Meta(ge=0)]
"""A number of the client's choice, 0 for none."""

Labels = Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)]
"""Not checked."""

_FetchNumber = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
"""The same, where there must be one, and where it goes on to a reader process."""

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

_LATEST_MS = 1e16
"""Later than any record, which asks for the end of the journal."""


# Client to hub.


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Who speaks, and the queue it wishes for."""

    name: str = ""
    queue: QueueWish | None = None


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe"):
    """From now on, messages under these prefixes."""

    prefixes: list[str]
    request: RequestNumber = 0


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe"):
    """The opposite."""

    prefixes: list[str]
    request: RequestNumber = 0


class Rule(msgspec.Struct, frozen=True):
    """Labels, a prefix and a sender that messages are to have; see `hub.tags.rule`."""

    labels: Labels = ()
    prefix: str = ""
    sender: str = ""


class SubscribeRules(msgspec.Struct, frozen=True, tag="rule"):
    """From now on, messages that match these rules."""

    rules: Annotated[list[Rule], msgspec.Meta(max_length=RULES_PER_FRAME)]
    request: RequestNumber = 0


class UnsubscribeRules(msgspec.Struct, frozen=True, tag="unrule"):
    """The opposite."""

    rules: Annotated[list[Rule], msgspec.Meta(max_length=RULES_PER_FRAME)]
    request: RequestNumber = 0


class Serve(msgspec.Struct, frozen=True, tag="serve"):
    """From now on, this client answers requests under these prefixes."""

    prefixes: list[str]
    request: RequestNumber = 0


class Unserve(msgspec.Struct, frozen=True, tag="unserve"):
    """The opposite."""

    prefixes: list[str]
    request: RequestNumber = 0


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """A service name is claimed."""

    name: str
    labels: Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)] = ()
    queue: bool = False
    """Whether to wait where somebody else owns it."""
    request: RequestNumber = 0


class Release(msgspec.Struct, frozen=True, tag="release"):
    """The opposite."""

    name: str
    request: RequestNumber = 0


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Are you there?"""

    request: RequestNumber = 0


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """A piece of the journal is asked for, see `peers.wire.records.Fetch`."""

    request: _FetchNumber
    start: _Offset = 0
    time_ms: Annotated[float, msgspec.Meta(ge=0.0, le=_LATEST_MS)] | None = None
    """ms since 1970 UTC; fractions are µs."""
    end: _Offset | None = None
    prefixes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=PREFIXES_LIMIT)] = ("",)
    bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """None for what suits the encoding."""
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=FETCH_WAIT_LIMIT_MS)] = 0


class Publication(NamedTuple):
    """Messages to publish, as one MESSAGES frame."""

    frame: bytes
    routing_key: bytes
    messages: int
    request: int
    confirm: bool = False
    """Whether the publisher wants to know their offset in the journal."""

    @property
    def batch(self) -> Batch:
        """The same as a batch."""
        return Batch(self.frame, self.messages)


ClientMessage = (
    Hello
    | Subscribe
    | Unsubscribe
    | SubscribeRules
    | UnsubscribeRules
    | Ping
    | Fetch
    | Publication
    | Request
    | Reply
    | Serve
    | Unserve
    | Claim
    | Release
)


# Hub to client.


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Who answers, and what is granted."""

    hub: str
    name: str
    queue: QueueLimits
    frame: int
    software: str = SOFTWARE
    journal: str | msgspec.UnsetType = msgspec.UNSET
    """Id of the hub's journal, where it has one."""


class Confirmed(msgspec.Struct, frozen=True, tag="confirmed", omit_defaults=True):
    """A request was carried out."""

    request: int
    offset: int | None = None
    """Of a subscription, where there is a journal: everything recorded from here on is delivered, nothing before."""
    text: str = ""
    """Of a claim: "queued" where the name is somebody else's for now."""


class Recorded(msgspec.Struct, frozen=True, tag="recorded"):
    """What was published is in the journal."""

    request: int
    offset: int
    """Of the first of the values."""
    count: int


class Dropped(msgspec.Struct, frozen=True, tag="dropped"):
    """So many messages are missing here."""

    count: int


class Error(msgspec.Struct, frozen=True, tag="error", omit_defaults=True):
    """A message of the client's was refused."""

    code: int
    text: str
    request: int = 0
    offset: int | None = None
    """With code 4011: the oldest offset that is retained."""
    about: str = ""
    """The type of that message, where its request may have the number of another one's."""


class NameStanding(msgspec.Struct, frozen=True, tag="name", omit_defaults=True):
    """How a claim to a service name stands now."""

    name: str
    standing: str
    """"owned", "queued" or "lost"."""
    text: str = ""
    """Why."""


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """Answer to a ping."""

    request: int


HubMessage = Welcome | Confirmed | Recorded | Dropped | Error | NameStanding | Pong


class RefusedError(RejectedError):
    """One message is refused.

    Attributes:
        request: The number that it bore, 0 for none.
        messages: How many values it wanted to publish, 0 if that is not known.
        about: Its type, where the client must be told: of a `request`, whose numbers are in a space of their own.
    """

    def __init__(self, code: int, text: str, request: int = 0, messages: int = 0, about: str = "") -> None:
        super().__init__(code, text)
        self.about = about if about == "request" else ""
        self.request = request
        self.messages = messages
