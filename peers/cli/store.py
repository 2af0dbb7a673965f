"""`hub store`: list, read, write, watch, export and import stores. See docs/stores.md.

A key or value that is an argument is JSON if it reads as such, else text. An entry is a line
`{"key": ..., "value": ..., "version": ..., "expires": ...}`. JSON has fewer types than stores: a key or value that
would come back as another one is there as msgpack in base64, too (`key_msgpack`, `value_msgpack`), which counts.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from cyclopts import App, Parameter

from hub.errors import RequestFailedError, RequestTooBigError
from peers.cli.admin import Columns, ask, print_rows
from peers.cli.contexts import DEFAULT_HUB, HubFlags, Json
from peers.cli.lines import Input
from peers.cli.notices import Notices
from peers.cli.output import Progress, shown_progress, stdout_written
from peers.cli.replay import UnreadableError, decode_text, decode_value
from peers.cli.sub import Stop
from peers.cli.texts import (
    Cell,
    FlagError,
    check_count,
    check_positive,
    columns,
    counted,
    cut,
    escaped,
    escaped_lines,
    examples,
    json_text,
    moment,
    with_zone,
)
from peers.client import InvalidValueError, Store, StoreChange, StoreEntry
from peers.client.values import encode_value, value_of
from peers.wire.control import MALFORMED

_SECOND_US = 1_000_000

_from_json = msgspec.json.Decoder().decode


class Given(NamedTuple):
    """An entry that a line holds."""

    line: int
    key: Any
    value: Any
    expires: datetime | None


class _Line(msgspec.Struct):
    """An entry as it is read; other members do not count."""

    key: Any = msgspec.UNSET
    value: Any = msgspec.UNSET
    key_msgpack: str | None = None
    value_msgpack: str | None = None
    expires: datetime | None = None


_line = msgspec.json.Decoder(_Line).decode


def given(argument: str, what: str, *, as_text: bool) -> Any:
    """Return the key or value (`what`, for the error) that an argument means; raise `FlagError`."""
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
    return msgspec.json.encode(object_of(entry, at)) + b"\n"


def read_line(line: bytes, number: int = 0) -> Given:
    """Return the entry of a line, or raise `UnreadableError`."""
    try:
        read = _line(line)
        key = _read(read.key, read.key_msgpack, "key")
        value = _read(read.value, read.value_msgpack, "value")
    except (*MALFORMED, ValueError) as error:
        raise UnreadableError(f'no entry such as {{"key": ..., "value": ...}}: {error}') from error
    return Given(number, key, value, None if read.expires is None else with_zone(read.expires))


def left_s(expires: datetime | None, at: datetime) -> float | None:
    return None if expires is None else (expires - at) / timedelta(seconds=1)


def _read(plain: Any, packed: str | None, name: str) -> Any:
    if packed is not None:
        return value_of(base64.b64decode(packed, validate=True))
    if plain is msgspec.UNSET:
        raise ValueError(f"it has no {name!r}")
    return plain


def now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def opened_store(name: str, hub: HubFlags, notices: Notices, *, reconnect: bool = False) -> AsyncIterator[Store]:
    """Connect with a hub and yield one of its stores. Commands with a single question do not reconnect."""
    async with notices.connected(hub, once=not reconnect) as client:
        yield client.store(name)


_STORES: Columns = {
    "store": "name",
    "entries": "entries",
    "KiB": lambda row: round(row["bytes"] / 1024, 1),
    "expiring": "expiring",
    "changes": "changes_total",
    "commands": "commands_total",
    "reads": "reads_total",
    "refused": "refused_total",
}
_ENTRIES = ("key", "value", "version", "expires in s")

_VALUE_COLUMNS = 80


async def ls(
    name: Annotated[str | None, Parameter(help="A store of the mesh. Default: list the stores of this hub.")] = None,
    prefix: Annotated[str, Parameter(help="Only keys that are text with this prefix.")] = "",
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    json: Json = False,
) -> None:
    """List the stores of a hub, or the entries of one. Counts start with the hub."""
    if name is None:
        rows = sorted(await ask("store ls", hub, None, topic="stores"), key=lambda row: str(row["name"]))
        print_rows(rows, _STORES, json=json)
        if not rows and sys.stderr.isatty():  # for people: a program sees that there is no line
            print("hub store ls: the hub has no store; `hub run --store NAME=:memory:` has one", file=sys.stderr)
    else:
        await _list(name, prefix, hub, as_json=json)


async def _list(name: str, prefix: str, hub: HubFlags, *, as_json: bool) -> None:
    rows: list[tuple[Cell, ...]] = []
    escape = escaped_lines if sys.stdout.isatty() else bytes
    async with stdout_written() as output:
        async with opened_store(name, hub, Notices("store ls")) as store:
            async for entry in store.entries(prefix):
                if as_json:
                    await output.write(escape(line_of(entry, now())))
                else:
                    key, value = shown(entry.key), cut(shown(entry.value), _VALUE_COLUMNS)
                    rows.append((key, value, entry.version, entry.expires_s))
        await output.write("".join(f"{line}\n" for line in columns(_ENTRIES, sorted(rows))).encode())


EXIT_NONE = 1


async def get(
    name: Annotated[str, Parameter(help="Name of the store.")],
    key: Annotated[str, Parameter(help="JSON if valid, else text.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    text: Annotated[bool, Parameter(help="KEY is text, even if it is valid JSON.")] = False,
    json: Annotated[bool, Parameter(help="Write the entry as an object: key, value, version, expires.")] = False,
) -> int:
    """Write the value of a key as JSON.

    Exit code 1 if there is no such entry.
    """
    packed = given(key, "KEY", as_text=text)

    notices = Notices("store get")
    async with opened_store(name, hub, notices) as store:
        entry = await store.entry(packed)
    if entry is None:
        return _none(name, packed, notices)
    line = line_of(entry, now()) if json else json_text(entry.value)
    if line is None:
        notices.say("the value has no JSON form: --json shows its msgpack")
        return EXIT_NONE
    line = line.removesuffix(b"\n") + b"\n"
    sys.stdout.buffer.write(escaped_lines(line) if sys.stdout.isatty() else line)
    sys.stdout.flush()
    return 0


def _none(name: str, key: Any, notices: Notices) -> int:
    notices.say(f"the store {name} has no entry {shown(key)}; `hub store ls {name}` lists them")
    return EXIT_NONE


EXIT_OTHER_VERSION = 1


async def put(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="Name of the store.")],
    key: Annotated[str, Parameter(help="JSON if valid, else text.", allow_leading_hyphen=True)],
    value: Annotated[str, Parameter(help="JSON if valid, else text.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    expires: Annotated[float | None, Parameter(help="Lifetime of the entry, seconds.")] = None,
    if_version: Annotated[
        int | None, Parameter(help="Only if the entry has this version; 0: only if there is none.")
    ] = None,
    text: Annotated[bool, Parameter(help="KEY and VALUE are text, even if they are valid JSON.")] = False,
) -> int:
    """Set the value of a key, and write the new version of its entry.

    Exit code 1 if the entry has another version than --if-version.
    """
    check_positive("--expires", expires, "seconds")
    if if_version is not None and if_version < 0:
        raise FlagError(f"--if-version {if_version}: give 0 or more")
    packed_key, packed_value = given(key, "KEY", as_text=text), given(value, "VALUE", as_text=text)

    notices = Notices("store put")
    async with opened_store(name, hub, notices) as store:
        version = await store.put(packed_key, packed_value, expires_s=expires, if_version=if_version)
        if version is None:
            entry = await store.entry(packed_key)
            there = "there is none" if entry is None else f"it has version {entry.version}"
            notices.say(f"{shown(packed_key)} is unchanged: {there}; read it again, and give that to --if-version")
            return EXIT_OTHER_VERSION
    print(version)
    return 0


async def erase(
    name: Annotated[str, Parameter(help="Name of the store.")],
    key: Annotated[str, Parameter(help="JSON if valid, else text.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    text: Annotated[bool, Parameter(help="KEY is text, even if it is valid JSON.")] = False,
) -> int:
    """Delete an entry.

    Exit code 1 if there was none.
    """
    packed = given(key, "KEY", as_text=text)

    notices = Notices("store erase")
    async with opened_store(name, hub, notices) as store:
        return 0 if await store.erase(packed) else _none(name, packed, notices)


async def watch(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="Name of the store.")],
    prefix: Annotated[str, Parameter(help="Only keys that are text with this prefix.")] = "",
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    format: Annotated[  # noqa: A002 -- the flag's name
        Literal["pretty", "json"], Parameter(help="pretty: for people; json: an object a line.")
    ] = "pretty",
    limit: Annotated[
        int | None, Parameter(help="Stop after this number of changes, including the entries at the start.")
    ] = None,
    timeout: Annotated[float | None, Parameter(help="Stop after this time without a change, seconds.")] = None,
) -> int:
    """Show the entries of a store, and then each change, without a gap.

    Exit code 2 if --timeout ends it before --limit is reached.
    """
    check_count("--limit", limit)
    check_positive("--timeout", timeout, "seconds")
    stop, as_json = Stop(limit, timeout), format == "json"
    notices = Notices("store watch")
    written = formless = 0
    try:
        async with (
            stdout_written() as output,
            opened_store(name, hub, notices, reconnect=True) as store,
            store.watch(prefix) as changes,
        ):
            while stop.limit_messages is None or written < stop.limit_messages:
                try:
                    async with asyncio.timeout(stop.timeout_s):
                        batch = await changes.batch()
                except TimeoutError:
                    break
                if not batch:
                    break
                if stop.limit_messages is not None:
                    batch = batch[: stop.limit_messages - written]
                lines = [
                    json_text(change._asdict() | {"kind": change.kind.value}) if as_json else _change_line(change)
                    for change in batch
                ]
                formless += sum(line is None for line in lines)
                text = b"".join(line + b"\n" for line in lines if line is not None)
                await output.write(escaped_lines(text) if sys.stdout.isatty() else text)
                written += len(batch)
    finally:
        if formless:
            notices.say(f"{counted(formless, 'change')} not shown: no JSON form")
    return stop.exit_code(written)


def _change_line(change: StoreChange) -> bytes:
    kind = "present" if change.present else change.kind.value
    key = "" if change.kind.value == "clear" else f" {shown(change.key)}"
    value = f" {shown(change.value)}" if change.kind.value == "put" else ""
    return f"{change.version} {kind:7}{key}{value}".encode()


_AT_ONCE = 2_000


async def import_(
    name: Annotated[str, Parameter(help="Name of the store.")],
    path: Annotated[str, Parameter(help="A file, plain or gzip; - for standard input.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
) -> None:
    """Write entries from JSON lines into a store: {"key": ..., "value": ...}, optionally with "expires".

    Expired entries are skipped. Other entries of the store stay. Shows its progress on a terminal.
    """
    written = over = 0
    first = 1
    with Input(path) as source:

        def progress() -> Progress:
            return Progress(f"{written:,} put", source.read_bytes, source.size_bytes)

        try:
            async with opened_store(name, hub, Notices("store import")) as store, shown_progress(progress):
                async for lines in source.lines():
                    for some in (lines[begin : begin + _AT_ONCE] for begin in range(0, len(lines), _AT_ONCE)):
                        place = f"{source.name}: line"
                        entries, unreadable = _entries(some, first, place)
                        first += len(some)
                        time = now()
                        alive = [entry for entry in entries if entry.expires is None or entry.expires > time]
                        over += len(entries) - len(alive)
                        outcomes = await asyncio.gather(
                            *(store.put(key, value, expires_s=left_s(end, time)) for _, key, value, end in alive),
                            return_exceptions=True,
                        )
                        written += sum(not isinstance(outcome, BaseException) for outcome in outcomes)
                        _check_put(alive, outcomes, place)
                        if unreadable is not None:  # the entries before it were put
                            raise unreadable
        finally:
            more = f"; the time of {counted(over, 'other')} was over" if over else ""
            print(f"{written:,} put into {name}{more}")


def _entries(lines: Sequence[bytes], first: int, place: str) -> tuple[list[Given], UnreadableError | None]:
    """Return the entries of lines up to an unreadable one, and its error."""
    entries = []
    for number, line in enumerate(lines, first):
        if line.strip():
            try:
                entries.append(read_line(line, number))
            except UnreadableError as error:
                return entries, UnreadableError(f"{place} {number}: {error}")
    return entries, None


def _check_put(entries: Sequence[Given], outcomes: Sequence[object], place: str) -> None:
    """Raise the first error of entries that were put, with the number of its line."""
    for entry, outcome in zip(entries, outcomes, strict=True):
        text = f"{place} {entry.line}: {outcome}"
        if isinstance(outcome, RequestFailedError | RequestTooBigError):
            raise type(outcome)(outcome.status, text) from outcome
        if isinstance(outcome, InvalidValueError):
            raise UnreadableError(text) from outcome
        if isinstance(outcome, BaseException):
            raise outcome


_PIECE_BYTES = 64 * 1024


async def export(
    name: Annotated[str, Parameter(help="Name of the store.")],
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    prefix: Annotated[str, Parameter(help="Only keys that are text with this prefix.")] = "",
) -> None:
    """Write the entries of a store as JSON lines: key, value, version, expires.

    Shows its progress if standard error is a terminal and standard output is not.
    """
    on_terminal = sys.stdout.isatty()
    escape = escaped_lines if on_terminal else bytes
    piece = bytearray()
    written = 0
    async with stdout_written() as output:
        async with opened_store(name, hub, Notices("store export")) as store:
            total = None if prefix else (await store.state()).entries

            def progress() -> Progress:
                return Progress(f"{written:,} written", written, total)

            # A bar would stand among the lines.
            async with nullcontext() if on_terminal else shown_progress(progress):
                async for entry in store.entries(prefix):
                    piece += line_of(entry, now())
                    written += 1
                    if len(piece) >= _PIECE_BYTES:
                        await output.write(escape(bytes(piece)))
                        piece.clear()
        await output.write(escape(bytes(piece)))


app = App(
    name="store",
    help="Stores: list, read, write, watch, export and import.",
    help_epilogue=examples("""hub store put status sensor-7 '{"state": "up"}'""", "hub store watch status sensor-"),
)
app.command(ls, name="ls", help="List the stores of a hub, or the entries of one.")
app.command(get, name="get", help="Print the value of a key.")
app.command(put, name="put", help="Set the value of a key; print the version of its entry.")
app.command(erase, name="erase", help="Delete an entry.")
app.command(watch, name="watch", help="Show the entries, and then each change.")
app.command(import_, name="import", help="Write entries from JSON lines into a store.")
app.command(export, name="export", help="Write all entries as JSON lines.")
