"""The messages of `hub.v1.json` and `hub.v1.msgpack`, see docs/websocket.md, as typed values.

Their two encodings are in `peers.websocket.codec`, which also makes a frame of the hub's own of what is published.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hub.errors import RejectedError
from hub.journal.layout import COLUMNS, Column
from hub.names.grammar import LABELS_LIMIT
from hub.overflow import QueueLimits
from peers.verbs.verbs import Verb
from peers.wire.control import PREFIXES_LIMIT
from peers.wire.hello import SOFTWARE, QueueWish
from peers.wire.records import FETCH_WAIT_LIMIT_MS, HUB_LIMIT_BYTES
from peers.wire.rules import RULES_PER_FRAME
from peers.wire.token import Renewal

RequestNumber = Annotated[int, msgspec.Meta(ge=0)]
"""A number that the client chooses; 0 means that it wants no confirmation."""

Labels = Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)]
"""Labels, of which only the number has been checked."""

_FetchNumber = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
"""The request number of a `fetch`, which must have one; 32 bits, as it goes on to a reader process in a frame."""

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

_LATEST_MS = 1e16
"""The latest time that may be asked for. It is later than any record, and so asks for the end of the journal."""


# Client to hub.


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The client says its name, which queue it wishes for, and who it is."""

    name: str = ""
    queue: QueueWish | None = None
    token: str = ""
    """It is in no representation."""
    narrow: bool = False
    """Whether a subscription to more than it may see is taken, for the part that it may see, and not refused."""

    def __repr__(self) -> str:
        return f"Hello(name={self.name!r}, queue={self.queue!r})"


class Token(msgspec.Struct, frozen=True, tag="token"):
    """The client shows a fresh token, in place of one that ends, see `peers.wire.token`."""

    token: str
    request: RequestNumber = 0

    def __repr__(self) -> str:
        return f"Token(request={self.request})"


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe"):
    """The client wants messages under these prefixes from now on."""

    prefixes: list[str]
    request: RequestNumber = 0


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe"):
    """The client wants no more messages under these prefixes."""

    prefixes: list[str]
    request: RequestNumber = 0


class Rule(msgspec.Struct, frozen=True):
    """The labels, the prefix and the sender that messages must have, see `hub.tags.rules`."""

    labels: Labels = ()
    prefix: str = ""
    sender: str = ""


class SubscribeRules(msgspec.Struct, frozen=True, tag="rule"):
    """The client wants messages that match one of these rules from now on."""

    rules: Annotated[list[Rule], msgspec.Meta(max_length=RULES_PER_FRAME)]
    request: RequestNumber = 0


class UnsubscribeRules(msgspec.Struct, frozen=True, tag="unrule"):
    """The client gives these rules up."""

    rules: Annotated[list[Rule], msgspec.Meta(max_length=RULES_PER_FRAME)]
    request: RequestNumber = 0


class Serve(msgspec.Struct, frozen=True, tag="serve"):
    """The client answers requests under these prefixes from now on."""

    prefixes: list[str]
    request: RequestNumber = 0


class Unserve(msgspec.Struct, frozen=True, tag="unserve"):
    """The client answers no more requests under these prefixes."""

    prefixes: list[str]
    request: RequestNumber = 0


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """The client claims a service name."""

    name: str
    labels: Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)] = ()
    queue: bool = False
    """Whether to wait if somebody else owns the name."""
    request: RequestNumber = 0


class Release(msgspec.Struct, frozen=True, tag="release"):
    """The client gives up a service name, or stops waiting for it."""

    name: str
    request: RequestNumber = 0


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """The client asks whether the hub is there; the answer is a `Pong`."""

    request: RequestNumber = 0


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """The client asks for a piece of the journal, see `peers.wire.records.Fetch`."""

    request: _FetchNumber
    start: _Offset = 0
    time_ms: Annotated[float, msgspec.Meta(ge=0.0, le=_LATEST_MS)] | None = None
    """A time in ms since 1970 UTC, with fractions down to µs, in place of `start`."""
    end: _Offset | None = None
    prefixes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=PREFIXES_LIMIT)] = ("",)
    bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How much one answer holds; None for the default of the encoding."""
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=FETCH_WAIT_LIMIT_MS)] = 0
    hub: Annotated[str, msgspec.Meta(max_length=HUB_LIMIT_BYTES)] = ""
    journal: Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{32})?\Z")] | None = None
    """The id of the journal in hexadecimal digits, or empty: see `peers.wire.records.Fetch`."""
    columns: Annotated[tuple[Column, ...], msgspec.Meta(max_length=len(COLUMNS))] | None = None
    """What of each record is wanted; None for all of it."""
    epoch: _Offset = 0
    """The epoch in which `start` was told: see `peers.wire.records.Fetch`."""


ClientMessage = Hello | Renewal | Ping | Verb
"""Everything that a client may say, as the hub takes it."""


# Hub to client.


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The hub says its name, and what it grants the client."""

    hub: str
    name: str
    queue: QueueLimits
    frame: int
    software: str = SOFTWARE
    journal: str | msgspec.UnsetType = msgspec.UNSET
    """The id of the hub's journal; left out if the hub has none."""
    until: float | msgspec.UnsetType = msgspec.UNSET
    """How many seconds are left before what the client has shown for who it is ends; left out for never."""
    user: str | msgspec.UnsetType = msgspec.UNSET
    """Who the client is; left out before that is known, and where nobody is asked."""
    strangers: str | msgspec.UnsetType = msgspec.UNSET
    """The role of those who show nothing; left out where they are not let in, and where nobody is asked."""


class Confirmed(msgspec.Struct, frozen=True, tag="confirmed", omit_defaults=True):
    """A request was carried out."""

    request: int
    offset: int | None = None
    """For a subscription to a hub with a journal: everything recorded from here on is delivered, nothing before."""
    text: str = ""
    """For a claim: "queued" if somebody else owns the name for now."""
    until: float | None = None
    """For a fresh token: how many seconds are left before it ends; left out for never."""


class Recorded(msgspec.Struct, frozen=True, tag="recorded"):
    """Values that were published are in the journal."""

    request: int
    offset: int
    """The offset of the first of these values."""
    count: int


class Dropped(msgspec.Struct, frozen=True, tag="dropped"):
    """Here, in the order of messages, `count` of them are missing."""

    count: int


class Error(msgspec.Struct, frozen=True, tag="error", omit_defaults=True):
    """A message of the client was refused."""

    code: int
    text: str
    request: int = 0
    offset: int | None = None
    """With code 4011: the oldest offset that is retained."""
    about: str = ""
    """The type of the refused message, if messages of another type may bear the same request number."""


class NameStanding(msgspec.Struct, frozen=True, tag="name", omit_defaults=True):
    """The new standing of a claim to a service name."""

    name: str
    standing: str
    """"owned", "queued" or "lost"."""
    text: str = ""
    """Why the standing has changed."""


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """The answer to a `Ping`."""

    request: int


HubMessage = Welcome | Confirmed | Recorded | Dropped | Error | NameStanding | Pong


class RefusedError(RejectedError):
    """One message is refused.

    Attributes:
        request: The number of the message, 0 for none.
        messages: How many values it wanted to publish, 0 if that is not known.
        about: "request" for a message of that type, whose numbers have nothing to do with those of others; else empty.
    """

    def __init__(self, code: int, text: str, request: int = 0, messages: int = 0, about: str = "") -> None:
        super().__init__(code, text)
        self.about = about if about == "request" else ""
        self.request = request
        self.messages = messages
