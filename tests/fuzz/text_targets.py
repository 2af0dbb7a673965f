"""What people write, and values in all their forms: URLs, settings, and a value in Broker's form, JSON and msgpack."""

# ruff: noqa: PT017 -- an error may be raised, but not any

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from hub.errors import UsageError
from hub.settings.config import ConfigError
from peers.daemon.sources import load
from peers.transport.endpoints import Endpoint, InvalidEndpointError
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

__all__ = ["TEXT_TARGETS"]

_DOCUMENTED = (InvalidDataError, InvalidInputError)


@cache
def _config_path() -> Path:
    return Path(tempfile.mkdtemp(prefix="topichub-fuzz-")) / "hub.toml"


def _run_toml(data: bytes) -> None:
    path = _config_path()
    path.write_bytes(data)
    try:
        load({}, {}, str(path))
    except ConfigError as error:
        assert str(error).isprintable(), str(error)


def _run_environment(data: bytes) -> None:
    name, _, value = data.decode("utf-8", "surrogateescape").partition("=")
    try:
        load({}, {"HUB_" + name: value}, None)
    except ConfigError as error:
        assert str(error).isprintable(), str(error)


def _run_urls(data: bytes) -> None:
    url = data.decode("utf-8", "surrogateescape")
    for parse in (Endpoint.parse, Endpoint.parse_peer, Endpoint.parse_remote):
        try:
            endpoint = parse(url)
        except InvalidEndpointError as error:
            assert str(error).isprintable(), str(error)
        else:
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
        assert "are the same" in str(error) or not _is_sound(data), "what cannot be decoded is said to be sound"
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


def _run_broker_json(data: bytes) -> None:
    try:
        _, body = decode_message(data)
    except InvalidInputError as error:
        assert len(error.context) < 10_000
    else:
        check(body)


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

TEXT_TARGETS = (
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
    Target("broker_json", _run_broker_json, zeek_messages, [b'"', b"\\ud800", b"NaN", b"1e999", b"[" * 64, b"9" * 400]),
)
