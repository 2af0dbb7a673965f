"""`Access`: authentication (`Proof` to `Identity`) and authorisation (`Identity` to `Rights`).

Credentials are checked in this order: certificate, token or JWT, Unix account:

| credential | user |
|---|---|
| a certificate of the policy's table | its user, unless a token beside it is wrong |
| a certificate that is in no table | the user of the token beside it; refused without one, if there is such a table |
| a token or a JWT | its user, or refused |
| an account of the policy's table | its user |
| the hub's own account, or root | an admin, `local` |
| nothing, or any other account | the role of `access.anonymous`; refused if there is none |

A user without any role is refused, as is an unknown one: always with the same text and code, after a delay that grows
with the failures of its address. Users are swapped whole (`adopt`); no secret is kept, logged or sent.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

import structlog

from hub.errors import NotRecognisedError
from hub.policy.certificate_name import names_of, parse_certificate_name
from hub.policy.policy import ADMIN, ANONYMOUS, LOCAL, Policy, Rights
from hub.topics import printable
from peers.transport.endpoints import host_of
from peers.users.identity import How, Identity, Proof, Reason, Refusal
from peers.users.tokens import SCHEME
from peers.users.users import Users
from peers.zeek.zmtp.z85 import decode_key

FIRST_S = 0.1  # Delay of the answer to a first failure: a hundred times the time for the slowest credential
LONGEST_S = 3.2  # Largest delay: within `limits.handshake_s`, so that the answer still comes
WINDOW_S = 60.0  # Without a failure for so long, an address is as good as new

# How many addresses are remembered, 200 bytes each. An attacker with more is not stopped by waiting, either
ADDRESSES = 10_000


class Failures:
    """The failures of the last minute.

    Each failure of an address within `WINDOW_S` of the one before doubles the delay of its answer. The first one is
    delayed, too: that hides how long the check took. A recognised client is never delayed, so that others behind the
    same address are not held up. An IPv6 network of 64 bits is one address; this machine is one.
    """

    def __init__(self, limit: int = ADDRESSES) -> None:
        self._limit = limit
        self._last: dict[str, tuple[int, float]] = {}  # Host → failures, and time of the last one; the newest last

    @property
    def addresses(self) -> int:
        return len(self._last)

    def note(self, address: str, now_s: float) -> float:
        """Note a failure at a time of a monotonic clock; return the delay of the answer, s."""
        host = host_of(address)
        count, last_s = self._last.pop(host, (0, now_s))
        count = count + 1 if now_s - last_s < WINDOW_S else 1
        delay_s = FIRST_S * 2.0 ** (count - 1)
        if delay_s >= LONGEST_S:
            delay_s, count = LONGEST_S, count - 1  # the count need not grow any more
        if len(self._last) >= self._limit:
            del self._last[next(iter(self._last))]
        self._last[host] = count, now_s
        return delay_s


_ADMIN = frozenset({ADMIN})
Tested = Literal["allowed", "refused"]  # Questions to the policy, by answer


class Access:
    """Recognises the users of one hub; `now_s` is a monotonic clock, `wall_s` the time since 1970."""

    def __init__(self, users: Users, now_s: Callable[[], float], wall_s: Callable[[], float]) -> None:
        self._users = users
        self._now_s = now_s
        self._wall_s = wall_s
        self.failures = Failures()
        self.recognised: Counter[How] = Counter()
        self.refused: Counter[Reason] = Counter()
        self.tested: Counter[Tested] = Counter()  # Questions to the policy (`peers.admin.access`)
        # Called with address, reason and text of a client that is not recognised
        self.on_refused: Callable[[str, Reason, str], object] = lambda _, __, ___: None
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    @property
    def policy(self) -> Policy | None:
        """The policy; None where everything is allowed."""
        return self._users.policy

    @property
    def is_open(self) -> bool:
        """Whether no access is configured, so that everything is allowed."""
        return self._users.policy is None

    @property
    def takes_strangers(self) -> bool:
        return self.is_open or bool(self._users.anonymous)

    @property
    def anonymous(self) -> str:
        """The role of clients without credentials; empty if they are not let in, or no access is configured."""
        return self._users.anonymous

    def adopt(self, users: Users) -> None:
        self._users = users

    def rights(self, identity: Identity) -> Rights | None:
        """Return the rights of a user; None for everything."""
        policy = self._users.policy
        return None if policy is None else policy.rights(identity.user, identity.roles)

    def recognise(self, proof: Proof) -> Identity:
        """Return the identity of a proof, or raise a `NotRecognisedError`, to be answered after its `delay_s`."""
        asked_s = self._now_s()
        try:
            identity = self._identity(proof)
        except Refusal as refusal:
            self._refuse(proof.address, refusal, asked_s)
        self.recognised[identity.how] += 1
        return identity

    def _refuse(self, address: str, refusal: Refusal, asked_s: float) -> NoReturn:
        delay_s = self.failures.note(address, asked_s)
        self.refused[refusal.reason] += 1
        self._log.warning("not recognised", address=address, reason=refusal.text, held_back_s=delay_s)
        self.on_refused(address, refusal.reason, refusal.text)
        # The delay counts from the question, so that the time of the check is not visible.
        raise NotRecognisedError(max(0.0, delay_s - (self._now_s() - asked_s))) from None

    def _identity(self, proof: Proof) -> Identity:
        policy = self._users.policy
        if policy is None:
            return _LOCAL if proof.is_local else _ANONYMOUS
        by_certificate = self._of_certificate(proof.certificate) if proof.certificate else None
        by_token = self._of_token(proof.token) if proof.token else None
        identity = by_certificate or by_token
        if identity is None and proof.certificate and self._users.certificates:
            (subject,), *_ = names_of(proof.certificate)
            shown = printable(subject.text) if subject.value else "it says no name that can be read"
            raise Refusal(Reason.CERTIFICATE, f"a certificate that is not in [certificates]: {shown}")
        identity = identity or self._of_account(proof.unix_uid) or self._of_nothing()
        if identity.until_s <= self._wall_s():
            raise Refusal(Reason.ENDED, f"the {identity.how} of user {identity.user} {identity.key} has ended")
        if not _is_known(identity, policy):
            raise Refusal(Reason.USER, f"the policy does not know user {identity.user} of a {identity.how}")
        return identity

    def _of_certificate(self, certificate: Mapping[str, Any]) -> Identity | None:
        table = self._users.certificates
        if not table:
            return None
        for names in names_of(certificate):
            found = {table[name]: name for name in names if name in table}
            if len(found) > 1:
                raise Refusal(Reason.CERTIFICATE, f"a certificate of several users: {', '.join(sorted(found))}")
            for user, name in found.items():
                until_s = ssl.cert_time_to_seconds(certificate["notAfter"])
                return Identity(user, frozenset(), "certificate", until_s, name.text)
        return None

    def _of_token(self, text: str) -> Identity:
        jwts = self._users.jwts
        if jwts is not None and not text.startswith(SCHEME):
            return jwts.identity(text, self._wall_s())
        token = self._users.tokens.find(text)
        if token is None:
            raise Refusal(Reason.TOKEN, f"a token of {len(text)} characters that is not of this hub")
        return Identity(token.user, frozenset(token.roles), "token", token.until_s, token.id)

    def _of_account(self, uid: int | None) -> Identity | None:
        users = self._users
        if uid is None:
            return None
        if uid in users.unix:
            return Identity(users.unix[uid], frozenset(), "unix", key=str(uid))
        return Identity(LOCAL, _ADMIN, "local") if uid in users.own_uids else None

    def _of_nothing(self) -> Identity:
        if not self._users.anonymous:
            raise Refusal(Reason.NOTHING, "neither certificate nor token, and access.anonymous is not set")
        return Identity(ANONYMOUS, frozenset({self._users.anonymous}), "anonymous")

    def allows_curve_key(self, key: bytes) -> bool:
        """Return whether a node of a Zeek cluster with this public key may connect."""
        return key in self._users.curve_clients

    def is_current(self, identity: Identity) -> bool:
        """Return whether a recognised user still would be."""
        if identity.how == "curve" and not self.allows_curve_key(decode_key(identity.key)):
            return False
        policy = self._users.policy
        if policy is None:
            return True
        has_ended = identity.until_s <= self._wall_s()
        return not has_ended and _is_known(identity, policy) and self._is_vouched_for(identity)

    def _is_vouched_for(self, identity: Identity) -> bool:
        users = self._users
        match identity.how:
            case "anonymous":
                still = users.anonymous in identity.roles
            case "local":
                still = identity.roles == _ADMIN
            case "setting" | "curve":
                still = True  # its role was looked for already
            case "unix":
                still = users.unix.get(int(identity.key)) == identity.user
            case "token":
                token = users.tokens.of_id(identity.key)
                still = (
                    token is not None
                    and (token.user, frozenset(token.roles)) == identity[:2]
                    and token.until_s >= identity.until_s
                )
            case "jwt":
                still = users.jwts is not None and users.jwts.takes(identity.key)
            case "certificate":
                still = users.certificates.get(parse_certificate_name(identity.key)) == identity.user
        return still


# Identities at a hub without users: one object for all, as thousands of idle clients keep it.
_LOCAL = Identity(LOCAL, frozenset(), "local")
_ANONYMOUS = Identity(ANONYMOUS, frozenset(), "anonymous")


def _is_known(identity: Identity, policy: Policy) -> bool:
    return identity.user in policy or not identity.roles.isdisjoint(policy.roles)
