"""The table of settings: it is complete, and each key reads and checks what it takes."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from hub.overflow import Overflow
from hub.settings.keys import KEYS, Key, Kind, value_at
from hub.settings.settings import Settings

NUMBERS = [key for key in KEYS.values() if key.kind in {Kind.COUNT, Kind.SIZE, Kind.SECONDS}]


def by_path(key: Key) -> str:
    return key.path


def test_keys_are_complete() -> None:
    sections = [name for name in Settings.__struct_fields__ if isinstance(getattr(Settings(), name), msgspec.Struct)]
    expected = {name for name in Settings.__struct_fields__ if name not in sections}
    expected |= {f"{name}.{field}" for name in sections for field in getattr(Settings(), name).__struct_fields__}
    assert set(KEYS) == expected
    assert all(key.description.endswith(".") for key in KEYS.values())
    assert all(key.unit for key in NUMBERS)


@pytest.mark.parametrize("key", KEYS.values(), ids=by_path)
def test_defaults_are_in_range(key: Key) -> None:
    assert key.convert(msgspec.to_builtins(key.default)) == key.default
    assert value_at(Settings(), key.path) == key.default


@pytest.mark.parametrize("text", ["999", "rw-", "06600", ""])
def test_what_is_no_mode(text: str) -> None:
    with pytest.raises(ValueError, match="expected three octal digits such as '0660'"):
        KEYS["unix.mode"].convert(text)


def test_sizes_as_texts() -> None:
    for key in NUMBERS:
        if key.kind is Kind.SIZE:
            assert key.convert("64KiB") == 65_536
        elif key.kind is Kind.COUNT:
            with pytest.raises(ValueError, match="whole number"):
                key.convert("64KiB")


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
