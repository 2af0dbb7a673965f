"""`Jwts`: who shows a JWT, by the keys of whoever issues them.

```
header.claims.signature ─▶ sizes, header ─▶ the key of `kid` ─▶ signature by the key's own algorithm ─▶ claims
```

A key has one algorithm, which follows from the key (`ALGORITHMS`); what a token's header says is only compared with it.
So nobody can have a public key taken for the secret of an HMAC, nor ask for no signature. A token names its key by
`kid` where there are several. Claims are read strictly, and after the signature was checked: no name twice, no number
that is none.

| claim | |
|---|---|
| `exp` | must be there and lie ahead |
| `nbf` | must be past, if it is there |
| `iss` | must be `access.jwt_issuer` |
| `aud` | must be `access.jwt_audience`, or a list that has it |
| `access.jwt_user` (`sub`) | the user's name |
| `access.jwt_roles` (`roles`) | a list of roles, or a text with spaces between them; may be absent |

Owner: nobody, a `Jwts` never changes. Cost: 30 to 200 µs a token, by algorithm.

Not here: keys that are fetched from somewhere; tokens that are revoked before they end.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hub.errors import UsageError
from hub.policy.policy import RESERVED_USERS, check_user
from hub.settings.sections import AccessSettings
from peers.users.access import Reason, Refusal
from peers.users.identity import Identity

LEEWAY_S = 30.0
"""How far the clock of whoever issues tokens may be off, s."""

MOST_TOKEN_CHARACTERS = 8192
"""Largest token, characters: what HTTP servers take of a header. Nothing of a larger one is looked at."""

_MOST_HEADER_CHARACTERS = 1024
"""Largest header of a token, characters: it names an algorithm and a key."""

_MOST_ROLES = 256

_MARK_BYTES = 8
_SALT = secrets.token_bytes(32)
"""Makes marks of keys useless to whoever wants to guess a secret by them."""

_LATEST_S = 253_402_300_799
"""The end of the year 9999, s since 1970: a later `exp` is no time."""


class Key(NamedTuple):
    """A key that signs tokens."""

    kid: str
    """Its name; empty if it has none."""
    algorithm: str
    """The one algorithm that it is used with."""
    key: Any
    """As PyJWT takes it: a public key, or the bytes of a secret."""


class Jwts:
    """Recognises users by JWTs.

    Args:
        keys: At least one; if there are several, each has a `kid` of its own.
        settings: What a token must say.
    """

    def __init__(self, keys: Iterable[Key], settings: AccessSettings) -> None:
        self._keys = {key.kid: key for key in keys}
        self._settings = settings
        self._marks = {kid: _mark(key, settings) for kid, key in self._keys.items()}
        self._verifiers = {key.algorithm: jwt.PyJWS([key.algorithm]) for key in self._keys.values()}

    def takes(self, mark: str) -> bool:
        """Return whether tokens that were recognised under this mark, the `key` of an identity, still would be.

        It stands for the key itself, and not only for its name, and for whose tokens are taken.
        """
        return mark in self._marks.values()

    def identity(self, text: str, wall_s: float) -> Identity:
        """Return who shows a token.

        Args:
            text: The token.
            wall_s: The time, s since 1970.

        Raises:
            Refusal: Nobody; the token is not right, or has ended.
        """
        key = self._key_for(text)
        try:
            verifier = self._verifiers[key.algorithm]
            claims = strict_json(verifier.decode(text, key.key, [key.algorithm]))
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise _refusal(f"a signature that is wrong, or no claims: {type(error).__name__}") from error
        if not isinstance(claims, dict):
            raise _refusal("claims that are no object")
        settings = self._settings
        if claims.get("iss") != settings.jwt_issuer:
            raise _refusal("another issuer, or none")
        audience = claims.get("aud")
        if settings.jwt_audience not in (audience if isinstance(audience, list) else [audience]):
            raise _refusal("another audience, or none")
        if "nbf" in claims and _time_s(claims, "nbf") > wall_s + LEEWAY_S:
            raise _refusal("not valid yet")
        until_s = _time_s(claims, "exp") + LEEWAY_S
        if until_s <= wall_s:
            raise Refusal(Reason.ENDED, "a JWT that has ended")
        user = _user(claims.get(settings.jwt_user), settings.jwt_user)
        return Identity(user, _roles(claims, settings.jwt_roles), "jwt", until_s, self._marks[key.kid])

    def _key_for(self, text: str) -> Key:
        """Return the key that a token says to be signed by.

        Raises:
            Refusal: There is none, or it is not used in this way.
        """
        header = _header(text)
        kid = header.get("kid", "")
        if len(self._keys) == 1:
            key = next(iter(self._keys.values()))
            known = not (key.kid and kid) or kid == key.kid
        else:
            known = isinstance(kid, str) and kid in self._keys
            key = self._keys[kid] if known else next(iter(self._keys.values()))
        if not known:
            raise _refusal("a key that is not known")
        if header.get("alg") != key.algorithm:
            raise _refusal(f"another algorithm than that of its key, {key.algorithm}")
        return key


def _mark(key: Key, settings: AccessSettings) -> str:
    """Return what stands for a key and all that its tokens must say, as long as this process lasts."""
    if isinstance(key.key, bytes):
        material = key.key
    else:
        material = key.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    claims = (settings.jwt_issuer, settings.jwt_audience, settings.jwt_user, settings.jwt_roles)
    described = json.dumps([key.kid, key.algorithm, material.hex(), *claims])
    return hashlib.blake2b(described.encode(), key=_SALT, digest_size=_MARK_BYTES).hexdigest()


def _header(text: str) -> Mapping[str, Any]:
    """Read a token's header, of which nothing is believed."""
    if len(text) > MOST_TOKEN_CHARACTERS:
        raise _refusal(f"more than {MOST_TOKEN_CHARACTERS} characters")
    encoded, *others = text.split(".")
    if len(others) != 2 or not text.isascii() or len(encoded) > _MOST_HEADER_CHARACTERS:
        raise _refusal("not three parts, or a long header")
    try:
        header = strict_json(base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True))
    except (ValueError, RecursionError) as error:
        raise _refusal("a header that is none") from error
    if not isinstance(header, dict):
        raise _refusal("a header that is no object")
    odd = {"crit", "b64", "zip"}.intersection(header)
    if odd:
        raise _refusal(f"a header with {', '.join(sorted(odd))}, which is not understood here")
    return header


