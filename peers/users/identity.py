"""`Identity`: who somebody is, how that is known, and until when. A value; `peers.users.access` gives it."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

How = Literal["certificate", "token", "jwt", "unix", "anonymous", "local", "setting", "curve"]
"""How somebody was recognised. `local` is this machine's: the hub's own account over a Unix socket, or whoever comes
from this machine to a hub that recognises nobody. `setting` is a Zeek that has its role from the hub's settings;
`curve` one that has proved, too, that it has one of the keys that are allowed (`zeek.curve_clients`)."""


class Identity(NamedTuple):
    """Who somebody is."""

    user: str
    roles: frozenset[str]
    """Roles that the proof vouches for, beside those that the policy gives the user."""
    how: How
    until_s: float = math.inf
    """When the proof ends, s since 1970."""
    key: str = ""
    """Which proof it was, among those of its kind: a token's id, a certificate's entry, a Unix account, a JWT's key, a
    public CURVE key.
    It is no secret. Empty where there is only one."""
