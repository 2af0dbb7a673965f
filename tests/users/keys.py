"""Keys that sign JWTs, and files with what a hub needs of them; made once for a session."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

__all__ = ["ALGORITHMS", "SECRET", "jwk", "jwks", "private_key", "public_pem", "token"]
ALGORITHMS = ["RS256", "ES256", "EdDSA", "HS256"]
SECRET = b"0123456789abcdef0123456789abcdef"


@cache
def private_key(algorithm: str) -> Any:
    match algorithm:
        case "RS256":
            return rsa.generate_private_key(65537, 2048)
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case "EdDSA":
            return ed25519.Ed25519PrivateKey.generate()
        case _:
            return SECRET


def public_pem(algorithm: str) -> bytes:
    pem: bytes = private_key(algorithm).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def jwk(algorithm: str, **changed: Any) -> dict[str, Any]:
    if algorithm == "HS256":
        entry = {"kty": "oct", "k": base64.urlsafe_b64encode(SECRET).rstrip(b"=").decode()}
    else:
        public = private_key(algorithm).public_key()
        entry = jwt.PyJWS().get_algorithm_by_name(algorithm).to_jwk(public, as_dict=True)
    entry = {name: value for name, value in entry.items() if name != "key_ops"} | {"kid": algorithm.lower()} | changed
    return {name: value for name, value in entry.items() if value is not None}


def jwks(path: Path, *entries: Any) -> str:
    path.touch(0o600)
    path.write_text(json.dumps({"keys": entries}))
    return str(path)


def token(claims: Any, algorithm: str = "HS256", *, key: Any = None, **header: Any) -> str:
    content = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    fields = {"alg": algorithm, "kid": algorithm.lower()} | header
    head = json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (head, content))
    signer = jwt.PyJWS().get_algorithm_by_name(algorithm)
    signature = signer.sign(signed, private_key(algorithm) if key is None else key)
    return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()
