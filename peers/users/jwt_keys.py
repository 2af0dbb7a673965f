"""`read_keys`: the keys of whoever issues JWTs, from a JWKS or a PEM file.

| key | algorithm |
|---|---|
| RSA, 2,048 bits or more | RS256 |
| EC on P-256 | ES256 |
| Ed25519 | EdDSA |
| a secret of 32 bytes or more (`oct`, JWKS only) | HS256 |

`alg` of a key in a JWKS must be that of its kind. Keys that are not for signatures (`use`, `key_ops`) are passed over:
issuers publish those beside the others. A file with a secret must be readable for nobody but its owner; private keys
are refused, for the hub needs none.

Owner: nobody. Not here: tokens (`peers.users.jwts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from hub.settings.config import ConfigError
from hub.topics import printable
from peers.users.files import read_file
from peers.users.jwts import Key, strict_json
from peers.users.token_file import check_private

_LARGEST_FILE_BYTES = 1024 * 1024
"""A thousand keys."""

_LEAST_RSA_BITS = 2048
_LEAST_SECRET_BYTES = 32
"""As long as the hash, as RFC 7518 (3.2) asks for."""

_MOST_KID_CHARACTERS = 256

_ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA", "oct": "HS256"}
_CURVES = {"EC": "P-256", "OKP": "Ed25519"}
_PRIVATE = frozenset({"d", "p", "q"})
_PUBLIC_HEAD = b"-----BEGIN PUBLIC KEY-----"


def read_keys(path: Path) -> list[Key]:
    """Read a file of keys.

    Raises:
        ConfigError: It cannot be used; the text names the key in it, and shows nothing of it.
    """
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
    """Read the one public key of a PEM file."""
    if content.count(b"-----BEGIN") != 1 or _PUBLIC_HEAD not in content:
        hint = "give one PUBLIC KEY; of a certificate: openssl x509 -pubkey -noout; several keys belong into a JWKS"
        raise ConfigError(source, "", f"not one public key: {hint}")
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(source, "", "no public key that can be read") from error
    return Key("", _algorithm(key, source, ""), key)


def _algorithm(key: object, source: str, place: str) -> str:
    """Return the one algorithm that a public key is used with."""
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
            raise ConfigError(source, place, "a kind of key that is not taken; there are RSA, EC on P-256, Ed25519")


def _jwks(tree: object, source: str) -> list[Key]:
    """Read the keys of a JWKS."""
    entries = tree.get("keys") if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise ConfigError(source, "keys", "a list of keys is expected, as a JWKS has it")
    keys: dict[str, Key] = {}
    for number, entry in enumerate(entries):
        place = f"keys[{number}]"
        if not isinstance(entry, dict):
            raise ConfigError(source, place, "expected an object")
        if _signs(entry):
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


def _signs(entry: Mapping[str, Any]) -> bool:
    """Return whether a key is for checking signatures."""
    uses = entry.get("key_ops", ["verify"])
    return entry.get("use", "sig") == "sig" and isinstance(uses, list) and "verify" in uses


def _jwk(entry: Mapping[str, Any], source: str, place: str) -> Key:
    """Read one key of a JWKS."""
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
        # What the error says may show the key.
        raise ConfigError(source, place, f"no key of kind {kind} that can be read") from error
    return Key(kid, _algorithm(key, source, place), key)
