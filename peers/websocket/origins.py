"""Which web pages may connect: the check of the `Origin` header (cross-site WebSocket hijacking).

A browser lets every page open a WebSocket to every host, this machine's own included, and says in `Origin` where the
page is from. Programs send none. Allowed are:

| Origin | on a loopback listener | on another |
|---|---|---|
| none (a program) | yes | yes |
| one of `websocket.origins` | yes | yes |
| the hub's own page: same host and port as in `Host` | yes, if that is a loopback name | yes |
| a page on this machine, any port | yes | no |
| anything else, `null`, several | no | no |

The own page must be at a loopback name on a loopback listener, because a foreign name can be made to point at it (DNS
rebinding). No state, no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from hub.topics import printable

__all__ = ["refusal"]

_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^\s/?#@\[\]:\\]+)(?::([0-9]{1,5}))?")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s/?#@\[\]:\\]+)(?::([0-9]{1,5}))?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


def refusal(origins: Sequence[str], hosts: Sequence[str], allowed: Collection[str], *, loopback: bool) -> str:
    """Return why a page may not connect, an empty text if it may.

    Args:
        origins: Every `Origin` header of the request.
        hosts: Every `Host` header of the request.
        allowed: The setting `websocket.origins`.
        loopback: Whether the listener is bound to a loopback address.
    """
    if not origins:
        return ""
    if len(origins) > 1:
        return "several Origin headers"
    origin = origins[0]
    if origin in allowed or _is_ours(origin, hosts, loopback=loopback):
        return ""
    return f"origin {printable(origin)} may not connect; to allow it, add it to the setting websocket.origins"


def _is_ours(origin: str, hosts: Sequence[str], *, loopback: bool) -> bool:
    page = _ORIGIN.fullmatch(origin)
    if page is None:
        return False
    scheme, name, port = page.groups()
    if loopback:
        return name in _LOOPBACK
    host = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
    default = _DEFAULT_PORTS[scheme]
    return host is not None and host[1] == name and int(host[2] or default) == int(port or default)
