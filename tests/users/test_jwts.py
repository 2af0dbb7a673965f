"""JWTs and the files of their keys: who shows a right one is recognised, and every other is refused for its reason."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from hub.settings.keys import ConfigError
from hub.settings.settings import AccessSettings
from peers.users.identity import Identity, Reason, Refusal
from peers.users.jwts import LEEWAY_S, Jwts, Key, read_keys
from tests.users.keys import ALGORITHMS, SECRET, jwk, jwks, private_key, public_pem, token

NOW_S = 1_800_000_000.0
ISSUER = "https://login.example.org/"
CLAIMS = {"iss": ISSUER, "aud": "hub", "sub": "alice", "exp": NOW_S + 60, "roles": ["reader"]}
SETTINGS = AccessSettings(jwt_issuer=ISSUER, jwt_audience="hub")


def verifying(algorithm: str, kid: str | None = None) -> Key:
    key = private_key(algorithm)
    return Key(algorithm.lower() if kid is None else kid, algorithm, key if key is SECRET else key.public_key())


def all_keys() -> Jwts:
    return Jwts([verifying(algorithm) for algorithm in ALGORITHMS], SETTINGS)


def refused(text: str, jwts: Jwts | None = None, now_s: float = NOW_S) -> Refusal:
    with pytest.raises(Refusal) as caught:
        (jwts or all_keys()).identity(text, now_s)
    assert text[-20:] not in caught.value.text
    return caught.value


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_right_token(algorithm: str) -> None:
    identity = all_keys().identity(token(CLAIMS, algorithm), NOW_S)
    assert identity == Identity("alice", frozenset({"reader"}), "jwt", NOW_S + 60 + LEEWAY_S, identity.key)


def test_whose_tokens_are_still_taken() -> None:
    mark = all_keys().identity(token(CLAIMS), NOW_S).key
    assert all_keys().takes(mark)
    assert Jwts([verifying("HS256")], SETTINGS).takes(mark)
    other = Key("hs256", "HS256", SECRET[::-1])
    assert not Jwts([verifying("RS256")], SETTINGS).takes(mark)
    assert not Jwts([other], SETTINGS).takes(mark)
    for name in ("jwt_issuer", "jwt_audience", "jwt_user", "jwt_roles"):
        changed = msgspec.structs.replace(SETTINGS, **{name: "x"})
        assert not Jwts([verifying("HS256")], changed).takes(mark)


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": ["other", "hub"]},
        {"nbf": NOW_S},
        {"nbf": NOW_S + LEEWAY_S},
        {"exp": NOW_S + 1},
        {"exp": NOW_S - LEEWAY_S + 1},
        {"exp": NOW_S + 0.5},
        {"roles": "reader"},
        {"roles": ["reader", "reader", ""]},
        {"more": {"a": [1, None, "x"]}},
        {"iat": NOW_S + 1000},
    ],
)
def test_tokens_that_are_right_too(changed: dict[str, Any]) -> None:
    identity = all_keys().identity(token(CLAIMS | changed), NOW_S)
    assert (identity.user, identity.roles) == ("alice", {"reader"})


def test_claims_of_other_names() -> None:
    settings = AccessSettings(jwt_issuer=ISSUER, jwt_audience="hub", jwt_user="email", jwt_roles="https://x.example/r")
    jwts = Jwts([verifying("HS256")], settings)
    claims = CLAIMS | {"email": "alice@example.org", "https://x.example/r": ["a", "b"]}
    assert jwts.identity(token(claims), NOW_S)[:2] == ("alice@example.org", {"a", "b"})
    assert "'email'" in refused(token(CLAIMS), jwts).text
    del claims["https://x.example/r"]
    assert jwts.identity(token(claims), NOW_S).roles == frozenset()


@pytest.mark.parametrize(
    ("told", "claim", "values"),
    [
        ("another issuer", "iss", [None, "https://login.example.org", [ISSUER], ""]),
        ("another audience", "aud", [None, "hub2", "Hub", [], ["a", "b"], [["hub"]], {"hub": 1}]),
        ("no exp", "exp", [None, str(NOW_S + 60), True, [NOW_S + 60], -1, 10**30, 1e300]),
        ("has ended", "exp", [NOW_S - LEEWAY_S, 0]),
        ("not valid yet", "nbf", [NOW_S + LEEWAY_S + 1]),
        ("no nbf", "nbf", [None, "0"]),
        ("no claim 'sub'", "sub", [None, 7, ["alice"], {"name": "alice"}]),
        (
            "cannot be the name",
            "sub",
            ["", "a/b", "alice\x00", "alice\n", "{user}", "..", "a" * 65, "älice", "a|4711"],
        ),
        ("reserved name", "sub", ["local", "anonymous"]),
        ("neither a list of roles", "roles", [None, 7, {"admin": True}, [["admin"]], ["a", 7], ["r"] * 257]),
    ],
)
def test_wrong_claims(told: str, claim: str, values: list[Any]) -> None:
    for value in values:
        refusal = refused(token(CLAIMS | {claim: value}))
        assert told in refusal.text, value
        assert refusal.reason is (Reason.ENDED if "ended" in told else Reason.JWT)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"null", b"[]", b'"alice"', b"7", b"{", b"\xff{}", b"\xef\xbb\xbf" + json.dumps(CLAIMS).encode()),
        *(json.dumps(CLAIMS).encode("utf-16"), json.dumps(CLAIMS).encode()[:-1] + b', "sub": "root"}'),
        json.dumps(CLAIMS).encode()[:-1] + b', "x": {"a": 1, "a": 1}}',
        json.dumps(CLAIMS).encode()[:-1] + b', "x": NaN}',
        json.dumps(CLAIMS).replace("1800000060.0", "Infinity").encode(),
        *(json.dumps(CLAIMS).replace("1800000060.0", "9" * 5000).encode(), b'{"x":' * 1000 + b"1" + b"}" * 1000),
        b"[" * 5000,
    ],
)
def test_claims_that_are_none(content: bytes) -> None:
    refused(token(content))


def test_a_token_must_not_be_large() -> None:
    assert all_keys().identity(token(CLAIMS | {"x": "y" * 5000}), NOW_S).user == "alice"
    assert "characters" in refused(token(CLAIMS | {"x": "y" * 7000})).text
    assert "characters" in refused("x" * 10_000_000).text
    assert "a long header" in refused(token(CLAIMS, x="y" * 1000)).text


def parts(text: str) -> tuple[str, str, str]:
    head, claims, signature = text.split(".")
    return head, claims, signature


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("name", ["none", "NONE", "nOnE", "", None, 0, ["HS256"], {"a": 1}, True])
@pytest.mark.parametrize("kid", ["hs256", "rs256", None])
def test_no_algorithm(name: Any, kid: str | None) -> None:
    for signature in ("", "AAAA", parts(token(CLAIMS))[2]):
        refused(f"{encoded({'alg': name, 'kid': kid})}.{encoded(CLAIMS)}.{signature}")
        refused(f"{encoded({'alg': name})}.{encoded(CLAIMS)}.{signature}", Jwts([verifying("RS256")], SETTINGS))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_public_key_as_a_secret(algorithm: str) -> None:
    pem = public_pem(algorithm)
    for secret in (pem, pem.strip(), pem + b"\n", json.dumps({"kty": "RSA"}).encode()):
        for jwts in (all_keys(), Jwts([verifying(algorithm)], SETTINGS), Jwts([verifying(algorithm, "")], SETTINGS)):
            forged = token(CLAIMS, "HS256", key=secret, kid=algorithm.lower())
            assert "another algorithm than that of its key" in refused(forged, jwts).text
            refused(token(CLAIMS, "HS256", key=secret, alg=algorithm, kid=algorithm.lower()), jwts)


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_another_hash_than_that_of_the_key(algorithm: str) -> None:
    refused(token(CLAIMS, algorithm, key=SECRET, kid="hs256"))


@pytest.mark.parametrize("kid", ["", "x", "HS256", "hs256 ", "../../etc/passwd", 7, None, ["hs256"], {}, "rs256"])
def test_a_wrong_kid(kid: Any) -> None:
    refused(token(CLAIMS, kid=kid))


def test_one_key() -> None:
    named, nameless = Jwts([verifying("HS256")], SETTINGS), Jwts([verifying("HS256", "")], SETTINGS)
    assert named.identity(token(CLAIMS, kid=None), NOW_S).user == "alice"
    assert nameless.identity(token(CLAIMS, kid="x"), NOW_S).user == "alice"
    assert "a key that is not known" in refused(token(CLAIMS, kid="x"), named).text
    for kid in (7, ["x"], {}, True):
        refused(token(CLAIMS, kid=kid), nameless)
        refused(token(CLAIMS, kid=kid), named)


@pytest.mark.parametrize("odd", [{"crit": ["x"], "x": 1}, {"crit": []}, {"b64": False}, {"b64": True}, {"zip": "DEF"}])
def test_headers_with_what_is_not_understood(odd: dict[str, Any]) -> None:
    assert "not understood" in refused(token(CLAIMS, **odd)).text


def test_headers_that_bring_a_key() -> None:
    other = jwt.PyJWS().get_algorithm_by_name("HS256")
    own = b"f" * 32
    jwk = other.to_jwk(own, as_dict=True)
    for header in ({"jwk": jwk}, {"jku": "https://evil.example/jwks"}, {"x5u": "https://evil.example/c"}):
        assert "signature" in refused(token(CLAIMS, key=own, **header)).text


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_that_was_changed(algorithm: str) -> None:
    right = token(CLAIMS, algorithm)
    head, claims, signature = parts(right)
    forged = encoded(CLAIMS | {"sub": "root"})
    for text in (
        f"{head}.{forged}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}.{signature[:-2]}",
        f"{head}.{claims}.{signature}AA",
        f" {right}",
        f"{right}\n",
        f"{right}\x00",
        f"{head}.{claims}.{parts(token(CLAIMS | {'sub': 'bob'}, algorithm))[2]}",
        f"{encoded({'alg': algorithm, 'kid': algorithm.lower(), 'x': 1})}.{claims}.{signature}",
        token(CLAIMS, "HS256", key=b"x" * 32),
    ):
        refused(text)


def test_many_keys(tmp_path: Path) -> None:
    """That which is named counts, and no other is tried."""
    secrets = [number.to_bytes(32, "big") for number in range(50)]
    texts = [base64.urlsafe_b64encode(secret).rstrip(b"=").decode() for secret in secrets]
    file = tmp_path / "jwks.json"
    jwks(file, *(jwk("HS256", kid=f"key {number}", k=text) for number, text in enumerate(texts)))
    jwts = Jwts(read_keys(file), SETTINGS)
    for number in range(50):
        assert jwts.identity(token(CLAIMS, key=secrets[number], kid=f"key {number}"), NOW_S).user == "alice"
    for kid in (None, "key", "key 50", "KEY 1", 1, ["key 1"]):
        assert "a key that is not known" in refused(token(CLAIMS, key=secrets[1], kid=kid), jwts).text
    assert "signature" in refused(token(CLAIMS, key=secrets[2], kid="key 1"), jwts).text


def refused_file(path: Path) -> str:
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
        (pem_of(ec.generate_private_key(ec.SECP384R1())), "an unsupported kind of key"),
        (pem_of(ed448.Ed448PrivateKey.generate()), "an unsupported kind of key"),
    ):
        file.write_bytes(content)
        assert told in refused_file(file)


@pytest.mark.parametrize(
    ("told", "trees"),
    [
        ("keys: a list of keys is expected", [[], {}, {"keys": {}}]),
        ("keys: there is no key for signatures", [{"keys": []}, {"keys": [jwk("RS256", use="enc")]}]),
        ("keys[1].kty: expected one of RSA, EC, OKP, oct", [{"keys": [jwk("RS256"), {}]}]),
        ("keys[1].kid: 'rs256', as another key has", [{"keys": [jwk("RS256"), jwk("RS256")]}]),
        ("each needs a kid", [{"keys": [jwk("RS256"), jwk("ES256", kid=None)]}]),
    ],
)
def test_broken_files_of_keys(told: str, trees: list[Any], tmp_path: Path) -> None:
    for tree in trees:
        file = tmp_path / "jwks.json"
        file.touch(0o600)
        file.write_text(json.dumps(tree))
        assert told in refused_file(file), tree


@pytest.mark.parametrize(
    ("told", "keys"),
    [
        ("keys[0]: expected an object", [7]),
        ("keys[0].kty", [jwk("RS256", kty="rsa"), jwk("RS256", kty=["RSA"])]),
        ("keys[0].kid", [jwk("RS256", kid=7), jwk("RS256", kid="k" * 257)]),
        ("keys[0].alg: a key of kind RSA is for RS256 here", [jwk("RS256", alg="HS256")]),
        ("keys[0].alg", [jwk("RS256", alg="none"), jwk("RS256", alg="RS512"), jwk("HS256", alg="RS256")]),
        ("keys[0]: no key of kind RSA", [jwk("RS256", n=number) for number in ("AQAB", None, 7, "!!!")]),
        ("keys[0]: no key of kind RSA", [jwk("RS256", e="AA")]),
        ("keys[0]: a private key", [jwk("RS256", d="AQAB")]),
        ("keys[0].crv: expected P-256", [jwk("ES256", crv="P-384"), jwk("ES256", crv=None)]),
        ("keys[0]: no key of kind EC", [jwk("ES256", x="AAAA"), jwk("ES256", x=jwk("ES256")["y"])]),
        ("keys[0].crv: expected Ed25519", [jwk("EdDSA", crv="Ed448")]),
        ("keys[0]: no key of kind OKP", [jwk("EdDSA", x="AAAA")]),
        ("keys[0]: a secret of 5 bytes; 32 or more are needed", [jwk("HS256", k="c2hvcnQ")]),
        ("keys[0]: no key of kind oct", [jwk("HS256", k=""), jwk("HS256", k=7)]),
    ],
)
def test_broken_keys(told: str, keys: list[Any], tmp_path: Path) -> None:
    for key in keys:
        file = tmp_path / "jwks.json"
        jwks(file, key)
        text = refused_file(file)
        assert told in text, key
        assert jwk("HS256")["k"] not in text


def test_a_secret_that_others_may_read(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    jwks(file, jwk("HS256"))
    file.chmod(0o644)
    assert f"chmod 600 {file}" in refused_file(file)
    jwks(file, jwk("RS256"))
    assert len(read_keys(file)) == 1
    assert refused_file(tmp_path / "none") == "there is no such file"


def test_what_is_neither_keys_nor_a_token(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    for content in (b"", b"x", b"\xff", b"[" * 100_000, b'{"keys": [], "keys": []}', b'{"keys": NaN}'):
        file.write_bytes(content)
        assert refused_file(file)
    for text in ("", ".", "a.b", "a.b.c.d", "\ud800.\ud800.\ud800", "e30.e30.e30", "bnVsbA.e30.AAAA", "W10.e30.AAAA"):
        with pytest.raises(Refusal):
            all_keys().identity(text, NOW_S)
