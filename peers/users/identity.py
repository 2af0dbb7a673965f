"""`Identity`: the user of a client, how that is known, and until when; `Proof`: credentials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal, NamedTuple

# `local`: the hub's own account over a Unix socket, or a client from this machine of a hub without users; `setting`: a
# Zeek that has its role from the hub's settings; `curve`: one that has also proved one of the keys in
# `zeek.curve_clients`
How = Literal["certificate", "token", "jwt", "unix", "anonymous", "local", "setting", "curve"]


class Identity(NamedTuple):
    """The user of a client."""

    user: str
    roles: frozenset[str]  # From the proof, beside those of the policy
    how: How
    until_s: float = math.inf  # When the proof ends, s since 1970
    key: str = ""  # A token's id, a certificate's entry, a Unix account, a JWT's key, a public CURVE key; no secret


class Reason(Enum):
    """Reasons of failures for the log and for counters; clients do not get them."""

    NOTHING = "nothing"  # No credentials, and `access.anonymous` is not set
    CERTIFICATE = "certificate"  # A certificate without a user
    TOKEN = "token"  # noqa: S105 -- Unknown token
    JWT = "jwt"  # Invalid JWT
    ENDED = "ended"  # The credential has expired
    USER = "user"  # The policy has neither the user nor one of their roles


class Refusal(Exception):  # noqa: N818 -- a verdict, not a failure
    """A client is not recognised; `text` is the exact cause, for operators, without secrets and text of a far side."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(reason, text)
        self.reason = reason
        self.text = text


class Proof(NamedTuple):
    """Credentials of a far side; `peers.users.access` judges them."""

    address: str  # Failures are counted by it
    token: str = ""  # A token of this hub, or a JWT: a secret
    certificate: Mapping[str, Any] | None = None  # As of `ssl.SSLSocket.getpeercert`; TLS has checked it already
    unix_uid: int | None = None  # From the kernel, for Unix sockets
    is_local: bool = False  # Whether it came by a Unix socket or by a listener on loopback

    def __repr__(self) -> str:
        return f"Proof(address={self.address!r}, ...)"
