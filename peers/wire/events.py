"""The events of a session: `Event` is any of them.

Most are the decoded body of one frame and stand beside its layout, as `Notice` does in `peers.wire.control`.
"""

from __future__ import annotations

from typing import NamedTuple

from hub.mesh.announcement import Digest, Wanted
from hub.messages.frame import Frame, Origin
from hub.messages.request_frame import Reply, Request
from peers.wire.control import Account, NameClaim, NameRelease, Notice, Renewal, RuleChange
from peers.wire.hello import Hello
from peers.wire.records import Commit, Fetch, Records, Stage
from peers.wire.routing import AnnouncementPart
from peers.wire.shared import Released, Segment, SharedMessages


class SubscriptionChange(NamedTuple):
    """The far side subscribes or unsubscribes."""

    subscribe: bool  # true to subscribe, False to unsubscribe
    prefixes: list[str]
    request: int  # the number to confirm, 0 for none


class ServiceChange(NamedTuple):
    """The far side begins or ends serving requests under prefixes."""

    serve: bool  # true to begin, False to end
    prefixes: list[str]
    request: int  # the number to confirm, 0 for none


class Confirmable(NamedTuple):
    """Messages whose publisher asks for their offset in the journal. The flag CONFIRM is cleared."""

    frame: Frame


class Pong(NamedTuple):
    """A peer hub has answered a PING."""

    body: bytes


class Closing(NamedTuple):
    """The session has ended: write the outgoing bytes, then close the transport."""

    code: int
    text: str
    by_far_side: bool


Event = (
    Hello
    | SubscriptionChange
    | ServiceChange
    | RuleChange
    | NameClaim
    | NameRelease
    | Request
    | Reply
    | Notice
    | Confirmable
    | Fetch
    | Records
    | Stage
    | Commit
    | SharedMessages
    | Segment
    | Released
    | Renewal
    | Account
    | Origin
    | Digest
    | Wanted
    | AnnouncementPart
    | Pong
    | Closing
)
