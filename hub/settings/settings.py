"""`Settings`: everything that can be set on a hub, each section from its own file.

Owner of the state: nobody, these are frozen values. The constructors do not check: who builds a `Settings` by hand
vouches for the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hub.limits import RequestLimits
from hub.overflow import Overflow, QueueLimits
from hub.settings.access import AccessSettings, TlsSettings
from hub.settings.journal import JournalSettings
from hub.settings.limits import DrainSettings, Limits
from hub.settings.listeners import HttpSettings, UnixSettings, WebSocketSettings
from hub.settings.mesh import MeshSettings, NamesSettings
from hub.settings.ranges import GIB, KIB, LIVE, MIB, NAME_BYTES, PRINTABLE, SMALLEST_QUEUE_BYTES, TIB, Url, between
from hub.settings.stores import StoresSettings
from hub.settings.zeek import ZeekSettings


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged, and in which form."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe lines that are written."), LIVE
    ] = "info"
    format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="Form of a line; auto is text on a terminal and JSON otherwise."),
        LIVE,
    ] = "auto"
    queue_bytes: Annotated[
        int, between("bytes", 4 * KIB, GIB, "Lines that nobody has read yet; what comes beyond is dropped."), LIVE
    ] = MIB


class SharedMemorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What clients on the same machine may hand over as memory instead of bytes."""

    over_bytes: Annotated[
        int,
        between("bytes", 0, GIB, "Values larger than this travel as shared memory over Unix sockets; 0 for none."),
    ] = 64 * KIB
    descriptors: Annotated[
        int, between("descriptors", 1, 1_000_000, "Open at one time; what comes beyond them is copied.")
    ] = 1024
    client_descriptors: Annotated[
        int, between("descriptors", 1, 1_000_000, "The same for one client: of what it sent, and of what it was sent.")
    ] = 64
    client_bytes: Annotated[
        int, between("bytes", 64 * KIB, TIB, "What a client was sent and has not taken; then its queue fills.")
    ] = 64 * MIB
    segments: Annotated[int, between("segments", 0, 1000, "Segments of blocks that one client may bring.")] = 4
    segment_bytes: Annotated[int, between("bytes", 64 * KIB, TIB, "Largest segment.")] = 256 * MIB


class QuotaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What there is to be shared out among users, where no other key says it; see docs/quotas.md."""

    queued_bytes: Annotated[
        int,
        between("bytes", 0, 16 * TIB, "What may wait for slow clients of all users; 0 is half of the hub's memory."),
    ] = 0
    prefixes: Annotated[
        int, between("prefixes", 0, 10**9, "Prefixes of all users together; 0 is one for each 8 KiB of the memory.")
    ] = 0
    rules: Annotated[
        int, between("rules", 0, 10**9, "Rules of all users together; 0 is one for each 16 KiB of the memory.")
    ] = 0
    services: Annotated[
        int, between("prefixes", 0, 10**9, "Prefixes that users serve; 0 is one for each 16 KiB of the memory.")
    ] = 0


# A billion messages or a tebibyte is no bound that anybody means: above it is a slip of the keyboard.
_QueueMessages = Annotated[int, between("messages", 1, 10**9, "Most messages that a queue holds."), LIVE]

_QueueBytes = Annotated[
    int, between("bytes", SMALLEST_QUEUE_BYTES, TIB, "Most memory that the messages in a queue take."), LIVE
]

_QueueOverflow = Annotated[
    Overflow,
    Meta(
        description="What goes when the queue is full: "
        "everything and the connection, the oldest, or the newest message."
    ),
    LIVE,
]

_LONGEST_TIMEOUT_S = 86_400.0

_REQUESTS_RANGED: Mapping[str, Any] = {
    "requests.pending": Annotated[
        int, between("requests", 1, 10**9, "Requests of one client without an answer yet; one more overflows.")
    ],
    "requests.pending_total": Annotated[
        int, between("requests", 1, 10**9, "Requests of all without an answer yet; one more overflows.")
    ],
    "requests.timeout_s": Annotated[
        float, between("seconds", 0.01, _LONGEST_TIMEOUT_S, "Time for an answer where a request does not say it.")
    ],
    "requests.timeout_max_s": Annotated[
        float,
        between("seconds", 0.01, _LONGEST_TIMEOUT_S, "Longest time that a request may ask for; more is cut to it."),
    ],
}


class QueueMaximum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest queue that a client may wish for; a larger wish is granted this much."""

    messages: Annotated[
        int, between("messages", 1, 10**9, "Most messages that a client or a listener's URL may ask for."), LIVE
    ] = 1_000_000
    bytes: Annotated[
        int,
        between("bytes", SMALLEST_QUEUE_BYTES, TIB, "Most memory that a client or a listener's URL may ask for."),
        LIVE,
    ] = 256 * MIB


RANGED: Mapping[str, Any] = {
    "queue.messages": _QueueMessages,
    "queue.bytes": _QueueBytes,
    "queue.overflow": _QueueOverflow,
    **_REQUESTS_RANGED,
}
"""The annotations of keys by their paths."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set on a hub."""

    name: Annotated[
        str,
        Meta(
            pattern=PRINTABLE,
            description="Name shown to clients and peers; empty is the host's name.",
            extra={"most_bytes": NAME_BYTES},
        ),
    ] = ""
    listen: Annotated[
        tuple[Url, ...],
        Meta(min_length=1, description="Where the hub listens.", extra={"unit": "URLs such as 'tcp://127.0.0.1:7400'"}),
    ] = ("tcp://127.0.0.1:7400", "ws://127.0.0.1:7401")
    peers: Annotated[
        tuple[Url, ...],
        Meta(
            description="Hubs that this one connects to, and again whenever the link is lost.",
            extra={"unit": "URLs such as 'tcp://hub.example.org:7400'"},
        ),
    ] = ()
    workers: Annotated[
        int, between("processes", 1, 64, "Processes that serve clients; more than one share the ports of one machine.")
    ] = 1
    queue: QueueLimits = QueueLimits()
    queue_max: QueueMaximum = QueueMaximum()
    limits: Limits = Limits()
    drain: DrainSettings = DrainSettings()
    requests: RequestLimits = RequestLimits()
    websocket: WebSocketSettings = WebSocketSettings()
    http: HttpSettings = HttpSettings()
    tls: TlsSettings = TlsSettings()
    access: AccessSettings = AccessSettings()
    zeek: ZeekSettings = ZeekSettings()
    names: NamesSettings = NamesSettings()
    mesh: MeshSettings = MeshSettings()
    quotas: QuotaSettings = QuotaSettings()
    journal: JournalSettings = JournalSettings()
    stores: StoresSettings = StoresSettings()
    shm: SharedMemorySettings = SharedMemorySettings()
    unix: UnixSettings = UnixSettings()
    log: LogSettings = LogSettings()
