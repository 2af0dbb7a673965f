"""`hub reload`: let a hub read its settings, certificates and users again: all of them, or none."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peers.cli.admin import ask
from peers.cli.texts import counted, escaped
from peers.cli.url import HubFlags

__all__ = ["reload"]


def reload(
    *,
    force: Annotated[
        bool, Parameter(help="Also where the policy closes more than `access.reload_closes` allows.", negative=())
    ] = False,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
) -> None:
    """Let a hub read again what it was started with, for admins; it says what has changed, or why nothing has.

    That is what SIGHUP does: settings, policy, tokens, and certificates.
    """
    answer = ask("reload", hub, {"force": True} if force else None)
    changed = ", ".join(answer["changed"]) or "no setting"
    print(escaped(f"hub reload: read again; in force now: {changed}"))
    if answer["needs_restart"]:
        print(escaped(f"hub reload: needs a restart: {', '.join(answer['needs_restart'])}"))
    if answer["closed"]:
        print(f"hub reload: {counted(answer['closed'], 'connection')} closed: their users are gone")
