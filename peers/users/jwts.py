"""`Jwts`: recognises users by JWTs; `read_keys`: the keys that sign them, from a JWKS or a PEM file.

```
header.claims.signature ─▶ sizes, header ─▶ the key of `kid` ─▶ signature by the key's own algorithm ─▶ claims
```

A key has one algorithm (RS256 for RSA of 2,048 bits or more, ES256, EdDSA, HS256 for secrets of 32 bytes or more in a
JWKS); the header of a token must have it, too, so that a public key is never taken for the secret of an HMAC. Claims
are read strictly, after the signature was checked: no name twice, no NaN. `exp` and `nbf` are checked, `iss` and `aud`
must be those of the settings, `sub` and `roles` (or other claims of the settings) give the user and their roles.
Private keys are refused; keys that are not for signatures are ignored.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from hub.errors import UsageError
from hub.policy.policy import RESERVED_USERS, check_user
from hub.settings.keys import ConfigError
from hub.settings.settings import AccessSettings
from hub.topics import printable
from peers.users.files import check_private, read_file
from peers.users.identity import Identity, Reason, Refusal

LEEWAY_S = 30.0  # How far the clock of an issuer may be off
MOST_TOKEN_CHARACTERS = 8192  # As HTTP servers take of a header
_MOST_HEADER_CHARACTERS = 1024  # It names an algorithm and a key
_MOST_ROLES = 256
_MARK_BYTES = 8
_SALT = secrets.token_bytes(32)  # Makes marks of keys useless for guessing a secret
_LATEST_S = 253_402_300_799  # The end of the year 9999: a later `exp` is no time


class Key(NamedTuple):
    """A key that signs tokens."""

    kid: str  # Its name, or empty
    algorithm: str
    key: Any  # As PyJWT takes it: a public key, or the bytes of a secret


class Jwts:
    """Recognises users by JWTs."""

    def __init__(self, keys: Iterable[Key], settings: AccessSettings) -> None:
        self._keys = {key.kid: key for key in keys}
        self._settings = settings
        self._marks = {kid: _mark(key, settings) for kid, key in self._keys.items()}
        self._verifiers = {key.algorithm: jwt.PyJWS([key.algorithm]) for key in self._keys.values()}

    def takes(self, mark: str) -> bool:
        """Return whether tokens under this mark, the `key` of an identity, are still accepted.

        It is a hash of the key itself, not only of its name, and of the settings of claims.
        """
        return mark in self._marks.values()

    def identity(self, text: str, wall_s: float) -> Identity:
        """Return the identity of a token at a time, s since 1970, or raise a `Refusal`."""
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
    if isinstance(key.key, bytes):
        material = key.key
    else:
        material = key.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    claims = (settings.jwt_issuer, settings.jwt_audience, settings.jwt_user, settings.jwt_roles)
    described = json.dumps([key.kid, key.algorithm, material.hex(), *claims])
    return hashlib.blake2b(described.encode(), key=_SALT, digest_size=_MARK_BYTES).hexdigest()


def _header(text: str) -> Mapping[str, Any]:
    if len(text) > MOST_TOKEN_CHARACTERS:
        raise _refusal(f"more than {MOST_TOKEN_CHARACTERS} characters")
    encoded, *others = text.split(".")
    if len(others) != 2 or not text.isascii() or len(encoded) > _MOST_HEADER_CHARACTERS:
        raise _refusal("not three parts, or a long header")
    try:
        header = strict_json(base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True))
    except (ValueError, RecursionError) as error:
        raise _refusal("an invalid header") from error
    if not isinstance(header, dict):
        raise _refusal("a header that is not an object")
    odd = {"crit", "b64", "zip"}.intersection(header)
    if odd:
        raise _refusal(f"a header with {', '.join(sorted(odd))}, which is not understood here")
    return header


def strict_json(content: bytes) -> Any:
    """Read JSON without repeated names and NaN, or raise a `ValueError` or a `RecursionError`."""
    return json.loads(content.decode(), object_pairs_hook=_once_each, parse_constant=_refuse_constant)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name is twice in an object")
    return made


def _refuse_constant(_: str) -> float:
    raise ValueError("NaN and Infinity are no JSON")


def _time_s(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST_S:
        raise _refusal(f"no {name}, or one that is no time")
    return math.floor(value)


def _user(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _refusal(f"no claim {name!r} that is a text")
    try:
        check_user(value)
    except UsageError as error:
        raise _refusal(f"a claim {name!r} that cannot be the name of a user") from error
    if value in RESERVED_USERS:
        raise _refusal(f"a claim {name!r} that is a reserved name")
    return value


def _roles(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    value = claims.get(name, [])
    roles = value.split(" ") if isinstance(value, str) else value
    if not isinstance(roles, list) or len(roles) > _MOST_ROLES or not all(isinstance(role, str) for role in roles):
        raise _refusal(f"a claim {name!r} that is neither a list of roles nor a text")
    return frozenset(roles) - {""}


def _refusal(text: str) -> Refusal:
    return Refusal(Reason.JWT, f"a JWT with {text}")


_LARGEST_FILE_BYTES = 1024 * 1024  # A thousand keys
_LEAST_RSA_BITS = 2048
_LEAST_SECRET_BYTES = 32  # As long as the hash, as RFC 7518 (3.2) asks for
_MOST_KID_CHARACTERS = 256
_ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA", "oct": "HS256"}
_CURVES = {"EC": "P-256", "OKP": "Ed25519"}
_PRIVATE = frozenset({"d", "p", "q"})
_PUBLIC_HEAD = b"-----BEGIN PUBLIC KEY-----"


def read_keys(path: Path) -> list[Key]:
    """Read a JWKS or a PEM file; errors name the key in it, and do not show it."""
    content = read_file(path, _LARGEST_FILE_BYTES, "a file of keys")
    source = str(path)
    if content.lstrip().startswith(b"-----BEGIN"):
        return [_pem_key(content, source)]
    try:
        tree = strict_json(content)
    except (ValueError, RecursionError) as error:
        reason = f"neither PEM nor a JWKS: {error}" if isinstance(error, ValueError) else "nested too deep"
        raise ConfigError(source, "", reason) from error
    keys = _jwks(tree, source)
    if any(key.algorithm == "HS256" for key in keys):
        with path.open("rb") as file:
            check_private(file.fileno(), path)
    return keys


def _pem_key(content: bytes, source: str) -> Key:
    if content.count(b"-----BEGIN") != 1 or _PUBLIC_HEAD not in content:
        hint = "give one PUBLIC KEY; of a certificate: openssl x509 -pubkey -noout; several keys belong into a JWKS"
        raise ConfigError(source, "", f"not one public key: {hint}")
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(source, "", "no public key that can be read") from error
    return Key("", _algorithm(key, source, ""), key)


def _algorithm(key: object, source: str, place: str) -> str:
    match key:
        case RSAPublicKey():
            if key.key_size < _LEAST_RSA_BITS:
                reason = f"an RSA key of {key.key_size} bits; {_LEAST_RSA_BITS} or more are needed"
                raise ConfigError(source, place, reason)
            return "RS256"
        case EllipticCurvePublicKey() if isinstance(key.curve, SECP256R1):
            return "ES256"
        case Ed25519PublicKey():
            return "EdDSA"
        case bytes():
            if len(key) < _LEAST_SECRET_BYTES:
                reason = f"a secret of {len(key)} bytes; {_LEAST_SECRET_BYTES} or more are needed"
                raise ConfigError(source, place, reason)
            return "HS256"
        case _:
            raise ConfigError(source, place, "an unsupported kind of key; supported are RSA, EC on P-256, Ed25519")


def _jwks(tree: object, source: str) -> list[Key]:
    entries = tree.get("keys") if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise ConfigError(source, "keys", "a list of keys is expected, as a JWKS has it")
    keys: dict[str, Key] = {}
    for number, entry in enumerate(entries):
        place = f"keys[{number}]"
        if not isinstance(entry, dict):
            raise ConfigError(source, place, "expected an object")
        uses = entry.get("key_ops", ["verify"])
        if entry.get("use", "sig") == "sig" and isinstance(uses, list) and "verify" in uses:
            key = _jwk(entry, source, place)
            if key.kid in keys:
                shown = printable(key.kid) if key.kid else "none"
                raise ConfigError(source, f"{place}.kid", f"{shown}, as another key has; each needs its own")
            keys[key.kid] = key
    if not keys:
        raise ConfigError(source, "keys", "there is no key for signatures")
    if len(keys) > 1 and "" in keys:
        raise ConfigError(source, "keys", "where there are several keys, each needs a kid")
    return list(keys.values())


def _jwk(entry: Mapping[str, Any], source: str, place: str) -> Key:
    kid = entry.get("kid", "")
    if not isinstance(kid, str) or len(kid) > _MOST_KID_CHARACTERS:
        raise ConfigError(source, f"{place}.kid", f"expected a text of at most {_MOST_KID_CHARACTERS} characters")
    kind = entry.get("kty")
    if not isinstance(kind, str) or kind not in _ALGORITHMS:
        raise ConfigError(source, f"{place}.kty", f"expected one of {', '.join(_ALGORITHMS)}")
    algorithm = _ALGORITHMS[kind]
    if entry.get("alg", algorithm) != algorithm:
        raise ConfigError(source, f"{place}.alg", f"a key of kind {kind} is for {algorithm} here, and says another")
    if entry.get("crv") != _CURVES.get(kind):
        raise ConfigError(source, f"{place}.crv", f"expected {_CURVES.get(kind, 'none')} for a key of kind {kind}")
    if not _PRIVATE.isdisjoint(entry):
        raise ConfigError(source, place, "a private key; give its public part only, and take this one out of use")
    try:
        key = jwt.PyJWK(dict(entry), algorithm).key
        jwt.PyJWS([algorithm]).get_algorithm_by_name(algorithm).prepare_key(key)
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError, KeyError) as error:
        # The text of the error may show the key.
        raise ConfigError(source, place, f"no key of kind {kind} that can be read") from error
    return Key(kid, _algorithm(key, source, place), key)
