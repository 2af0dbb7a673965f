"""Settings: the table of keys, how layers are merged, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest

from hub.limits import Overflow, QueueLimits
from hub.settings.keys import DEFAULT, KEYS, ConfigError, Key, Kind, merge, parse_size, told, value_at
from hub.settings.settings import Settings

NUMBERS = [key for key in KEYS.values() if key.kind in {Kind.COUNT, Kind.SIZE, Kind.SECONDS}]


def tree(path: str, value: object) -> dict[str, Any]:
    section, _, name = path.rpartition(".")
    return {section: {name: value}} if section else {name: value}


def refusal(*layers: tuple[str, dict[str, Any]]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        merge(layers)
    return caught.value


def by_path(key: Key) -> str:
    return key.path


def test_defaults() -> None:
    settings, origins = merge([])
    assert settings == Settings()
    assert settings.listen == ("tcp://127.0.0.1:7400", "ws://127.0.0.1:7401")
    assert settings.queue == QueueLimits(8192, 64 * 1024 * 1024, Overflow.DROP_OLDEST)
    assert settings.limits.frame_bytes == 16 * 1024 * 1024
    assert origins == dict.fromkeys(KEYS, DEFAULT)


@pytest.mark.parametrize("key", KEYS.values(), ids=by_path)
def test_ends_of_ranges(key: Key) -> None:
    assert key.convert(msgspec.to_builtins(key.default)) == key.default
    assert value_at(Settings(), key.path) == key.default
    if key not in NUMBERS:
        return
    step = 0.01 if key.kind is Kind.SECONDS else 1
    assert key.convert(key.least) == key.least
    assert key.convert(key.most) == key.most
    for value in (key.least - step, key.most + step):
        error = refusal(("hub.toml", tree(key.path, value)))
        assert error.key == key.path
        assert key.expected in str(error)
    none = {"access.reload_closes", "limits.drain_s", "limits.memory_bytes", "shm.over_bytes", "shm.segments"}
    if key.path in none or key.path.startswith("quotas."):
        assert key.convert(0) == 0
    else:  # zero never means nothing or everything
        assert "0 given" in str(refusal(("hub.toml", tree(key.path, 0))))


@pytest.mark.parametrize("value", [True, "many", 1.5, None, [1], {"a": 1}, float("nan"), float("inf"), 10**30])
@pytest.mark.parametrize("path", ["queue.messages", "queue.bytes", "limits.connections"])
def test_wrong_type_of_number(path: str, value: object) -> None:
    error = refusal(("hub.toml", tree(path, value)))
    assert (error.source, error.key) == ("hub.toml", path)
    assert str(error).startswith(f"hub.toml: {path}: ")
    assert KEYS[path].expected in error.reason


UNKNOWN = [
    ({"queue": {"mesages": 1}}, "queue.mesages", "in [queue]", "did you mean queue.messages?"),
    ({"messages": 1}, "messages", "at the top level", "did you mean queue.messages?"),
    ({"quee": {"messages": 1}}, "quee", "at the top level", "did you mean queue?"),
    ({"limits": {"queue": {}}}, "limits.queue", "in [limits]", ""),
    ({"": 1}, "", "at the top level", ""),
    ({"x" * 1000: 1}, "x" * 20, "at the top level", ""),
    ({"\x1b[2J\n": 1}, "\\x1b[2J\\n", "at the top level", ""),
]


@pytest.mark.parametrize(("layer", "key", "place", "hint"), UNKNOWN)
def test_unknown_key(layer: dict[str, Any], key: str, place: str, hint: str) -> None:
    error = refusal(("hub.toml", layer))
    assert error.source == "hub.toml"
    assert key in error.key
    assert all(text in error.reason for text in ("unknown key", place, hint))
    assert str(error).isprintable()
    assert len(str(error)) < 300


def test_monstrous_values() -> None:
    nested: dict[str, Any] = {}
    for _ in range(20_000):
        nested = {"a": nested}
    monsters: list[object] = [int("f" * 100_000, 16), "x" * 100_000, [[[[]]]] * 1000, nested]
    for value in monsters:
        text = str(refusal(("hub.toml", {"queue": {"messages": value}})))
        assert len(text) < 300
    assert "too large to show" in text


def test_two_journals() -> None:
    error = refusal(("hub.toml", {"journal": {"path": "a"}}), ("flag --journal-of", {"journal": {"of": "core"}}))
    assert (error.source, error.key) == ("flag --journal-of", "journal.of")
    assert "journal.path (hub.toml)" in error.reason


STORES = {"stores": {"open": ["a=:memory:", "b=:memory:", "fed=:memory:"], "feeds": ["fed=/x"]}}


def with_stores(**zeek: list[str]) -> dict[str, Any]:
    return STORES | {"zeek": zeek}


def fed(feed: str) -> dict[str, Any]:
    return {"stores": {"open": ["a=:memory:"], "feeds": [feed]}}


NEVER_MATCH = ("https://example.org/", "example.org", "https://Example.org", "https://u@h", "*", "")
NO_SECONDS = (float("nan"), float("inf"), -1.0, "5", True)


@pytest.mark.parametrize(
    ("layer", "key", "reason"),
    [
        ({"queue": 5}, "queue", "expected a table [queue]"),
        ({"name": 5}, "name", KEYS["name"].expected),
        ({"listen": {"tcp": 1}}, "listen", "expected a list of one or more URLs"),
        ({"journal": {"tier": "/mnt/tier"}}, "journal.tier", "set journal.path"),
        ({"queue": {"bytes": "1GB"}}, "queue.bytes", "queue_max.bytes = 268435456 (default)"),
        ({"queue_max": {"messages": 100}}, "queue_max.messages", "queue.messages = 8192 (default)"),
        *(({"websocket": {"origins": [one]}}, "websocket.origins", "'https://example.org'") for one in NEVER_MATCH),
        *(({"limits": {"handshake_s": one}}, "limits.handshake_s", "from 0.1 to 3600 (seconds)") for one in NO_SECONDS),
        (with_stores(masters=["c"]), "zeek.masters", "'c' is not a store of `stores.open`"),
        (with_stores(masters=["a", "a=a"]), "zeek.masters", "there are two stores 'a'"),
        (with_stores(masters=["x/y=a/b"]), "zeek.masters", "'a/b' is not a valid name of a store"),
        (with_stores(masters=["/x=a"]), "zeek.masters", "'/x' is not a valid name of a store at a Zeek"),
        (with_stores(masters=["x/<$>/y=a"]), "zeek.masters", "is not a valid name of a store at a Zeek"),
        (with_stores(masters=["a"], clones=["x=a"]), "zeek.clones", "'a' follows one store only"),
        (with_stores(clones=["x=a", "y=a"]), "zeek.clones", "'a' follows one store only"),
        (with_stores(masters=["a"], clones=["a=b"]), "zeek.clones", "there are two stores 'a'"),
        (with_stores(clones=["c"]), "zeek.clones", "'c' is not a store of `stores.open`"),
        (with_stores(clones=["x=fed"]), "zeek.clones", "'fed' follows a store of a Zeek, so that no messages feed it"),
        (fed("b=/status/"), "stores.feeds", "'b' is not a store of `stores.open`"),
        ({"stores": {"open": ["a"]}}, "stores.open", "write NAME=FILE"),
        ({"stores": {"open": ["a=x", "a=y"]}}, "stores.open", "there are two stores 'a'"),
        (fed("a"), "stores.feeds", "write NAME=PREFIX"),
        (fed("a=$store/a/"), "stores.feeds", "topics under $store/ feed no store"),
    ],
)
def test_what_is_refused(layer: dict[str, Any], key: str, reason: str) -> None:
    error = refusal(("hub.toml", layer))
    assert (error.source, error.key) == ("hub.toml", key)
    assert reason in str(error)


def test_what_is_taken() -> None:
    zeek = with_stores(masters=["a", "zeek/known/hosts=a"], clones=["x/y=b"])
    good = merge([("a", zeek | {"queue": {"messages": 50}, "queue_max": {"messages": 50}})])[0]
    assert (good.zeek.masters, good.zeek.clones) == (("a", "zeek/known/hosts=a"), ("x/y=b",))
    assert (good.stores.feeds, good.queue.messages) == (("fed=/x",), 50)


def test_keys_are_complete() -> None:
    sections = [name for name in Settings.__struct_fields__ if isinstance(getattr(Settings(), name), msgspec.Struct)]
    expected = {name for name in Settings.__struct_fields__ if name not in sections}
    expected |= {f"{name}.{field}" for name in sections for field in getattr(Settings(), name).__struct_fields__}
    assert set(KEYS) == expected
    assert all(key.description.endswith(".") for key in KEYS.values())
    assert all(key.unit for key in NUMBERS)


def test_choices_are_the_types_own() -> None:
    assert KEYS["queue.overflow"].choices == tuple(policy.value for policy in Overflow)
    fields = {field.name: field.type for field in msgspec.structs.fields(type(Settings().log))}
    for name in ("level", "format"):
        assert KEYS[f"log.{name}"].choices == get_args(get_args(fields[name])[0])


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("queue.messages", "1000", 1000),
        ("queue.messages", " 1_000 ", 1000),
        ("queue.messages", "many", "many"),
        ("queue.messages", "9" * 5000, "9" * 5000),
        ("queue.bytes", "1MiB", "1MiB"),
        ("limits.handshake_s", "2.5", 2.5),
        ("limits.handshake_s", "soon", "soon"),
        ("peers", "", ()),
        ("peers", "tcp://a:1, tcp://b:2,", ("tcp://a:1", "tcp://b:2")),
        ("name", " x", " x"),
        ("log.level", "debug", "debug"),
    ],
)
def test_from_text(path: str, text: str, value: object) -> None:
    assert KEYS[path].from_text(text) == value


SIZES = {
    "0": 0,
    "65536": 65_536,
    "65_536": 65_536,
    "12 B": 12,
    "64KiB": 65_536,
    "16 MiB": 16 * 1024**2,
    "2gib": 2 * 1024**3,
    "1TiB": 1024**4,
    "1KB": 1000,
    "1MB": 10**6,
    "1GB": 10**9,
    " 1TB ": 10**12,
}


def test_sizes() -> None:
    assert {text: parse_size(text) for text in SIZES} == SIZES


NO_SIZES = ["", "KiB", "1K", "1 M", "1.5MiB", "-1", "+1", "1  MiB", "1MiB/s", "٣", "9" * 5000]
NO_MODES = ["999", "rw-", "06600", ""]


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        *((text, parse_size, "a size") for text in NO_SIZES),
        *((text, KEYS["unix.mode"].convert, "three octal digits such as '0660'") for text in NO_MODES),
    ],
)
def test_no_sizes_and_no_modes(text: str, read: Callable[[str], object], expected: str) -> None:
    with pytest.raises(ValueError, match=f"expected {expected}"):
        read(text)


def test_what_is_shown() -> None:
    layer = {"peers": ["tcp://ada:secret@127.0.0.1:7400"], "stores": {"open": ["a=:memory:"]}}
    shown = {row["setting"]: row for row in told(*merge([("hub.toml", layer)]))}
    assert list(shown) == list(KEYS)
    assert "secret" not in str(shown["peers"]["value"])
    assert (shown["stores.open"]["value"], shown["stores.open"]["from"]) == (["a=:memory:"], "hub.toml")
    assert (shown["queue.messages"]["unit"], shown["queue.messages"]["from"]) == ("messages", DEFAULT)
