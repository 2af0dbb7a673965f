"""What people write, values in all their forms, who somebody is, and what stores are asked."""

from __future__ import annotations

import base64
import json
import tempfile
import tomllib
from asyncio import TimerHandle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgpack

from hub.core import Core
from hub.errors import RejectedError, UsageError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, Frame
from hub.messages.request_frame import KIND_REQUEST, Reply, Request, Status
from hub.policy.language import read_accounts, read_policy
from hub.policy.policy import DEEDS, Action, Policy, verdict
from hub.settings.keys import ConfigError
from hub.settings.settings import AccessSettings
from hub.stores.command import ENTRY_BYTES, StoreLimits
from peers.daemon.sources import load
from peers.stores.keeping import InMemory
from peers.stores.master import Master
from peers.stores.operations import canonical_form
from peers.transport.endpoints import Endpoint, InvalidEndpointError
from peers.users.identity import Refusal
from peers.users.jwts import Jwts, Key, read_keys
from peers.users.tokens import hash_of, read_tokens
from peers.values import (
    InvalidDataError,
    InvalidInputError,
    check,
    decode,
    decode_message,
    encode,
    encode_json,
    from_msgpack,
    to_msgpack,
    to_text,
)
from peers.values.conversion import is_value, json_of, json_of_broker
from peers.values.event import Event
from tests.fuzz.hub_targets import zeek_messages
from tests.fuzz.target import Target
from tests.hub.fakes import FakeOutlet
from tests.stores.packed import pack
from tests.users.keys import ALGORITHMS, SECRET, jwk, public_pem, token

_DOCUMENTED = (InvalidDataError, InvalidInputError)


