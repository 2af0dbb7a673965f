"""Files of keys: what is taken, with which algorithm, and that what cannot be right is one error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from hub.settings.config import ConfigError
from peers.users.jwts import read_keys
from tests.users.keys import ALGORITHMS, SECRET, jwk, jwks, private_key, public_pem


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_keys(path)
    assert caught.value.source == str(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def test_a_jwks(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    more = [jwk("RS256", kid="e", use="enc", alg="RSA-OAEP"), jwk("RS256", kid="w", key_ops=["wrapKey"])]
    for named in (False, True):
        entries = [
            jwk(one, **({"alg": one, "use": "sig", "key_ops": ["verify"]} if named else {})) for one in ALGORITHMS
        ]
        jwks(file, *entries, *more)
        assert [(key.kid, key.algorithm) for key in read_keys(file)] == [(one.lower(), one) for one in ALGORITHMS]
    assert read_keys(file)[-1].key == SECRET


def pem_of(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def test_pem_files_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    private = private_key("ES256").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    good = public_pem("ES256")
    for content, told in (
        (private, "not one public key"),
        (good + private, "not one public key"),
        (good + good, "not one public key"),
        (b"-----BEGIN CERTIFICATE-----\n", "openssl x509 -pubkey"),
        (good[:-40], "no public key that can be read"),
        (good.replace(b"M", b"!", 1), "no public key that can be read"),
        (b"-----BEGIN PUBLIC KEY-----\n", "no public key that can be read"),
        (pem_of(rsa.generate_private_key(65537, 1024)), "an RSA key of 1024 bits; 2048 or more are needed"),  # noqa: S505
        (pem_of(ec.generate_private_key(ec.SECP384R1())), "a kind of key that is not taken"),
        (pem_of(ed448.Ed448PrivateKey.generate()), "a kind of key that is not taken"),
    ):
        file.write_bytes(content)
        assert told in refused(file)


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ([], "keys: a list of keys is expected"),
        ({}, "keys: a list of keys is expected"),
        ({"keys": {}}, "keys: a list of keys is expected"),
        ({"keys": []}, "keys: there is no key for signatures"),
        ({"keys": [jwk("RS256", use="enc")]}, "keys: there is no key for signatures"),
        ({"keys": [7]}, "keys[0]: expected an object"),
        ({"keys": [jwk("RS256"), {}]}, "keys[1].kty: expected one of RSA, EC, OKP, oct"),
        ({"keys": [jwk("RS256", kty="rsa")]}, "keys[0].kty"),
        ({"keys": [jwk("RS256", kty=["RSA"])]}, "keys[0].kty"),
        ({"keys": [jwk("RS256", kid=7)]}, "keys[0].kid"),
        ({"keys": [jwk("RS256", kid="k" * 257)]}, "keys[0].kid"),
        ({"keys": [jwk("RS256"), jwk("RS256")]}, "keys[1].kid: 'rs256', as another key has"),
        ({"keys": [jwk("RS256"), jwk("ES256", kid=None)]}, "each needs a kid"),
        ({"keys": [jwk("RS256", alg="HS256")]}, "keys[0].alg: a key of kind RSA is for RS256 here"),
        ({"keys": [jwk("RS256", alg="none")]}, "keys[0].alg"),
        ({"keys": [jwk("RS256", alg="RS512")]}, "keys[0].alg"),
        ({"keys": [jwk("HS256", alg="RS256")]}, "keys[0].alg"),
        ({"keys": [jwk("RS256", n="AQAB")]}, "keys[0]: no key of kind RSA"),
        ({"keys": [jwk("RS256", n=None)]}, "keys[0]: no key of kind RSA"),
        ({"keys": [jwk("RS256", n=7)]}, "keys[0]: no key of kind RSA"),
        ({"keys": [jwk("RS256", n="!!!")]}, "keys[0]: no key of kind RSA"),
        ({"keys": [jwk("RS256", e="AA")]}, "keys[0]: no key of kind RSA"),
        ({"keys": [jwk("RS256", d="AQAB")]}, "keys[0]: a private key"),
        ({"keys": [jwk("ES256", crv="P-384")]}, "keys[0].crv: expected P-256"),
        ({"keys": [jwk("ES256", crv=None)]}, "keys[0].crv"),
        ({"keys": [jwk("ES256", x="AAAA")]}, "keys[0]: no key of kind EC"),
        ({"keys": [jwk("ES256", x=jwk("ES256")["y"])]}, "keys[0]: no key of kind EC"),
        ({"keys": [jwk("EdDSA", crv="Ed448")]}, "keys[0].crv: expected Ed25519"),
        ({"keys": [jwk("EdDSA", x="AAAA")]}, "keys[0]: no key of kind OKP"),
        ({"keys": [jwk("HS256", k="c2hvcnQ")]}, "keys[0]: a secret of 5 bytes; 32 or more are needed"),
        ({"keys": [jwk("HS256", k="")]}, "keys[0]: no key of kind oct"),
        ({"keys": [jwk("HS256", k=7)]}, "keys[0]: no key of kind oct"),
    ],
)
def test_broken_keys(tree: Any, told: str, tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.touch(0o600)
    file.write_text(json.dumps(tree))
    text = refused(file)
    assert told in text
    assert jwk("HS256")["k"] not in text


@pytest.mark.parametrize(
    "content", [b"", b"{", b"x", b"\xff", b"[" * 100_000, b'{"keys": [], "keys": []}', b'{"keys": NaN}']
)
def test_what_is_no_jwks(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(content)
    assert refused(file)


def test_every_line_broken(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.touch(0o600)
    lines = json.dumps({"keys": [jwk("ES256"), jwk("HS256")]}, indent=1).splitlines()
    for number in range(len(lines)):
        file.write_text("\n".join([*lines[:number], *lines[number + 1 :]]))
        refused(file)


def test_a_secret_that_others_may_read(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    jwks(file, jwk("HS256"))
    file.chmod(0o644)
    assert f"chmod 600 {file}" in refused(file)
    jwks(file, jwk("RS256"))
    assert len(read_keys(file)) == 1
    assert refused(tmp_path / "none") == "there is no such file"
