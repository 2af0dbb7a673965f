"""The messages of `hub.v1.json` and `hub.v1.msgpack`, see docs/websocket.md, as typed values."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec

from hub.errors import RejectedError
from hub.journal.layout import COLUMNS, Column
from hub.limits import QueueLimits
from hub.names.claim import LABELS_LIMIT
from peers.commands.commands import Verb
from peers.wire.control import PREFIXES_LIMIT, RULES_PER_FRAME, Renewal
from peers.wire.hello import SOFTWARE, QueueWish
from peers.wire.records import FETCH_WAIT_LIMIT_MS, HUB_LIMIT_BYTES

RequestNumber = Annotated[int, msgspec.Meta(ge=0)]  # a number that the client chooses; 0 for no confirmation

Labels = Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)]
"""Labels, of which only the number has been checked."""

Prefixes = TypeVar("Prefixes")  # a list from JSON, or msgpack that is not looked into yet

_FetchNumber = Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]  # 32 bits: it goes on in a frame

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

_LATEST_MS = 1e16  # the latest time that may be asked for; later than any record


# Client to hub.


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The client's name, its wish for a queue, and its token, which is in no representation."""

    name: str = ""
    queue: QueueWish | None = None
    token: str = ""
    narrow: bool = False  # whether a subscription to more than the client may see is taken for the part that it may see

    def __repr__(self) -> str:
        return f"Hello(name={self.name!r}, queue={self.queue!r})"


class Token(msgspec.Struct, frozen=True, tag="token"):
    """The client shows a fresh token, in place of one that ends."""

    token: str
    request: RequestNumber = 0

    def __repr__(self) -> str:
        return f"Token(request={self.request})"


class Subscribe(msgspec.Struct, Generic[Prefixes], frozen=True, tag="subscribe"):
    """The client subscribes to prefixes."""

    prefixes: Prefixes
    request: RequestNumber = 0


class Unsubscribe(msgspec.Struct, Generic[Prefixes], frozen=True, tag="unsubscribe"):
    """The client gives up prefixes."""

    prefixes: Prefixes
    request: RequestNumber = 0


class Rule(msgspec.Struct, frozen=True):
    """The labels, the prefix and the sender of a rule, see `hub.labels.rules`."""

    labels: Labels = ()
    prefix: str = ""
    sender: str = ""


class SubscribeRules(msgspec.Struct, frozen=True, tag="rule"):
    """The client subscribes by rules."""

    rules: Annotated[list[Rule], msgspec.Meta(max_length=RULES_PER_FRAME)]
    request: RequestNumber = 0


class UnsubscribeRules(msgspec.Struct, frozen=True, tag="unrule"):
    """The client gives up rules."""

    rules: Annotated[list[Rule], msgspec.Meta(max_length=RULES_PER_FRAME)]
    request: RequestNumber = 0


class Serve(msgspec.Struct, Generic[Prefixes], frozen=True, tag="serve"):
    """The client answers requests under prefixes."""

    prefixes: Prefixes
    request: RequestNumber = 0


class Unserve(msgspec.Struct, Generic[Prefixes], frozen=True, tag="unserve"):
    """The client answers no more requests under prefixes."""

    prefixes: Prefixes
    request: RequestNumber = 0


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """The client claims a service name."""

    name: str
    labels: Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)] = ()
    queue: bool = False  # whether to wait if another client owns the name
    request: RequestNumber = 0


class Release(msgspec.Struct, frozen=True, tag="release"):
    """The client gives up a service name, or stops waiting for it."""

    name: str
    request: RequestNumber = 0


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """The client asks for a `Pong`."""

    request: RequestNumber = 0


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """The client asks for a piece of the journal, see `peers.wire.records.Fetch`."""

    request: _FetchNumber
    start: _Offset = 0
    time_ms: Annotated[float, msgspec.Meta(ge=0.0, le=_LATEST_MS)] | None = None  # since 1970
    end: _Offset | None = None
    prefixes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=PREFIXES_LIMIT)] = ("",)
    bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None  # size of one answer; None for the default of the encoding
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=FETCH_WAIT_LIMIT_MS)] = 0
    hub: Annotated[str, msgspec.Meta(max_length=HUB_LIMIT_BYTES)] = ""
    journal: Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{32})?\Z")] | None = None
    columns: Annotated[tuple[Column, ...], msgspec.Meta(max_length=len(COLUMNS))] | None = None
    epoch: _Offset = 0


ClientMessage = Hello | Renewal | Ping | Verb  # everything that a client may say, as the hub takes it


# Hub to client.


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The hub says its name, and the client's limits."""

    hub: str
    name: str
    queue: QueueLimits
    frame: int
    software: str = SOFTWARE
    journal: str | msgspec.UnsetType = msgspec.UNSET  # the id of the hub's journal, if it has one
    until: float | msgspec.UnsetType = msgspec.UNSET  # proof's seconds; left out: for ever
    user: str | msgspec.UnsetType = msgspec.UNSET  # left out where it is unknown
    anonymous: str | msgspec.UnsetType = msgspec.UNSET  # role of clients without a token


class Confirmed(msgspec.Struct, frozen=True, tag="confirmed", omit_defaults=True):
    """A request was carried out."""

    request: int
    offset: int | None = None  # of a subscription: all records from here on are delivered
    text: str = ""  # for a claim: "queued" if another client owns the name for now
    until: float | None = None  # for a fresh token: seconds before it ends; left out for never


class Recorded(msgspec.Struct, frozen=True, tag="recorded"):
    """Published values are in the journal."""

    request: int
    offset: int  # of the first value
    count: int


class Dropped(msgspec.Struct, frozen=True, tag="dropped"):
    """Messages are missing here."""

    count: int


class Error(msgspec.Struct, frozen=True, tag="error", omit_defaults=True):
    """A message of the client was rejected."""

    code: int
    text: str
    request: int = 0
    offset: int | None = None  # with code 4011: the oldest offset that is retained
    about: str = ""  # "request" if that message was rejected, whose numbers have nothing to do with those of others


class NameStanding(msgspec.Struct, frozen=True, tag="name", omit_defaults=True):
    """The new standing of a claim to a service name."""

    name: str
    standing: str
    text: str = ""


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """The answer to a `Ping`."""

    request: int


HubMessage = Welcome | Confirmed | Recorded | Dropped | Error | NameStanding | Pong


class RefusedError(RejectedError):
    """One message is rejected.

    Attributes:
        request: The number of the message, 0 for none.
        messages: Number of values to publish, 0 if that is not known.
        about: "request" for a message of that type, whose numbers have nothing to do with those of others; else empty.
    """

    def __init__(self, code: int, text: str, request: int = 0, messages: int = 0, about: str = "") -> None:
        super().__init__(code, text)
        self.about = about if about == "request" else ""
        self.request = request
        self.messages = messages
