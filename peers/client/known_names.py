"""`KnownName`: a service name as a hub tells of it, and how a client lists them, page by page. No state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from hub.errors import ConnectionLostError
from peers.client.conversation import ABNORMAL

__all__ = ["LISTED_UNDER", "KnownName", "list_names"]

LISTED_UNDER = "$hub/names"
"""Where a hub answers which names there are."""

_LIST_LIMIT = 1000
"""How many names an answer of a hub holds at most; fewer say that there are no more."""


class KnownName(NamedTuple):
    """A name that has an owner, as a hub tells of it."""

    name: str
    labels: tuple[str, ...]
    owner: int
    """Id of the client at its hub, as in `$hub/client/joined`."""
    hub: bytes
    """Id of that hub."""


async def list_names(ask: Callable[[dict[str, str]], Awaitable[Any]], prefix: str) -> list[KnownName]:
    """Ask for a page of names after the other.

    Args:
        ask: Sends a request to `LISTED_UNDER`.
        prefix: Prefix of the names wanted.

    Raises:
        ConnectionLostError: The answer is none of a hub's.
    """
    found: list[KnownName] = []
    while True:
        page = await ask({"prefix": prefix, "after": found[-1].name if found else ""})
        try:
            found += [_known(each) for each in page]
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectionLostError(ABNORMAL, f"{LISTED_UNDER}: an answer that is no list of names") from error
        if len(page) < _LIST_LIMIT:
            return found


def _known(each: dict[str, Any]) -> KnownName:
    return KnownName(each["name"], tuple(each["labels"]), each["owner"], bytes.fromhex(each["hub"]))
