"""`Settings`: everything that can be set on a hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hub.limits import Overflow, QueueLimits, RequestLimits
from hub.settings.ranges import LIVE, NAME_BYTES, PRINTABLE, SMALLEST_QUEUE_BYTES, TIB, Url, between
from hub.settings.sections import (
    AccessSettings,
    DrainSettings,
    HttpSettings,
    JournalSettings,
    Limits,
    LogSettings,
    MeshSettings,
    NamesSettings,
    QueueMaximum,
    QuotaSettings,
    SharedMemorySettings,
    StoresSettings,
    TlsSettings,
    UnixSettings,
    WebSocketSettings,
    ZeekSettings,
)

# A billion messages or a tebibyte is no bound that anybody means: above it is a slip of the keyboard.
_QueueMessages = Annotated[int, between("messages", 1, 10**9, "Most messages that a queue holds."), LIVE]

_QueueBytes = Annotated[
    int, between("bytes", SMALLEST_QUEUE_BYTES, TIB, "Most memory of the messages in a queue."), LIVE
]

_QueueOverflow = Annotated[
    Overflow,
    Meta(
        description="Dropped when the queue is full: everything and the connection, the oldest, or the newest message."
    ),
    LIVE,
]

_LONGEST_TIMEOUT_S = 86_400.0

_REQUESTS_RANGED: Mapping[str, Any] = {
    "requests.pending": Annotated[
        int, between("requests", 1, 10**9, "Unanswered requests of one client; one more overflows.")
    ],
    "requests.pending_total": Annotated[
        int, between("requests", 1, 10**9, "Unanswered requests in total; one more overflows.")
    ],
    "requests.timeout_s": Annotated[
        float, between("seconds", 0.01, _LONGEST_TIMEOUT_S, "Time for an answer if a request sets none.")
    ],
    "requests.timeout_max_s": Annotated[
        float,
        between("seconds", 0.01, _LONGEST_TIMEOUT_S, "Longest time that a request may ask for; more is cut to it."),
    ],
}


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
        Meta(min_length=1, description="URLs of the listeners.", extra={"unit": "URLs such as 'tcp://127.0.0.1:7400'"}),
    ] = ("tcp://127.0.0.1:7400", "ws://127.0.0.1:7401")
    peers: Annotated[
        tuple[Url, ...],
        Meta(
            description="Hubs that this one dials, and dials again when a link is lost.",
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
