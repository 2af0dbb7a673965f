"""`hub token revoke`: take a token away. Whoever is connected by it is closed when the hub reloads."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peers.cli.texts import escaped
from peers.cli.token.place import Place

__all__ = ["revoke"]


def revoke(
    token_id: Annotated[str, Parameter(name="ID", help="Of the token, as `hub token list` shows it.")],
    /,
    *,
    place: Place = Place(),  # noqa: B008 -- frozen
) -> None:
    """Take a token away from the hub's file, by its id."""
    token = place.file().revoke(token_id)
    label = f" ({token.label})" if token.label else ""
    print(escaped(f"revoked: token {token.id} of {token.user}{label}; a running hub knows after `hub reload`"))
