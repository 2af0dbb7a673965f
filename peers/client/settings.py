"""What can be set on a client: the keyword arguments of `connect`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

from hub.errors import PeerError, UsageError
from peers.client.publications import BUFFER_BYTES
from peers.client.token_source import Token, checked
from peers.client.values import BadMessage
from peers.transport.backoff import Backoff
from peers.transport.liveness import PING_AFTER_S, PING_TIMEOUT_S
from peers.wire.hello import NAME_LIMIT_BYTES, Hello, QueueWish

__all__ = ["PREFETCH", "STREAM_BYTES", "ClientSettings", "Options", "ignore"]

STREAM_BYTES = 1024 * 1024
"""Default of what a stream holds before its client stops reading: four reads of the most that asyncio reads at once."""

PREFETCH = 256
"""Default of how many messages of a named consumer a client has that are not acknowledged."""

CONNECT_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 5.0

RING_BYTES = 64 * 1024 * 1024
"""Default of the segment that blocks come from: a second of a camera's pictures, and a quarter of what a hub takes."""

LEASE_S = 1.0
"""Default of how long a reader may hold a block that its publisher needs."""


class Options(TypedDict, total=False):
    """Keyword arguments of `connect`, all optional.

    Attributes:
        name: For people: logs of the hub, `hub top`. At most 64 bytes.
        token: What is shown to the hub for who this client is; or a function, plain or async, that gives it: for each
            connection, and again before the proof ends in one that goes on. A plain one must be quick.
        narrow: Whether a subscription to more than this client may see is taken, for the part that it may see. If not,
            it is refused.
        origins: Whether messages say in `origin` by which hub they have entered the mesh. Hubs tell it over TCP and
            Unix sockets, and not of what is in their journals.
        ca: Over TLS, the PEM file of the authorities that may vouch for the hub; the system's where left out.
        certificate: Over TLS, the PEM file of the client's own certificate, for a hub that asks for it.
        key: The PEM file of its key; left out where the certificate's file has it.
        queue: What the hub should hold for this client when it reads too slowly; the hub's default where left out.
        reconnect: Whether a lost connection is made anew, forever. If not, everything that waits raises.
        backoff: How long to wait between attempts; 0.1 s doubling up to 30 s, with full jitter.
        buffer_bytes: Most that is published and not yet sent.
        stream_bytes: What a stream holds, unread, before the client stops reading from the hub.
        connect_timeout_s: For connecting and for the hub's answer, each.
        close_timeout_s: When the client closes, for sending what is published, and for the hub to have read it, each.
        ping_after_s: Silence after which the hub is asked for a sign of life.
        ping_timeout_s: Time for its answer; then the connection counts as lost.
        shared_memory: Over a Unix socket, whether large values travel as memory instead of bytes.
        views: Whether bytes that come in shared memory are given as a `View`, not copied.
        ring_bytes: Size of the segment that blocks come from; it is made with the first one.
        lease_s: How long a reader may hold a block when its publisher needs the room.
        on_connect: Called with what the hub says of itself, after each connection.
        on_disconnect: Called with the reason after each lost connection.
        on_dropped: Called with a number when the hub tells that so many messages for this client were lost.
        on_cut: Called with the offsets of records that a stream had read, or was to begin behind, and that the journal
            has lost: it goes on with those that have these offsets now.
        on_rejected: Called when the hub refuses messages of this client, or a buffered one is too large for it.
        on_bad_message: Called with what came and was not msgpack.
    """

    name: str
    token: Token
    narrow: bool
    origins: bool
    ca: str
    certificate: str
    key: str
    queue: QueueWish | None
    reconnect: bool
    backoff: Backoff
    buffer_bytes: int
    stream_bytes: int
    connect_timeout_s: float
    close_timeout_s: float
    ping_after_s: float
    ping_timeout_s: float
    shared_memory: bool
    views: bool
    ring_bytes: int
    lease_s: float
    on_connect: Callable[[Hello], object]
    on_disconnect: Callable[[str], object]
    on_dropped: Callable[[int], object]
    on_cut: Callable[[range], object]
    on_rejected: Callable[[PeerError], object]
    on_bad_message: Callable[[BadMessage], object]


def ignore(_: object) -> None:
    """Stand in for a callback that nobody wants."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`Options` with the defaults filled in."""

    name: str = ""
    token: Token = field(default="", repr=False)
    narrow: bool = False
    origins: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""
    queue: QueueWish | None = None
    reconnect: bool = True
    backoff: Backoff | None = None
    buffer_bytes: int = BUFFER_BYTES
    stream_bytes: int = STREAM_BYTES
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    close_timeout_s: float = CLOSE_TIMEOUT_S
    ping_after_s: float = PING_AFTER_S
    ping_timeout_s: float = PING_TIMEOUT_S
    shared_memory: bool = True
    views: bool = False
    ring_bytes: int = RING_BYTES
    lease_s: float = LEASE_S
    on_connect: Callable[[Hello], object] = ignore
    on_disconnect: Callable[[str], object] = ignore
    on_dropped: Callable[[int], object] = ignore
    on_cut: Callable[[range], object] = ignore
    on_rejected: Callable[[PeerError], object] = ignore
    on_bad_message: Callable[[BadMessage], object] = ignore

    def __post_init__(self) -> None:
        """Check what a hub would refuse anyway.

        Raises:
            UsageError: The name or the token is too long, or has no UTF-8 form, so that it cannot be said.
        """
        name_bytes = _size_bytes("name", self.name)
        if name_bytes > NAME_LIMIT_BYTES:
            raise UsageError(f"the client's name has {name_bytes} bytes, the limit is {NAME_LIMIT_BYTES}")
        if not callable(self.token):
            checked(self.token)


def _size_bytes(what: str, text: str) -> int:
    """Return how long a text is in UTF-8.

    Raises:
        UsageError: It has no such form, as half of a surrogate pair has none.
    """
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"the client's {what} is not UTF-8 at character {error.start}") from error
