"""`refused` checks the `Host` and `Origin` headers of every HTTP request before anything else is done with it.

No state, no I/O. Not here: whether there is room for one more connection.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import NamedTuple

from websockets.http11 import Request

from hub.settings import WebSocketSettings
from hub.topics import printable
from peers.connections.http.answers import path_of
from peers.connections.http.hosts import is_known, read_host
from peers.connections.http.origins import refusal

__all__ = ["Refused", "refused"]

_FOR_ANY_HOST = frozenset({"/healthz", "/readyz"})
"""Paths that are answered under any host: load balancers use names of their own, and these answers tell a stranger
nothing of value."""


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
        return Refused(HTTPStatus.BAD_REQUEST, "a request needs one Host header that names a host")
    known = is_known(host.name, {*settings.hosts, *names}, loopback=loopback)
    if is_websocket:
        text = refusal(headers.get_all("Origin"), host, settings.origins, loopback=loopback, is_host_known=known)
        return Refused(HTTPStatus.FORBIDDEN, text) if text else None
    if known or path_of(request) in _FOR_ANY_HOST:
        return None
    text = f"this hub is not known as {printable(host.name)}; to allow it, add it to the setting websocket.hosts"
    return Refused(HTTPStatus.MISDIRECTED_REQUEST, text)
