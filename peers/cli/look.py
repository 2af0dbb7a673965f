"""`look_line`: what `hub top` shows of one look at a hub, as a JSON object for programs.

Owner: nobody; no I/O. Cost: O(handlers). Not here: the tables (`peers.cli.top`), what is compared (`peers.cli.rates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from peers.cli.rates import Activity, Snapshot, total
from peers.cli.texts import json_text

__all__ = ["look_line"]


def look_line(now: Snapshot, rows: Sequence[Activity]) -> str:
    """Return one line of JSON.

    Args:
        now: The later one of the two looks that were compared.
        rows: What each handler does, in the order to show.

    Returns:
        A map: `hub` (its name), `at_s` (its clock, which begins anywhere), `state` (how it does, in one sentence),
        `memory_bytes`, `memory_limit_bytes`; `handlers`, each with what the hub says of it and `in_per_s`,
        `out_per_s`, `out_bytes_per_s` and `dropped_lately`; `total` of these; `links` and `users`. What `hub top` and
        the hub have no figure for is null.
    """
    return (json_text(_look(now, rows)) or b"").decode()


def _look(now: Snapshot, rows: Sequence[Activity]) -> dict[str, Any]:
    return {
        "hub": now.hub,
        "at_s": now.at_s,
        "state": now.state,
        "memory_bytes": now.memory_bytes,
        "memory_limit_bytes": now.memory_limit_bytes,
        "handlers": [_handler(row) for row in rows],
        "total": total(rows)._asdict(),
        "links": msgspec.to_builtins(now.links),
        "users": msgspec.to_builtins(now.users),
    }


def _handler(row: Activity) -> dict[str, Any]:
    figures = row._asdict()
    told: dict[str, Any] = msgspec.to_builtins(figures.pop("handler"))
    return told | figures
