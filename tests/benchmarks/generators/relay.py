"""The relay's dialect: one byte tells the role, and comes back; then the hub's frames, so that sizes are ours."""

from __future__ import annotations

from collections.abc import Sequence

from generators.channel import Channel
from generators.dialect import Interest, Role
from generators.hub import HubDialect

__all__ = ["RelayDialect"]


class RelayDialect(HubDialect):
    """The relay of `brokers.relay`."""

    def connect(self, role: Role) -> Channel:
        """Open a connection."""
        channel = Channel(self._port)
        channel.send(b"P" if role == "publisher" else b"S")
        channel.receive(1)
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """There is nothing to choose from."""
