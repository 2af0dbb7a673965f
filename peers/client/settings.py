"""The keyword arguments of `connect`."""

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

STREAM_BYTES = 1024 * 1024
"""Default: four reads of the most that asyncio reads at once."""

PREFETCH = 256
"""Default of how many messages of a named consumer a client has that are not acknowledged."""

CONNECT_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 5.0

RING_BYTES = 64 * 1024 * 1024
"""Default of the segment of blocks: a second of a camera's pictures, and a quarter of what a hub takes."""

LEASE_S = 1.0
"""Default of how long a reader may hold a block that its publisher needs."""


class Options(TypedDict, total=False):
    """Keyword arguments of `connect`, all optional.

    Attributes:
        name: For people: logs of the hub, `hub top`. At most 64 bytes.
        token: Authenticates this client; or a function, plain or async, that returns it: called for each connection,
            and again before the proof of a connection ends. A plain one must be quick.
        narrow: Accept subscriptions to more than this client may see, for the part that it may see. If not, they are
            rejected.
        origins: Whether messages tell in `origin` by which hub they have entered the mesh. Hubs tell it over TCP and
            Unix sockets, and not for records of their journals.
        ca: Over TLS, the PEM file of the authorities that may vouch for the hub; by default those of the system.
        certificate: Over TLS, the PEM file of the client's own certificate, for a hub that asks for it.
        key: The PEM file of its key; not needed if the certificate's file has it.
        queue: The hub's send queue for this client, for when it reads too slowly; by default the hub's.
        reconnect: Whether a lost connection is made again, for ever. If not, everything that waits raises.
        backoff: Pauses between attempts; 0.1 s doubling up to 30 s, with full jitter.
        buffer_bytes: Most that is published and not yet sent.
        stream_bytes: What a stream holds, unread, before the client stops reading from the hub.
        connect_timeout_s: For connecting and for the hub's answer, each.
        close_timeout_s: When the client closes, for sending what is published, and for the hub to have read it, each.
        ping_after_s: Silence after which the hub is sent a PING.
        ping_timeout_s: Time for its answer; then the connection counts as lost.
        shared_memory: Over a Unix socket, whether large values travel as memory instead of bytes.
        views: Whether bytes that come in shared memory are a `View`, not copied.
        ring_bytes: Size of the segment of blocks; it is made with the first one.
        lease_s: How long a reader may hold a block when its publisher needs the room.
        on_connect: Called with the hub's HELLO, after each connection.
        on_disconnect: Called with the reason after each lost connection.
        on_dropped: Called with a number when the hub has lost so many messages for this client.
        on_cut: Called with the offsets of records that a stream had read, or was to begin behind, and that the journal
            has lost: it goes on with those that have these offsets now.
        on_rejected: Called when the hub rejects messages of this client, or a buffered one is too large for it.
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
    """The default of callbacks."""


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
            UsageError: The name or the token is too long, or is not UTF-8.
        """
        name_bytes = _size_bytes("name", self.name)
        if name_bytes > NAME_LIMIT_BYTES:
            raise UsageError(f"the client's name has {name_bytes} bytes, the limit is {NAME_LIMIT_BYTES}")
        if not callable(self.token):
            checked(self.token)


def _size_bytes(what: str, text: str) -> int:
    """Return the length of a text in UTF-8; raise `UsageError` for half of a surrogate pair."""
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"the client's {what} is not UTF-8 at character {error.start}") from error
