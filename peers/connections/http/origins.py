"""Which web pages may connect: the check of the `Origin` header (cross-site WebSocket hijacking).

A browser lets every page open a WebSocket to every host, even to the machine that it runs on, and says in `Origin`
where the page is from. Programs send no `Origin`. These connections are allowed:

| Origin | listener on loopback | on another address |
|---|---|---|
| none (a program) | yes | yes |
| one of `websocket.origins` | yes | yes |
| the hub's own page: same host and port as in `Host` | if the host is known | if the host is known |
| a page on this machine, any port | yes | no |
| anything else, `null`, several | no | no |

`peers.connections.http.hosts` says which hosts are known. This matters because a foreign name can be made to point here
(DNS rebinding), and then `Origin` equals `Host`. No state, no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from hub.topics import printable
from peers.connections.http.hosts import Host, is_loopback

__all__ = ["refusal"]

_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^\s/?#@\[\]:\\]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def refusal(
    origins: Sequence[str], host: Host, allowed: Collection[str], *, loopback: bool, is_host_known: bool
) -> str:
    """Return why a page may not connect, an empty text if it may.

    Args:
        origins: Every `Origin` header of the request.
        host: What its `Host` header names.
        allowed: The setting `websocket.origins`.
        loopback: Whether the listener is bound to a loopback address.
        is_host_known: Whether `host` is known to be a name of this hub.
    """
    if not origins:
        return ""
    if len(origins) > 1:
        return "several Origin headers"
    origin = origins[0]
    page = _ORIGIN.fullmatch(origin)
    if origin in allowed or (page is not None and loopback and is_loopback(page[2])):
        return ""
    if page is not None and _is_at(page, host):
        if is_host_known:
            return ""
        name = printable(host.name)
        return f"host {name} is not known to be this hub; to allow it, add it to the setting websocket.hosts"
    return f"origin {printable(origin)} may not connect; to allow it, add it to the setting websocket.origins"


def _is_at(page: re.Match[str], host: Host) -> bool:
    """Tell whether a page has come from that host and port."""
    scheme, name, port = page.groups()
    default = _DEFAULT_PORTS[scheme]
    ours = default if host.port is None else host.port
    return name.removesuffix(".") == host.name and ours == int(port or default)
