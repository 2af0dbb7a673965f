"""`Identity`: who a client is, how that is known, and until when. `Refusal`: why it is not recognised."""

from __future__ import annotations

import math
from enum import Enum
from typing import Literal, NamedTuple

# `local`: the hub's own account over a Unix socket, or a client from this machine of a hub without users; `setting`: a
# Zeek that has its role from the hub's settings; `curve`: one that has also proved one of the keys in
# `zeek.curve_clients`
How = Literal["certificate", "token", "jwt", "unix", "anonymous", "local", "setting", "curve"]


class Identity(NamedTuple):
    """Who somebody is."""

    user: str
    roles: frozenset[str]  # That the proof vouches for, beside those that the policy gives the user
    how: How
    until_s: float = math.inf  # When the proof ends, s since 1970
    key: str = ""  # A token's id, a certificate's entry, a Unix account, a JWT's key, a public CURVE key; no secret


class Reason(Enum):
    """Reasons of failures for the log and for counters; clients do not get them."""

    NOTHING = "nothing"  # No credentials, and `access.anonymous` is not set
    CERTIFICATE = "certificate"  # The certificate of no user
    TOKEN = "token"  # noqa: S105 -- a kind, no secret
    JWT = "jwt"
    ENDED = "ended"  # The credential has expired
    USER = "user"  # The policy knows neither the user nor a role of theirs


class Refusal(Exception):  # noqa: N818 -- a verdict, not a failure
    """A client is not recognised.

    Args:
        reason: Which kind.
        text: Exactly what was wrong, for operators; never with a secret, or with text of a far side.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(reason, text)
        self.reason = reason
        self.text = text
