"""Which names a browser may have reached this hub by: the check of the `Host` header (DNS rebinding).

The owner of `evil.example` can make that name point at this hub's address. To a browser, a page from there is then of
the same site as the hub: it may read `/metrics`, and its `Origin` equals `Host`. But the browser still tells which name
it asked for, so the hub answers only to names that a stranger cannot have made:

| `Host` | listener on loopback | on another address |
|---|---|---|
| none, in HTTP/1.0 (no browser) | yes | yes |
| an IP address: it is looked up nowhere | yes | yes |
| `localhost`, and names that end in `.localhost` | yes | yes |
| one of `websocket.hosts`, or any if `*` is among them | yes | yes |
| this machine's name, or the one that the hub listens on | yes | yes |
| a name without a dot, or under `local`, `internal`, `home.arpa`: no public name server has them | no | yes |
| any other name | no | no |

A request of HTTP/1.1 without `Host`, with two, or with one that cannot be read, is answered by 400 (RFC 9112, 3.2). No
state, no I/O.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

__all__ = ["ANY_HOST", "Host", "is_known", "is_loopback", "read_host"]

ANY_HOST = "*"
"""If this stands in `websocket.hosts`, the check is off."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^\s/?#@\[\]:\\]{1,253})(?::([0-9]{1,5})?)?")

_PRIVATE_SUFFIXES = (".local", ".internal", ".home.arpa")
"""Names that no public name server has, by RFC 6762, by ICANN's reservation of 2024, and by RFC 8375."""


class Host(NamedTuple):
    """The host that a `Host` header names."""

    name: str
    """The name in lower case, without a dot at its end; an IPv6 address stands in brackets. It is empty if a request of
    HTTP/1.0 has no such header."""
    port: int | None
    """The port; None means the default of the scheme."""


def read_host(hosts: Sequence[str], protocol: str) -> Host | None:
    """Read the `Host` header.

    Args:
        hosts: All `Host` headers of the request.
        protocol: The protocol of the request, such as "HTTP/1.1".

    Returns:
        The host that it names; None if the request must be answered by 400.
    """
    if not hosts and protocol == "HTTP/1.0":
        return Host("", None)
    found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if found is None:
        return None
    name = found[1].lower()
    if name.startswith("[") and _address(name) is None:
        return None
    return Host(name.removesuffix("."), int(found[2]) if found[2] else None)


def is_loopback(name: str) -> bool:
    """Tell whether a name or an address, as `Host.name` has it, always means the machine of whoever uses it."""
    address = _address(name)
    if address is not None:
        return address.is_loopback
    return name == "localhost" or name.endswith(".localhost")


def is_known(name: str, allowed: Collection[str], *, loopback: bool) -> bool:
    """Tell whether a stranger cannot have made the name that a browser asked for.

    Args:
        name: As `Host.name` has it.
        allowed: `websocket.hosts`, and the names that the hub has itself; in lower case.
        loopback: Whether the listener is bound to a loopback address.
    """
    if not name or _address(name) is not None or is_loopback(name):
        return True
    if name in allowed or ANY_HOST in allowed:
        return True
    return not loopback and ("." not in name or name.endswith(_PRIVATE_SUFFIXES))


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name[1:-1] if name.startswith("[") else name)
    except ValueError:
        return None
