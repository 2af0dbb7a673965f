"""`hub token list`: which tokens there are. Their texts are not: nobody has them but whoever was given them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from cyclopts import Parameter

from peers.cli.journal.tables import print_json, show
from peers.cli.token.place import Place
from peers.users.tokens import Token

__all__ = ["listing"]

_HEADS = ("id", "user", "roles", "created (UTC)", "ends (UTC)", "label")


def listing(
    *,
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
    place: Place = Place(),  # noqa: B008 -- frozen
) -> None:
    """List the tokens of the hub's file, the oldest first: whose each is, since when, and until when."""
    found = sorted(place.file().read(), key=lambda token: token.created)
    if json:
        print_json(*map(_object, found))
        return
    now = datetime.now(UTC)
    show(_HEADS, (_cells(token, now) for token in found), text_columns=range(len(_HEADS)))


def _object(token: Token) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(token)
    del plain["sha256"]
    return {"id": token.id} | plain


def _cells(token: Token, now: datetime) -> tuple[str, ...]:
    ends = "" if token.ends is None else _minute(token.ends) + (" (over)" if token.ends <= now else "")
    return token.id, token.user, ", ".join(token.roles), _minute(token.created), ends, token.label


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"