def strict_json(content: bytes) -> Any:
    """Read JSON in which no name stands twice and each number is one.

    Raises:
        ValueError: It is none.
        RecursionError: It is nested too deep.
    """
    return json.loads(content.decode(), object_pairs_hook=_once_each, parse_constant=_refuse_constant)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return made


def _refuse_constant(_: str) -> float:
    raise ValueError("NaN and Infinity are no JSON")


def _time_s(claims: Mapping[str, Any], name: str) -> float:
    """Return the time of a claim, s since 1970."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST_S:
        raise _refusal(f"no {name}, or one that is no time")
    return math.floor(value)


def _user(value: object, name: str) -> str:
    """Return the user of a claim."""
    if not isinstance(value, str):
        raise _refusal(f"no claim {name!r} that is a text")
    try:
        check_user(value)
    except UsageError as error:
        raise _refusal(f"a claim {name!r} that cannot be the name of a user") from error
    if value in RESERVED_USERS:
        raise _refusal(f"a claim {name!r} that is a name which the hub gives itself")
    return value


def _roles(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the roles of a claim; none if it is absent."""
    value = claims.get(name, [])
    roles = value.split(" ") if isinstance(value, str) else value
    if not isinstance(roles, list) or len(roles) > _MOST_ROLES or not all(isinstance(role, str) for role in roles):
        raise _refusal(f"a claim {name!r} that is neither a list of roles nor a text")
    return frozenset(roles) - {""}


def _refusal(text: str) -> Refusal:
    return Refusal(Reason.JWT, f"a JWT with {text}")
