"""What every shell asks of an asyncio transport: who is at the other end, and a stand-in before there is one."""

from __future__ import annotations

import asyncio

__all__ = ["NO_TRANSPORT", "far_address"]


class _NoTransport(asyncio.Transport):
    """Stands in before `connection_made`: closed, so that nobody writes to it."""

    def is_closing(self) -> bool:
        return True


NO_TRANSPORT = _NoTransport()


def far_address(transport: asyncio.BaseTransport) -> str:
    """Where the far side is, for people: `127.0.0.1:50000`, `[::1]:50000`, or the path of a Unix socket."""
    name = transport.get_extra_info("peername")
    if isinstance(name, tuple):
        host = f"[{name[0]}]" if ":" in name[0] else name[0]
        return f"{host}:{name[1]}"
    return f"unix:{transport.get_extra_info('sockname') or ''}"
