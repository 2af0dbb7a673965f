"""Clients that show fresh JWTs again and again: each costs the hub the check of a signature."""

from __future__ import annotations

import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from attacking.crowds import Until, crowd
from attacking.line import Line
from peers.wire.hello import Hello
from peers.wire.token import Renewal, encode_token

__all__ = ["flags", "renewals_at_once", "renewals_in_a_loop"]

_KEY = "key.pem"
_ISSUER, _AUDIENCE = "https://login.example.org/", "hub"
_CLIENTS = 500
_RENEWALS = 20
_LOOP_PREFIXES = 500
"""So many that other rights make the hub forget all routes."""


def flags(directory: Path) -> tuple[str, ...]:
    """Make a key in a directory; return the flags of a hub that takes what it signs, and lets everybody else in."""
    key = ec.generate_private_key(ec.SECP256R1())
    (directory / _KEY).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = directory / "public.pem"
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    named = {"keys": str(public), "issuer": _ISSUER, "audience": _AUDIENCE}
    jwts = (word for name, value in named.items() for word in (f"--access-jwt-{name}", value))
    return (*jwts, "--anonymous", "member")


class _Issuer:
    """Signs tokens with the key of a directory."""

    def __init__(self, directory: str) -> None:
        self._key = load_pem_private_key(Path(directory, _KEY).read_bytes(), None)

    def token(self, user: str, *roles: str) -> str:
        """Return a token that holds for an hour."""
        claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": user, "exp": time.time() + 3600, "roles": list(roles)}
        return jwt.encode(claims, self._key, "ES256")  # type: ignore[arg-type]


def renewals_at_once(url: str, until: Until) -> None:
    """500 clients show 20 fresh JWTs each within a moment, once a second: 10,000 signatures at once."""
    tcp, directory, _ = url.split(" ")
    issuer = _Issuer(directory)
    tokens = [issuer.token(f"user{number}", "member") for number in range(_CLIENTS)]
    lines = crowd(tcp, _CLIENTS, until, role="")
    for line, token in zip(lines, tokens, strict=False):
        line.send(Hello(protocol=1, role="client", token=token).encode())
    while not until():
        for line, token in zip(lines, tokens, strict=False):
            line.send(encode_token(Renewal(1, token)) * _RENEWALS)
        for line in lines:
            line.wait(0)
        time.sleep(1)


def renewals_in_a_loop(url: str, until: Until) -> None:
    """One client with 500 prefixes shows JWTs as fast as they are taken, each with other roles than the one before."""
    tcp, directory, _ = url.split(" ")
    issuer = _Issuer(directory)
    first, second = issuer.token("mallory", "member"), issuer.token("mallory", "member", "reader")
    line = Line(tcp, "")
    line.send(Hello(protocol=1, role="client", token=first).encode())
    line.subscribe([f"/loop/{number}" for number in range(_LOOP_PREFIXES)])
    pair = encode_token(Renewal(1, second)) + encode_token(Renewal(2, first))
    while not until() and line.send(pair * 50):
        line.wait(0)
