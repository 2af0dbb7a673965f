"""What is set for one kind of listener: Unix sockets, WebSockets, plain HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hub.settings.ranges import GIB, LIVE, TIB, between

__all__ = ["HttpSettings", "UnixSettings", "WebSocketSettings"]

_ORIGIN = r"^(null|[a-z][a-z0-9+.-]*://[^/?#@\s\x00-\x1f\x7fA-Z]+)$"
"""An origin as browsers send it: scheme, host, perhaps a port. Capitals or a slash at its end would never match."""

_HOST_NAME = r"^(\*|[^\s/?#@:\[\]\\\x00-\x1f\x7fA-Z]{1,253})$"
"""A host name as browsers send it, without a port; or `*`."""


class UnixSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may connect to Unix sockets."""

    mode: Annotated[
        str,
        Meta(
            pattern=r"^0?[0-7]{3}$",
            description="Permissions of Unix sockets: who may write may connect; '0660' is owner and group.",
            extra={"most_bytes": 4, "unit": "three octal digits such as '0660'"},
        ),
    ] = "0600"


class WebSocketSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may connect from a browser."""

    origins: Annotated[
        tuple[Annotated[str, Meta(pattern=_ORIGIN)], ...],
        Meta(
            description="Web pages (by origin) that may connect, beside the hub's own page.",
            extra={"unit": "origins such as 'https://example.org'"},
        ),
        LIVE,
    ] = ()
    hosts: Annotated[
        tuple[Annotated[str, Meta(pattern=_HOST_NAME)], ...],
        Meta(
            description="Names that browsers may reach the hub by, beside addresses and private names; `*` is any.",
            extra={"unit": "host names such as 'hub.example.org'"},
        ),
        LIVE,
    ] = ()


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What clients may send over plain HTTP."""

    body_bytes: Annotated[
        int,
        between("bytes", 1, TIB, "Largest body of a POST, of which no more is held than one value or line; then 413."),
        LIVE,
    ] = GIB