@contextmanager
def _printable(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind as error:
        text: str = getattr(error, "text", str(error))
        assert text.isprintable(), text


@cache
def _config_path() -> Path:
    return Path(tempfile.mkdtemp(prefix="topichub-fuzz-")) / "hub.toml"


def _run_toml(data: bytes) -> None:
    path = _config_path()
    path.write_bytes(data)
    with _printable(ConfigError):
        load({}, {}, str(path))


def _run_environment(data: bytes) -> None:
    name, _, value = data.decode("utf-8", "surrogateescape").partition("=")
    with _printable(ConfigError):
        load({}, {"HUB_" + name: value}, None)


def _run_urls(data: bytes) -> None:
    url = data.decode("utf-8", "surrogateescape")
    for parse in (Endpoint.parse, Endpoint.parse_peer, Endpoint.parse_remote):
        with _printable(InvalidEndpointError):
            endpoint = parse(url)
            written = str(endpoint)  # which may be longer: it writes more characters as %XX
            assert len(written) > len(url) or Endpoint.parse(written) == endpoint, "a URL is not what is written of it"


def _attempt(act: Callable[[bytes], bytes | object], data: bytes) -> bytes | None:
    try:
        made = act(data)
    except _DOCUMENTED:
        return None
    return made if isinstance(made, bytes) else None


def _run_values(data: bytes) -> None:
    try:
        value = decode(data)
    except InvalidDataError as error:  # `check` compares the bytes of members and keys, `decode` the values
        told = str(error)
        assert "are the same" in told or not _is_sound(data), "what cannot be decoded is said to be sound"
    else:
        assert decode(encode(value)) == value or value != value  # noqa: PLR0124 -- NaN is not itself
        to_text(value)
        with suppress(UsageError):  # `NoEventError` is one
            Event.of(value)
    packed = _attempt(to_msgpack, data)
    if packed is not None:
        assert from_msgpack(packed) is not None
        json_of(packed)
    text = _attempt(encode_json, data)
    if text is not None:
        text.decode()
    json_of_broker(data)


def _is_sound(data: bytes) -> bool:
    try:
        check(data)
    except InvalidDataError:
        return False
    return True


def _run_msgpack(data: bytes) -> None:
    body = _attempt(from_msgpack, data)
    if body is not None:
        check(body)
        to_msgpack(body)
    json_of(data)
    is_value(data)


def _value_seeds() -> Sequence[bytes]:
    return [decode_message(text)[1] for text in zeek_messages()]


_TOML = b"""name = "a"
listen = ["tcp://127.0.0.1:0?messages=10&overflow=disconnect", "unix:///tmp/x", "ws://[::1]:7401"]
peers = ["zeek+ws://a:1?publish=/a/,/b"]
[queue]
messages = 1_000
bytes = "1MiB"
overflow = "drop-newest"
[limits]
drain_s = 0.5
[websocket]
origins = ["https://example.org"]
hosts = ["*"]
[journal]
topics = ["/a"]
"""

_URLS = (
    b"tcp://127.0.0.1:7400?messages=10&bytes=1MiB&overflow=drop-oldest",
    b"unix:///run/hub%20x.sock?messages=1",
    b"ws://[fe80::1%25eth0]:1/v1/hub",
    b"zeek://a:1",
    b"zeek+ws://a:1?publish=/a/,/b%2Cc",
)

_VARIABLES = (b"QUEUE_BYTES=64KiB", b"LISTEN=tcp://a:1,ws://b:2", b"LIMITS_DRAIN_S=1e3", b"NAME=x", b"LOG_LEVEL=debug")


_NOW_S = 1_800_000_000.0
_CLAIMS = {"iss": "i", "aud": "hub", "sub": "alice", "exp": _NOW_S + 60, "roles": ["reader"]}
_JWTS = Jwts([Key("hs256", "HS256", SECRET)], AccessSettings(jwt_issuer="i", jwt_audience="hub"))


def _run_policy(data: bytes) -> None:
    try:
        text = data.decode()
        tree = tomllib.loads(text)
    except (ValueError, RecursionError):
        return
    policy = Policy({}, {})
    with _printable(ConfigError):
        policy = read_policy(tree, "policy.toml")
        read_accounts(tree, policy, "policy.toml")
    for user in policy.users:
        rights = policy.rights(user)
        for action in Action:
            for topic in ("", "/a", f"/status/{user}/x", "$hub/x"):
                decisive = rights.grant(action, topic)
                assert rights.may(action, topic) is (decisive is not None and decisive.allowed)
                assert not rights.may_all(action, topic) or not topic or rights.may(action, topic)
                found = verdict(policy, user, (), DEEDS[action.value], topic)
                assert found.text.isprintable(), found.text


def _run_tokens(data: bytes) -> None:
    with _printable(ConfigError):
        tokens = read_tokens(data, "tokens")
        assert all(tokens.of_id(one.id) is one and tokens.find(one.sha256) is None for one in tokens)


@cache
def _keys_path() -> Path:
    path = Path(tempfile.mkdtemp(prefix="topichub-fuzz-")) / "keys"
    path.touch(0o600)
    return path


def _run_keys(data: bytes) -> None:
    path = _keys_path()
    path.write_bytes(data)
    with _printable(ConfigError):
        keys = read_keys(path)
        assert {key.algorithm for key in keys} <= set(ALGORITHMS)
        assert len({key.kid for key in keys}) == len(keys)


def _run_jwt(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    with _printable(Refusal):
        identity = _JWTS.identity(text, _NOW_S)
        assert _decoded(text) in map(_decoded, _right_tokens()), "a token was made without the key"
        assert identity.user == "alice"


def _run_claims(data: bytes) -> None:
    with _printable(Refusal):
        identity = _JWTS.identity(token(data), _NOW_S)
        claims = json.loads(data)
        assert (identity.user, claims["iss"]) == (claims["sub"], "i")
        assert claims["exp"] > _NOW_S - 60


def _decoded(text: str) -> list[bytes]:
    """Decode the parts of a token: Base64 has more than one text for the same signature."""
    return [base64.urlsafe_b64decode(part + "==") for part in text.split(".")]


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


class _NoClock:
    def time(self) -> float:
        return 0.0

    def call_at(self, when: float, callback: Callable[..., object], /) -> TimerHandle:  # noqa: ARG002 -- nothing happens
        return _NEVER


class _Never:
    def cancel(self) -> None: ...


_NEVER: Any = _Never()


def _run_requests(data: bytes) -> None:
    limits = StoreLimits(entries=20, bytes=64 * 1024, entry_bytes=16 * 1024, changes=10)
    core = Core()
    master = Master(core, _NoClock(), lambda: 10**18, "s", limits, InMemory(lambda: 1))
    asker = Handler(FakeOutlet(), role=Role.CLIENT, limits=QueueLimits(), name="asker")
    position = 0
    while position + 3 <= len(data):
        kind, size = data[position], int.from_bytes(data[position + 1 : position + 3], "big")
        values = data[position + 3 : position + 3 + size]
        position += 3 + size
        target = (b"$store/s/write", b"$store/s/read", b"$store/s/other")[kind >> 6 & 1 if kind < 0xFF else 2]
        frame = Frame(KIND_REQUEST, kind & 0b111, target, bytes(8) + values)
        try:
            request = Request.decode(frame)
        except RejectedError:
            continue
        answered: list[int] = []

        def take(reply: Reply, count: int, answered: list[int] = answered) -> None:
            assert reply.requests == count
            answered.extend(range(reply.first, reply.first + count))
            if reply.status == Status.OK and reply.flags & FLAG_BATCH:
                unpacker = msgpack.Unpacker(strict_map_key=False)
                unpacker.feed(reply.values[BATCH_COUNT.size :])
                assert len(list(unpacker)) == count, "not as many values as requests"

        if request.requests <= len(data):
            master._answer(asker, request, take)
            assert answered == list(range(request.requests)), "not each request was answered once, in order"
    store = master.store
    assert len(store) <= limits.entries
    assert store.size_bytes == sum(len(key) + len(entry[0]) + ENTRY_BYTES for key, entry in store.entries.items())
    assert all(canonical_form(key) == key for key in store.entries)


def _store_frame(values: list[Any], *, read: bool = False) -> bytes:
    packed = b"".join(map(msgpack.packb, values))
    kind = (1 << 6) * read
    if len(values) > 1:
        kind |= FLAG_BATCH
        packed = BATCH_COUNT.pack(len(values)) + packed
    return bytes((kind,)) + len(packed).to_bytes(2, "big") + packed


def _store_seeds() -> list[bytes]:
    key = pack("k")
    return [
        _store_frame([["put", key, pack(1), None, None]]) + _store_frame([["get", key]], read=True),
        _store_frame([["put", pack(n), pack("x"), 10**9] for n in range(5)])
        + _store_frame([["rows", "", True]], read=True),
        _store_frame(
            [["push", key, pack(1)], ["pop", key], ["insert_entry", key, pack((1, 2))], ["add", key, pack(1)]]
        ),
        _store_frame([["increment", key, pack(2)], ["erase", key, None, None, 2], ["clear"]])
        + _store_frame([["since", 1], ["state"], ["more", 1], ["index", key, pack(0)], ["exists", key]], read=True),
    ]


TARGETS = (
    Target("toml", _run_toml, lambda: [_TOML, *(b"listen = ['" + url + b"']" for url in _URLS)]),
    Target("environment", _run_environment, lambda: _VARIABLES, [b"nan", b"inf", b"9" * 400, b"\xc2\xa0", b"e999"]),
    Target("urls", _run_urls, lambda: _URLS, [b"%00", b"%ff", b"[", b"]", b"@", b"::", b"\xc4\xb1", b"\xe2\x80\xae"]),
    Target("values", _run_values, _value_seeds),
    Target(
        "packed_values",
        _run_msgpack,
        lambda: [to_msgpack(body) for body in _value_seeds()],
        [b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xc7\x00\x05", b"\xd4\x01", b"\xcb\x7f\xf8\0\0\0\0\0\0"],
    ),
    Target("policy", _run_policy, lambda: [_POLICY], [b"{user}", b'"*"', b"'$hub'", b"[]", b"{}", b"deny", b"'/a/'"]),
    Target("tokens", _run_tokens, lambda: [_TOKENS], [b'"user"', b'"ends"', b"null", b"\n", b"Z", b"9999999999"]),
    Target("jwt_keys", _run_keys, _key_seeds, [b'"kid"', b'"d"', b'"alg"', b"HS256", b"none", b"null", b"AQAB"], 100),
    Target("jwt", _run_jwt, lambda: [one.encode() for one in _right_tokens()], [b".", b"e30", b"=", b"bm9uZQ"]),
    Target(
        "jwt_claims", _run_claims, lambda: [json.dumps(_CLAIMS).encode()], [b"NaN", b"1e999", b"null", b"[", b'"sub"']
    ),
    Target(
        "store_requests",
        _run_requests,
        _store_seeds,
        [b"\x00\x00\x00\x02", b"\xc4", b"\xd7\x08", b"\xcf" + b"\xff" * 8, msgpack.packb("put_unique")],
        runs=150,
    ),
)
