"""`refused` checks the `Host` and `Origin` headers of every HTTP request before anything else is done with it.

No state, no I/O. Not here: whether there is room for one more connection.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import NamedTuple

from websockets.http11 import Request

from hub.settings.listeners import WebSocketSettings
from hub.topics import printable
from peers.connections.http.answers import path_of
from peers.connections.http.hosts import Host, is_known, read_host
from peers.connections.http.origins import refusal
from peers.node.node import Node

__all__ = ["Refused", "foreign", "refused"]

_FOR_ANY_HOST = frozenset({"/healthz", "/readyz"})
"""Paths that are answered under any host: load balancers use names of their own, and these answers tell a stranger
nothing of value."""

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
    """Check a request.

    Args:
        request: The request as it came.
        settings: They say which hosts and which origins are allowed.
        names: Further names of this hub, in lower case.
        loopback: Whether the listener is bound to a loopback address.
        is_websocket: Whether its path is one for WebSockets. Programs may ask for these by any name, and pages are
            checked by their origin.

    Returns:
        The answer that refuses the request; None if it may be answered.
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


def foreign(request: Request, node: Node, *, loopback: bool, any_host: bool) -> Refused | None:
    """Check a request to publish, or for events.

    A page says where it is from when it publishes, or asks another hub than its own. When it follows events of its own
    hub, it does not; then it is the host that shows whether that is this hub, unless a token is shown and has to be
    recognised: a page that has made its own name point here knows none. A hub without users recognises none.

    Args:
        request: The request as it came.
        node: The hub.
        loopback: Whether the listener is bound to a loopback address.
        any_host: Whether nobody can have made a name point here.

    Returns:
        The answer that refuses the request; None if it may be answered.
    """
    headers, settings = request.headers, node.settings.websocket
    host = read_host(headers.get_all("Host"), request.protocol)
    if host is None:
        return Refused(HTTPStatus.BAD_REQUEST, _ONE_HOST)
    known = any_host or is_known(host.name, {*settings.hosts, *node.host_names}, loopback=loopback)
    origins = headers.get_all("Origin")
    text = refusal(origins, host, settings.origins, loopback=loopback, is_host_known=known)
    if text:
        return Refused(HTTPStatus.FORBIDDEN, text)
    if known or origins or (headers.get_all("Authorization") and not node.access.is_open):
        return None
    return _misdirected(host)


def _misdirected(host: Host) -> Refused:
    text = f"this hub is not known as {printable(host.name)}; to allow it, add it to the setting websocket.hosts"
    return Refused(HTTPStatus.MISDIRECTED_REQUEST, text)
