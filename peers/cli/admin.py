"""What commands that ask the hub itself have in common: one request to the hub itself, or a page after the other.

Owner: nobody. Not here: what the hub answers (`peers.admin`), who may ask (its policy).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hub.topics import RESERVED
from peers.cli.notices import Notices
from peers.cli.texts import json_text
from peers.cli.url import HubFlags
from peers.client import connect
from peers.client.connecting import Connecting

__all__ = ["ask", "ask_pages", "json_lines"]


_USUAL_S = 10.0
"""How long an answer may take, seconds, beside what the hub itself waits for others."""


def ask(command: str, hub: HubFlags, value: Any, *, topic: str = "", wait_s: float = 0.0) -> Any:
    """Ask a hub what the command of this name is for; return its answer.

    Args:
        command: Its name.
        hub: Which hub.
        value: What to ask with.
        topic: Of the request, under `$hub/`, where that is not the name of the command.
        wait_s: How long the hub itself waits for others before it answers.

    Raises:
        RequestError: It has none, or who asks may not; the text says why.
        UsageError, PeerError: It was not asked.
    """

    async def one() -> Any:
        async with _connected(command, hub) as client:
            return await client.request(RESERVED + (topic or command), value, timeout_s=_USUAL_S + wait_s)

    return asyncio.run(one())


def ask_pages(
    command: str,
    hub: HubFlags,
    value: dict[str, Any],
    after: Callable[[dict[str, Any]], Any],
    *,
    topic: str = "",
) -> list[dict[str, Any]]:
    """Ask for one page after the other until one is empty; return all rows.

    Args:
        command: As for `ask`.
        hub: As for `ask`.
        value: What to ask with, beside `after`.
        after: Gives the `after` of the next page, from the last row.
        topic: Of the requests, under `$hub/`, where that is not the name of the command.

    Raises:
        RequestError, UsageError, PeerError: As `ask`.
    """

    async def all_of_it() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        async with _connected(command, hub) as client:
            while True:
                place = {"after": after(rows[-1])} if rows else {}
                found = await client.request(RESERVED + (topic or command), value | place)
                rows += found
                if not found:
                    return rows

    return asyncio.run(all_of_it())


def json_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows as one JSON object a line."""
    return [(json_text(row) or b"").decode() for row in rows]


def _connected(command: str, hub: HubFlags) -> Connecting:
    """Return the way to a hub, for one question: whoever is cut off has no answer, and does not ask again."""
    options = Notices(command).options(hub)
    options["on_disconnect"] = lambda _: None  # the question fails, if it is still open: that says it all
    options["reconnect"] = False
    return connect(hub.url, **options)
