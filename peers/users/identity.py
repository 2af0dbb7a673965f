"""`Identity`: who a client is, how that is known, and until when."""

from __future__ import annotations

import math
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
