"""Default settings of a hub, but for what a test is about."""

from __future__ import annotations

from typing import Any

import msgspec

from hub.limits import QueueLimits
from hub.settings.settings import Limits, Settings, WebSocketSettings

__all__ = ["settings_of"]


def settings_of(
    *, queue: QueueLimits | None = None, origins: tuple[str, ...] = (), hosts: tuple[str, ...] = (), **limits: Any
) -> Settings:
    return Settings(
        limits=msgspec.structs.replace(Limits(), **limits),
        queue=queue or QueueLimits(),
        websocket=WebSocketSettings(origins=origins, hosts=hosts),
    )
