"""Ports for hubs that must know theirs before they start, at random from beneath the range of the kernel."""

from __future__ import annotations

import random
import socket
from pathlib import Path

__all__ = ["free_ports"]
_FIRST = 20_000
_DRAWN_BY_LINUX = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUALLY_DRAWN_FROM = 32_768


def free_ports(count: int) -> list[int]:
    found: set[int] = set()
    end = int(_DRAWN_BY_LINUX.read_text().split()[0]) if _DRAWN_BY_LINUX.exists() else _USUALLY_DRAWN_FROM
    while len(found) < count:
        port = random.randrange(_FIRST, max(end, _FIRST + 1_000))  # noqa: S311 -- nothing secret
        if port not in found and _is_free(port):
            found.add(port)
    return list(found)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
