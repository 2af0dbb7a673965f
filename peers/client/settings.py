"""The keyword arguments of `connect`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

from hub.errors import PeerError, UsageError
from peers.client.publications import BUFFER_BYTES
from peers.client.token_source import Token, checked
from peers.client.values import BadMessage
from peers.transport.timing import PING_AFTER_S, PING_TIMEOUT_S, Backoff
from peers.wire.hello import NAME_LIMIT_BYTES, Hello, QueueWish

PREFETCH = 256  # Default of how many messages of a named consumer a client has that are not acknowledged


class Options(TypedDict, total=False):
    """Keyword arguments of `connect`, all optional.

    Attributes:
        name: For people: logs of the hub, `hub top`. At most 64 bytes.
        token: Authenticates this client; or a function, plain or async, that returns it: called for each connection,
            and again before the proof of a connection ends. A plain one must be quick.
        narrow: Accept subscriptions to more than this client may see, for the part that it may see. If not, they are
            rejected.
        origins: Whether messages have an `origin`: the hub by which they entered the mesh. Only over TCP and Unix
            sockets, and not for records of journals.
        ca: Over TLS, the PEM file of the authorities that may vouch for the hub; by default those of the system.
        certificate: Over TLS, the PEM file of the client's own certificate, for a hub that asks for it.
        key: The PEM file of its key; not needed if the certificate's file has it.
        queue: The hub's send queue for this client, for when it reads too slowly; by default the hub's.
        reconnect: Whether a lost connection is made again, for ever. If not, all waiting calls raise.
        backoff: Pauses between attempts; 0.1 s doubling up to 30 s, with full jitter.
        buffer_bytes: Limit of publications that are not sent yet, and of requests.
        stream_bytes: Size of the unread messages of a stream at which the client stops reading from the hub.
        connect_timeout_s: For connecting and for the hub's answer, each.
        close_timeout_s: When the client closes, for sending its publications, and for the hub to read them, each.
        ping_after_s: Silence after which the hub is sent a PING.
        ping_timeout_s: Time for its answer; then the connection counts as lost.
        shared_memory: Over a Unix socket, whether large values travel as memory instead of bytes.
        views: Whether bytes in shared memory are given as a `View`, not copied.
        ring_bytes: Size of the segment of blocks; it is made with the first one.
        lease_s: How long a reader may hold a block when its publisher needs the room.
        on_connect: Called with the hub's HELLO, after each connection.
        on_disconnect: Called with the reason after each lost connection.
        on_dropped: Called with a number when the hub has lost so many messages for this client.
        on_cut: Called with the offsets of records that a stream had read, or was to begin behind, and that the journal
            has lost: the stream goes on with the records that have these offsets now.
        on_rejected: Called with the error when the hub rejects messages of this client, or a buffered one is too
            large for it.
        on_bad_message: Called with each message that is not msgpack.
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
    stream_bytes: int = 1024 * 1024  # four reads of the most that asyncio reads at once
    connect_timeout_s: float = 5.0
    close_timeout_s: float = 5.0
    ping_after_s: float = PING_AFTER_S
    ping_timeout_s: float = PING_TIMEOUT_S
    shared_memory: bool = True
    views: bool = False
    ring_bytes: int = 64 * 1024 * 1024  # a second of a camera's pictures, and a quarter of a hub's limit
    lease_s: float = 1.0
    on_connect: Callable[[Hello], object] = ignore
    on_disconnect: Callable[[str], object] = ignore
    on_dropped: Callable[[int], object] = ignore
    on_cut: Callable[[range], object] = ignore
    on_rejected: Callable[[PeerError], object] = ignore
    on_bad_message: Callable[[BadMessage], object] = ignore

    def __post_init__(self) -> None:
        """Raise `UsageError` where the name or the token is too long, or not UTF-8: a hub would reject it anyway."""
        try:
            name_bytes = len(self.name.encode())
        except UnicodeEncodeError as error:
            raise UsageError(f"the client's name is not UTF-8 at character {error.start}") from error
        if name_bytes > NAME_LIMIT_BYTES:
            raise UsageError(f"the client's name has {name_bytes} bytes, the limit is {NAME_LIMIT_BYTES}")
        if not callable(self.token):
            checked(self.token)
