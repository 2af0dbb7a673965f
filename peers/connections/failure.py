"""What is logged of a bug that has ended a connection: one line, whatever was read and however deep the stack was."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peers.connections.connection import Connection

__all__ = ["SHOWN_BYTES", "SHOWN_CHARACTERS", "describe", "log_failure"]

SHOWN_BYTES = 8
"""How much of what was read is logged, as twice as many hexadecimal digits: the head of a frame, which says its kind
and its lengths. What stands behind that is nobody's business: it may be a token."""

SHOWN_CHARACTERS = 200
"""How much of the exception's own text is logged, which may hold what was read."""

_SHOWN_PLACES = 3
"""How many places of the stack are logged, the innermost last."""


def log_failure(connection: Connection, error: Exception, read: bytes) -> None:
    """Count and log a bug that has ended a connection; for the arguments see `describe`."""
    connection.node.failed_connections += 1
    connection.node.log.error(
        "a connection ended by a bug, please report it",
        address=connection.address,
        name=connection.far_name,
        **describe(error, read),
    )


def describe(error: Exception, read: bytes) -> dict[str, object]:
    """Return the fields of the line.

    Args:
        error: What has happened.
        read: What the connection had just read, empty if it was not reading.
    """
    places = traceback.extract_tb(error.__traceback__)[-_SHOWN_PLACES:]
    return {
        "error": f"{type(error).__name__}: {error}"[:SHOWN_CHARACTERS],
        "at": " > ".join(f"{place.filename.rpartition('/')[2]}:{place.lineno}" for place in places),
        "read_bytes": len(read),
        "read": read[:SHOWN_BYTES].hex(),
    }
