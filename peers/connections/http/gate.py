"""`refused` and `foreign` check the `Host` and `Origin` headers of every HTTP request before anything else."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import NamedTuple

from websockets.http11 import Request

from hub.settings.settings import WebSocketSettings
from hub.topics import printable
from peers.connections.http.answers import path_of
from peers.server.server import Server

_FOR_ANY_HOST = frozenset({"/healthz", "/readyz"})
"""Paths that are answered under any host: load balancers use names of their own."""

_ONE_HOST = "a request needs one Host header that names a host"


class Refused(NamedTuple):
    """The answer to a request that is refused."""

    status: HTTPStatus
    text: str


def refused(
    request: Request,
    settings: WebSocketSettings,
    names: Collection[str],
    *,
    loopback: bool,
    is_websocket: bool,
) -> Refused | None:
    """Check a request; return the answer that refuses it, or None.

    Args:
        request: The request.
        settings: The hosts and origins that are allowed.
        names: Further names of this hub, in lower case.
        loopback: Whether the listener is bound to a loopback address.
        is_websocket: Whether its path is one for WebSockets. Programs may use any name for these, and pages are checked
            by their origin.
    """
    headers = request.headers
    host = read_host(headers.get_all("Host"), request.protocol)
    if host is None:
        return Refused(HTTPStatus.BAD_REQUEST, _ONE_HOST)
    known = is_known(host.name, {*settings.hosts, *names}, loopback=loopback)
    if is_websocket:
        text = refusal(headers.get_all("Origin"), host, settings.origins, loopback=loopback, is_host_known=known)
        return Refused(HTTPStatus.FORBIDDEN, text) if text else None
    if known or path_of(request) in _FOR_ANY_HOST:
        return None
    return _misdirected(host)


def foreign(request: Request, server: Server, *, loopback: bool, any_host: bool) -> Refused | None:
    """Check a request to publish, or for events; return the answer that refuses it, or None.

    A browser sends `Origin` when a page publishes, or asks another hub than its own, but not when it follows events of
    its own hub. Then the host must be known, or a token recognised: a page that has made its own name point here knows
    none. A hub without users recognises none.

    Args:
        request: The request.
        node: The hub.
        loopback: Whether the listener is bound to a loopback address.
        any_host: Whether no name can have been made to point here.
    """
    headers, settings = request.headers, server.settings.websocket
    host = read_host(headers.get_all("Host"), request.protocol)
    if host is None:
        return Refused(HTTPStatus.BAD_REQUEST, _ONE_HOST)
    known = any_host or is_known(host.name, {*settings.hosts, *server.host_names}, loopback=loopback)
    origins = headers.get_all("Origin")
    text = refusal(origins, host, settings.origins, loopback=loopback, is_host_known=known)
    if text:
        return Refused(HTTPStatus.FORBIDDEN, text)
    if known or origins or (headers.get_all("Authorization") and not server.access.is_open):
        return None
    return _misdirected(host)


def _misdirected(host: Host) -> Refused:
    text = f"this hub is not known as {printable(host.name)}; to allow it, add it to the setting websocket.hosts"
    return Refused(HTTPStatus.MISDIRECTED_REQUEST, text)


# The token in the `Authorization` headers of a request (RFC 6750). No state.


CHALLENGE = {"WWW-Authenticate": 'Bearer realm="hub"'}

_SCHEME = "bearer "


def bearer(headers: Sequence[str]) -> str:
    """Return the token in `Authorization` headers (RFC 6750); empty if there are none.

    Anything but a single `Bearer` with a token is returned as a text that no token is: a wrong proof is not no proof.
    """
    if not headers:
        return ""
    shown = ", ".join(headers)
    if shown[: len(_SCHEME)].lower() != _SCHEME:
        return f" {shown}"
    return shown[len(_SCHEME) :].strip() or " "


# Which names a browser may have reached this hub by: the check of the `Host` header (DNS rebinding).


ANY_HOST = "*"
"""If this stands in `websocket.hosts`, the check is off."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^\s/?#@\[\]:\\]{1,253})(?::([0-9]{1,5})?)?")

_PRIVATE_SUFFIXES = (".local", ".internal", ".home.arpa")
"""Names that no public name server has: RFC 6762, ICANN's reservation of 2024, RFC 8375."""


class Host(NamedTuple):
    """A `Host` header."""

    name: str
    """In lower case, without a dot at its end; an IPv6 address in brackets. Empty if HTTP/1.0 has no such header."""
    port: int | None
    """None for the default of the scheme."""


def read_host(hosts: Sequence[str], protocol: str) -> Host | None:
    """Read the `Host` header; return None if the request must be answered by 400."""
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
    """Return whether `Host.name` always means the machine of its user."""
    address = _address(name)
    if address is not None:
        return address.is_loopback
    return name == "localhost" or name.endswith(".localhost")


def is_known(name: str, allowed: Collection[str], *, loopback: bool) -> bool:
    """Return whether no stranger can have made the name that a browser asked for (DNS rebinding).

    Args:
        name: As `Host.name`.
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


# Which web pages may connect: the check of the `Origin` header (cross-site WebSocket hijacking).


_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^\s/?#@\[\]:\\]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def refusal(
    origins: Sequence[str], host: Host, allowed: Collection[str], *, loopback: bool, is_host_known: bool
) -> str:
    """Return why a page may not connect, empty if it may (cross-site WebSocket hijacking).

    Args:
        origins: Every `Origin` header of the request.
        host: Its `Host` header.
        allowed: The setting `websocket.origins`.
        loopback: Whether the listener is bound to a loopback address.
        is_host_known: Whether `host` is a name of this hub.
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
    """Return whether a page has come from that host and port."""
    scheme, name, port = page.groups()
    default = _DEFAULT_PORTS[scheme]
    ours = default if host.port is None else host.port
    return name.removesuffix(".") == host.name and ours == int(port or default)
