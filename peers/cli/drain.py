"""`hub drain`: take a hub out of service: its clients are moved off a few at a time, and then it stops."""

from __future__ import annotations

from peers.cli.admin import ask
from peers.cli.texts import counted
from peers.cli.url import HubFlags

__all__ = ["drain"]


def drain(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
) -> None:
    """Move all clients off a hub, as fast as its settings say, and stop it; for admins."""
    begun = ask("drain", hub, None)
    clients = counted(begun["clients"], "client")
    print(f"hub drain: moving {clients} off, which takes about {begun['seconds']:,g} s; then the hub stops")
