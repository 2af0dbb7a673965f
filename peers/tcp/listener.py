"""Listening on TCP and Unix sockets.

Errors of the operating system become one `ListenError` that names the place and what to do.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import stat
from collections.abc import Callable
from pathlib import Path

from hub.errors import UsageError
from peers.endpoints import Endpoint, Scheme

__all__ = ["BACKLOG", "TLS_HANDSHAKE_S", "ListenError", "bind"]

BACKLOG = 1024
"""Connections that may wait to be accepted; a thousand clients that reconnect at once are no error."""


TLS_HANDSHAKE_S = 5.0
"""Time for the TLS handshake, seconds; the connection's own handshake has its limit behind it."""


class ListenError(UsageError):
    """An address cannot be listened on."""


async def bind(
    endpoint: Endpoint,
    make: Callable[[], asyncio.BaseProtocol],
    loop: asyncio.AbstractEventLoop,
    tls: ssl.SSLContext | None = None,
) -> tuple[asyncio.Server, Endpoint]:
    """Listen on `endpoint`.

    Args:
        endpoint: Where; port 0 picks one.
        make: Called for each connection, returns its protocol.
        loop: The loop to run on.
        tls: The context for TLS, None without.

    Returns:
        The server, and the endpoint with the port that was picked.

    Raises:
        ListenError: In use, not permitted, no such address.
    """
    try:
        if endpoint.scheme is Scheme.UNIX:
            _make_way(endpoint)
            server = await loop.create_unix_server(make, endpoint.path, backlog=BACKLOG)
            return server, endpoint
        server = await loop.create_server(
            make,
            endpoint.host,
            endpoint.port,
            backlog=BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=TLS_HANDSHAKE_S if tls is not None else None,
        )
    except (OSError, UnicodeError) as error:  # a name that no resolver takes is a UnicodeError
        raise ListenError(f"cannot listen on {endpoint.location}: {_cause(endpoint, error)}") from error
    port: int = server.sockets[0].getsockname()[1]
    return server, endpoint.with_port(port)


def _make_way(endpoint: Endpoint) -> None:
    """Remove a socket that a dead process has left; never one that answers, never a file."""
    path = Path(endpoint.path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"cannot listen on {endpoint.location}: there is a file that is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(endpoint.path)
        except ConnectionRefusedError:
            path.unlink()
            return
    raise ListenError(f"cannot listen on {endpoint.location}: another process listens there")


def _cause(endpoint: Endpoint, error: OSError | UnicodeError) -> str:
    text = (error.strerror if isinstance(error, OSError) else "") or str(error)
    if "in use" in text or "in use" in str(error):
        text = f"port {endpoint.port} is in use by another process; choose another one, or 0 to pick a free one"
    return text
