"""What every shell asks of an asyncio transport: who is at the other end, the end of writing, and a stand-in."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["NO_TRANSPORT", "end_writing", "far_address"]


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


def end_writing(transport: asyncio.Transport) -> bool:
    """Tell the far side that nothing more comes; return whether this transport can.

    A far side that is gone, without our having read that yet, is no error: it will be read in the next turn.
    """
    if not transport.can_write_eof():  # TLS
        return False
    with suppress(OSError):
        transport.write_eof()
    return True
