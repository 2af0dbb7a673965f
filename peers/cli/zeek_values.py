"""Zeek events on the command line: `hub sub --zeek` and `hub pub --zeek-event`.

Arguments are a JSON array. A member `@data-type` gives any type, as in `/v1/messages/json`; else JSON becomes count (0
or more), int, double, bool, none, string, vector or table.
"""

from __future__ import annotations

from typing import Any

import msgspec

from peers.cli.texts import FlagError
from peers.values import Count, InvalidInputError, Value, decode, decode_message, to_text, value_of
from peers.values.conversion import untyped
from peers.values.event import Event, NoEventError

_TYPE = "@data-type"


def shown_event(value: Any) -> str | None:
    """Return an event as `name(arguments)`, other values of Zeek as Broker writes them; None for all else."""
    event = _event(value)
    if event is not None:
        return str(event)
    return to_text(value) if isinstance(value, tuple) else None


def event_fields(value: Any) -> dict[str, Any] | None:
    """Return an event as fields of a line of JSON, None if it is none."""
    event = _event(value)
    if event is None:
        return None
    fields = {"event": event.name, "args": [untyped(argument) for argument in event.args]}
    timestamp = event.timestamp
    return fields if timestamp is None else fields | {"timestamp": untyped(timestamp)}


def _event(value: Any) -> Event | None:
    try:
        return Event.of(value)
    except (NoEventError, TypeError, ValueError):
        return None


def event_of(name: str, arguments: str | None) -> Event:
    if not name:
        raise FlagError("--zeek-event: the name of the event is empty; give one such as Demo::block")
    try:
        given = msgspec.json.decode(arguments) if arguments else []
    except msgspec.DecodeError as error:
        raise FlagError(f"--zeek-event {name}: the arguments are no JSON: {error}") from error
    if not isinstance(given, list):
        raise FlagError(f"--zeek-event {name}: the arguments are a JSON array, such as '[\"text\", 3]'")
    return Event(name, *(_argument(argument, place) for place, argument in enumerate(given, 1)))


def _argument(given: Any, place: int) -> Value:
    try:
        return _value(given, place)
    except ValueError as error:
        raise FlagError(f"argument {place}: {error}") from error


def _value(given: Any, place: int) -> Value:
    match given:
        case bool():
            return given
        case int():
            return Count(given) if given >= 0 else given
        case list():
            return tuple(_value(item, place) for item in given)
        case dict() if _TYPE in given:
            return _typed(given, place)
        case dict():
            return value_of({key: _value(item, place) for key, item in given.items()})
        case _:
            return value_of(given)


def _typed(given: dict[str, Any], place: int) -> Value:
    try:
        _, body = decode_message(msgspec.json.encode({"topic": "/", **given}))
    except InvalidInputError as error:
        raise FlagError(f"argument {place} {error}: {msgspec.json.encode(given).decode()[:80]}") from error
    return decode(body)
