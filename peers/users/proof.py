"""`Proof`: what a far side shows of who it is. A value; the connections make it, `peers.users.access` judges it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Proof"]


class Proof(NamedTuple):
    """What a far side shows."""

    address: str
    """Where it comes from, as connections show it: failures are counted by it."""
    token: str = ""
    """A token of this hub, or a JWT; empty for none. It is a secret, so that a proof is never logged."""
    certificate: Mapping[str, Any] | None = None
    """Its certificate, which TLS has checked already, as `ssl.SSLSocket.getpeercert` gives it; None for none."""
    unix_uid: int | None = None
    """The account on this machine that it runs under, as a Unix socket's kernel tells; None elsewhere."""
    is_local: bool = False
    """Whether it came by a Unix socket or by a listener on loopback."""

    def __repr__(self) -> str:
        return f"Proof(address={self.address!r}, ...)"
