"""`hub kick`: close connections of a hub, with a text that their far sides read."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.admin import ask
from peers.cli.errors import FlagError
from peers.cli.texts import counted
from peers.cli.url import HubFlags
from peers.wire.control import CLOSE_TEXT_LIMIT_BYTES

__all__ = ["kick"]


def kick(
    connection: Annotated[int | None, Parameter(help="The id that `hub who` shows.", show_default=False)] = None,
    /,
    *,
    user: Annotated[
        str | None, Parameter(help="All connections of this user, but this one.", show_default=False)
    ] = None,
    text: Annotated[str, Parameter(help="What they are told, up to 123 bytes.", show_default=False)] = "",
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
) -> None:
    """Close a connection, or all of a user, for admins.

    They end with 4403, and clients do not come back by themselves. Who must not come back at all is taken out of the
    policy, or loses the token.
    """
    if (connection is None) is (user is None):
        raise FlagError("give either the ID of a connection, which `hub who` shows, or --user")
    if len(text.encode("utf-8", "replace")) > CLOSE_TEXT_LIMIT_BYTES:
        raise FlagError(f"--text: at most {CLOSE_TEXT_LIMIT_BYTES} bytes are told")
    order: dict[str, Any] = {"id": connection} if user is None else {"user": user}
    told = ask("kick", hub, order | ({"text": text} if text else {}))
    print(f"hub kick: {counted(told['kicked'], 'connection')} closed")
