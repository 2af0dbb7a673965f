"""What says who somebody is, and what he may do: policies, files of tokens and keys, JWTs, names of certificates."""

# ruff: noqa: PT017 -- an error may be raised, but not any

from __future__ import annotations

import json
import tempfile
import time
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hub.errors import InvalidNameError
from hub.policy.certificate_name import parse_certificate_name
from hub.policy.language import read_accounts, read_policy
from hub.policy.policy import Action, Policy
from hub.policy.verdict import DEEDS, verdict
from hub.settings.config import ConfigError
from hub.settings.sections import AccessSettings
from peers.users.access import Access, Refusal
from peers.users.jwts import Jwts, Key, read_keys
from peers.users.tokens import hash_of, read_tokens
from peers.users.users import NOBODY
from tests.fuzz.target import Target
from tests.users.keys import ALGORITHMS, SECRET, jwk, public_pem, token

__all__ = ["USERS_TARGETS"]

_NOW_S = 1_800_000_000.0
_CLAIMS = {"iss": "i", "aud": "hub", "sub": "alice", "exp": _NOW_S + 60, "roles": ["reader"]}
_ACCESS = Access(NOBODY, time.monotonic, time.time)
_JWTS = Jwts([Key("hs256", "HS256", SECRET)], AccessSettings(jwt_issuer="i", jwt_audience="hub"))


def _run_policy(data: bytes) -> None:
    try:
        text = data.decode()
        tree = tomllib.loads(text)
    except (ValueError, RecursionError):
        return
    try:
        policy = read_policy(tree, "policy.toml")
        read_accounts(tree, policy, "policy.toml")
    except ConfigError as error:
        assert str(error).isprintable(), str(error)
        return
    for user in policy.users:
        rights = policy.rights(user)
        for action in Action:
            for topic in ("", "/a", f"/status/{user}/x", "$hub/x"):
                decisive = rights.grant(action, topic)
                assert rights.may(action, topic) is (decisive is not None and decisive.allowed)
                assert not rights.may_all(action, topic) or not topic or rights.may(action, topic)
                _say_which(policy, user, action, topic)


def _say_which(policy: Policy, user: str, action: Action, topic: str) -> None:
    """What decides is told in a line that can be printed."""
    found = verdict(policy, user, (), DEEDS[action.value], topic)
    assert found.text.isprintable(), found.text


def _run_tokens(data: bytes) -> None:
    try:
        tokens = read_tokens(data, "tokens")
    except ConfigError as error:
        assert str(error).isprintable(), str(error)
        return
    assert all(tokens.of_id(one.id) is one and tokens.find(one.sha256) is None for one in tokens)


@cache
def _keys_path() -> Path:
    path = Path(tempfile.mkdtemp(prefix="topichub-fuzz-")) / "keys"
    path.touch(0o600)
    return path


def _run_keys(data: bytes) -> None:
    path = _keys_path()
    path.write_bytes(data)
    try:
        keys = read_keys(path)
    except ConfigError as error:
        assert str(error).isprintable(), str(error)
        return
    assert {key.algorithm for key in keys} <= set(ALGORITHMS)
    assert len({key.kid for key in keys}) == len(keys)


def _run_jwt(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        identity = _JWTS.identity(text, _NOW_S)
    except Refusal as refusal:
        assert refusal.text.isprintable(), refusal.text
        return
    assert text in _right_tokens(), "somebody has made a token without the key"
    assert identity.user == "alice"


def _run_claims(data: bytes) -> None:
    try:
        identity = _JWTS.identity(token(data), _NOW_S)
    except Refusal as refusal:
        assert refusal.text.isprintable(), refusal.text
        return
    claims = json.loads(data)
    assert (identity.user, claims["iss"]) == (claims["sub"], "i")
    assert claims["exp"] > _NOW_S - 60


def _run_certificate_name(data: bytes) -> None:
    try:
        name = parse_certificate_name(data.decode("utf-8", "surrogateescape"))
    except InvalidNameError as error:
        assert str(error).isprintable(), str(error)
        return
    assert parse_certificate_name(name.text) == name


@cache
def _right_tokens() -> Sequence[str]:
    return [token(_CLAIMS), token(_CLAIMS, kid=None), token(_CLAIMS, typ="JWT")]


@cache
def _key_seeds() -> Sequence[bytes]:
    entries = [jwk(algorithm) for algorithm in ALGORITHMS]
    pems = [public_pem(algorithm) for algorithm in ALGORITHMS if algorithm != "HS256"]
    return [json.dumps({"keys": entries}).encode(), *(json.dumps({"keys": [one]}).encode() for one in entries), *pems]


_POLICY = b"""[roles.a]
publish = ["/a", "/status/{user}"]
subscribe = { allow = ["*"], deny = ["/b"] }
claim = ["org.example"]
link = { bring = ["/a"], take = [] }
admin = true
[users]
alice = ["a", "reader"]
bob = []
[certificates]
"CN=alice,O=Example" = "alice"
[unix]
7 = "bob"
"""

_TOKENS = b"\n".join(
    [
        b"# some",
        b'{"sha256":"%s","user":"alice","created":"2026-11-22T10:00:00Z"}' % hash_of("a").encode(),
        b'{"sha256":"%s","user":"b","created":"2026-11-22T10:00:00Z","ends":"2027-11-22T10:00:00+01:00","roles":["x"]}'
        % hash_of("b").encode(),
    ]
)

_NAMES = (rb"CN=alice,O=Example\, Inc.,C=US", rb"CN=\C3\89+UID=7", b"DNS:a.example", b"URI:urn:a", b"email:a@example")

USERS_TARGETS = (
    Target("policy", _run_policy, lambda: [_POLICY], [b"{user}", b'"*"', b"'$hub'", b"[]", b"{}", b"deny", b"'/a/'"]),
    Target("tokens", _run_tokens, lambda: [_TOKENS], [b'"user"', b'"ends"', b"null", b"\n", b"Z", b"9999999999"]),
    Target("jwt_keys", _run_keys, _key_seeds, [b'"kid"', b'"d"', b'"alg"', b"HS256", b"none", b"null", b"AQAB"], 500),
    Target("jwt", _run_jwt, lambda: [one.encode() for one in _right_tokens()], [b".", b"e30", b"=", b"bm9uZQ"]),
    Target(
        "jwt_claims", _run_claims, lambda: [json.dumps(_CLAIMS).encode()], [b"NaN", b"1e999", b"null", b"[", b'"sub"']
    ),
    Target(
        "certificate_name", _run_certificate_name, lambda: _NAMES, [b"\\", b"+", b",", b"=", b"\\ff", b"\\2C", b" "]
    ),
)
