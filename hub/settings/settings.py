"""`Settings`: everything that can be set on a hub, each section from its own file.

Owner of the state: nobody, these are frozen values. The constructors do not check: who builds a `Settings` by hand
vouches for the values.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hub.limits import RequestLimits
from hub.overflow import QueueLimits
from hub.settings.access import AccessSettings, TlsSettings
from hub.settings.journal import JournalSettings
from hub.settings.limits import DrainSettings, Limits
from hub.settings.listeners import HttpSettings, UnixSettings, WebSocketSettings
from hub.settings.log import LogSettings
from hub.settings.mesh import MeshSettings, NamesSettings
from hub.settings.queues import QueueMaximum
from hub.settings.quotas import QuotaSettings
from hub.settings.ranges import NAME_BYTES, PRINTABLE, Url, between
from hub.settings.shm import SharedMemorySettings
from hub.settings.stores import StoresSettings
from hub.settings.zeek import ZeekSettings

__all__ = ["Settings"]


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
