"""How keys, values and entries are written and read on the command line.

| what | form |
|---|---|
| a key or value that is given as an argument | JSON if it reads as such, else text |
| a key that is shown to people | its text, or JSON |
| an entry as a line | `{"key": ..., "value": ..., "version": ..., "expires": ...}` |

JSON has fewer types than stores: a count, a set or bytes would come back as something else. Such a key or value stands
in the line as its msgpack, too, in base64, as `key_msgpack` or `value_msgpack`, which is what counts where a line is
read. `expires` is a time, or null.

No state, no I/O.
"""

from __future__ import annotations

import base64
import os
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from peers.cli.errors import FlagError
from peers.cli.moments import moment, with_zone
from peers.cli.replay import UnreadableError, decode_text, decode_value
from peers.cli.texts import escaped, json_text
from peers.client import StoreEntry
from peers.client.stores.values import value_of
from peers.client.values import encode_value
from peers.wire.malformed import MALFORMED

__all__ = ["Given", "given", "left_s", "line_of", "now", "object_of", "read_line", "shown"]

_SECOND_US = 1_000_000

_from_json = msgspec.json.Decoder().decode


class Given(NamedTuple):
    """An entry that a line holds."""

    key: Any
    value: Any
    expires: datetime | None


class _Line(msgspec.Struct):
    """An entry as it is read; what else stands in the line does not count."""

    key: Any = msgspec.UNSET
    value: Any = msgspec.UNSET
    key_msgpack: str | None = None
    value_msgpack: str | None = None
    expires: datetime | None = None


_line = msgspec.json.Decoder(_Line).decode


def given(argument: str, what: str, *, as_text: bool) -> Any:
    """Return the key or value that an argument means.

    Args:
        argument: As it was given.
        what: It is called so in the error.
        as_text: Whether it is text although it may read as JSON.

    Raises:
        FlagError: It is not UTF-8.
    """
    try:
        return (decode_text if as_text else decode_value)(os.fsencode(argument))
    except UnreadableError as error:
        raise FlagError(f"{what} is {error}") from error


def shown(value: Any) -> str:
    """Return a key or value for people: text as it is, all else as JSON."""
    if isinstance(value, str):
        return escaped(value)
    packed = json_text(value)
    return escaped(packed.decode() if packed is not None else repr(value))


def object_of(entry: StoreEntry, at: datetime) -> dict[str, Any]:
    """Return an entry as an object whose members have a JSON form, with the time at which it was read."""
    made: dict[str, Any] = {"key": entry.key, "value": entry.value, "version": entry.version, "expires": None}
    if entry.expires_s is not None:
        made["expires"] = moment(round((at.timestamp() + entry.expires_s) * _SECOND_US))
    for name in ("key", "value"):
        text = json_text(made[name])
        packed = encode_value(made[name])
        made[name] = None if text is None else msgspec.Raw(text)
        if text is None or encode_value(_from_json(text)) != packed:
            made[f"{name}_msgpack"] = base64.b64encode(packed).decode()
    return made


def line_of(entry: StoreEntry, at: datetime) -> bytes:
    """Return the line of an entry, with its end."""
    return msgspec.json.encode(object_of(entry, at)) + b"\n"


def read_line(line: bytes) -> Given:
    """Return the entry that a line holds.

    Raises:
        UnreadableError: It holds none.
    """
    try:
        read = _line(line)
        key = _read(read.key, read.key_msgpack, "key")
        value = _read(read.value, read.value_msgpack, "value")
    except (*MALFORMED, ValueError) as error:
        raise UnreadableError(f'no entry such as {{"key": ..., "value": ...}}: {error}') from error
    return Given(key, value, None if read.expires is None else with_zone(read.expires))


def left_s(expires: datetime | None, at: datetime) -> float | None:
    """Return for how long an entry lives on, seconds; None: for ever."""
    return None if expires is None else (expires - at) / timedelta(seconds=1)


def _read(plain: Any, packed: str | None, name: str) -> Any:
    if packed is not None:
        return value_of(base64.b64decode(packed, validate=True))
    if plain is msgspec.UNSET:
        raise ValueError(f"it has no {name!r}")
    return plain


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
