"""`Whole`: all processes of one hub, where it is more than one; `awaited`: waits for an answer that comes later."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from hub.handlers.handler import Handler
from hub.requests.hub_services import Later


class Whole(Protocol):
    """All processes of a hub together."""

    def ask(self, what: str, value: Any = None, by: Handler | None = None) -> Later:
        """Ask all of them the same, and put their answers together.

        Args:
            what: "metrics", "statistics", "state", "losses", "history", "who", "users", "kick", "topics",
                "subscribers", "services", "links", "identities", "settings", "drain" or "reload";
                "ready", which is answered with why the hub is not, or an empty text; "alive", which the core answers
                likewise, of its clock.
            value: The question.
            by: The asker, or None.
        """


async def awaited(answer: Any) -> Any:
    """Return an answer that may be a `Later`.

    Raises:
        HubError: There is none.
    """
    if not isinstance(answer, Later):
        return answer
    there = asyncio.Event()
    answer.then(there.set)
    await there.wait()
    if answer.error is not None:
        raise answer.error
    return answer.value
