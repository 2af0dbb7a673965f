"""`Access`: the one place where a node asks who somebody is, and what he may do.

```
Proof ──recognise──▶ Identity ──rights──▶ Rights, or None where everything is allowed
   └── NotRecognisedError: always the same text and code
```

What is shown is tried in this order: certificate, token or JWT, Unix account. Only who shows nothing is anonymous: what
is shown and is wrong is refused.

Owner: the event loop. Invariants: the users are swapped whole (`adopt`). Cost: a few µs; a JWT costs a signature.

Not here: where files are read (`peers.users.users`), where a refusal is sent, when a proof has ended.
"""

from __future__ import annotations

from hub.errors import NotRecognisedError
from hub.policy.policy import ANONYMOUS, LOCAL, Policy, Rights
from hub.policy.roles import ADMIN
from peers.users.identity import Identity
from peers.users.proof import Proof
from peers.users.users import NOBODY, Users

__all__ = ["Access"]

_ADMIN = frozenset({ADMIN})


class Access:
    """Who is who at one node.

    Args:
        users: By what they are recognised; `NOBODY` lets everybody do everything.
    """

    def __init__(self, users: Users = NOBODY) -> None:
        self._users = users

    @property
    def policy(self) -> Policy | None:
        """Who may do what; None where everything is allowed to everybody."""
        return self._users.policy

    @property
    def is_open(self) -> bool:
        """Whether nothing is set, so that everything is allowed to everybody."""
        return self._users.policy is None

    def adopt(self, users: Users) -> None:
        """Recognise by these users from now on."""
        self._users = users

    def recognise(self, proof: Proof) -> Identity:
        """Return who shows a proof.

        Raises:
            NotRecognisedError: Nobody who is known.
        """
        if self.is_open:
            # As a hub without users always did, it does not even look at tokens.
            name = LOCAL if proof.is_local else ANONYMOUS
            return Identity(name, frozenset(), "local" if proof.is_local else "anonymous")
        if proof.token or proof.certificate:
            raise NotRecognisedError
        return self._of_account(proof.unix_uid) or self._of_nothing()

    def _of_account(self, uid: int | None) -> Identity | None:
        """Return who an account on this machine belongs to; None if it belongs to nobody who is known."""
        users = self._users
        if uid is None:
            return None
        if uid in users.unix:
            return Identity(users.unix[uid], frozenset(), "unix", key=str(uid))
        return Identity(LOCAL, _ADMIN, "local") if uid in users.own_uids else None

    def _of_nothing(self) -> Identity:
        """Return who somebody is that shows nothing."""
        if not self._users.anonymous:
            raise NotRecognisedError
        return Identity(ANONYMOUS, frozenset({self._users.anonymous}), "anonymous")

    def rights(self, identity: Identity) -> Rights | None:
        """Return what somebody may do; None for everything."""
        policy = self._users.policy
        return None if policy is None else policy.rights(identity.user, identity.roles)

    def is_current(self, identity: Identity) -> bool:
        """Return whether somebody who was recognised once still would be: False for a user who is gone."""
        users = self._users
        if users.policy is None or identity.how == "local":
            return True
        if identity.how == "anonymous":
            return bool(users.anonymous) and users.anonymous in identity.roles
        if identity.how == "unix":
            return users.unix.get(int(identity.key)) == identity.user
        return False
