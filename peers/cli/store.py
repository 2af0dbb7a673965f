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
from peers.cli.admin import ask, json_lines
from peers.cli.display import Stop
from peers.cli.flag_values import FlagError, check_count, check_positive, moment, with_zone
from peers.cli.lines import Input
from peers.cli.notices import Notices
from peers.cli.output import Output, Progress, shown_progress
from peers.cli.replay import UnreadableError, decode_text, decode_value
from peers.cli.texts import Cell, columns, counted, cut, escaped, escaped_lines, examples, json_text
from peers.cli.url import HubFlags
from peers.client import InvalidValueError, Store, StoreChange, StoreEntry, StoreWatch, connect
from peers.client.values import encode_value, value_of
from peers.wire.reasons import MALFORMED

_SECOND_US = 1_000_000

_from_json = msgspec.json.Decoder().decode


class Given(NamedTuple):
    """An entry that a line holds."""

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
    """Return the line of an entry, with its end."""
    return msgspec.json.encode(object_of(entry, at)) + b"\n"


def read_line(line: bytes) -> Given:
    """Return the entry of a line, or raise `UnreadableError`."""
    try:
        read = _line(line)
        key = _read(read.key, read.key_msgpack, "key")
        value = _read(read.value, read.value_msgpack, "value")
    except (*MALFORMED, ValueError) as error:
        raise UnreadableError(f'no entry such as {{"key": ..., "value": ...}}: {error}') from error
    return Given(key, value, None if read.expires is None else with_zone(read.expires))


def left_s(expires: datetime | None, at: datetime) -> float | None:
    """Return the remaining time of an entry, seconds; None: for ever."""
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


@asynccontextmanager
async def opened_store(name: str, hub: HubFlags, notices: Notices, *, reconnect: bool = False) -> AsyncIterator[Store]:
    """Connect with a hub and yield one of its stores. Commands with a single question do not reconnect."""
    options = notices.options(hub)
    if not reconnect:
        options["on_disconnect"] = lambda _: None  # the question fails, if it is still open: that says it all
        options["reconnect"] = False
    async with connect(hub.url, **options) as client:
        yield client.store(name)


_STORES = ("store", "entries", "KiB", "expiring", "changes", "commands", "reads", "refused")
_ENTRIES = ("key", "value", "version", "expires in s")

_KIB = 1024

_VALUE_COLUMNS = 80
"""Columns of a value in a table."""


def ls(
    name: Annotated[str | None, Parameter(help="A store of the mesh. Default: list the stores of this hub.")] = None,
    prefix: Annotated[str, Parameter(help="Only keys that are text with this prefix.")] = "",
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the stores of a hub, or the entries of one. Counts start with the hub."""
    if name is None:
        rows = sorted(ask("store ls", hub, None, topic="stores"), key=lambda row: str(row["name"]))
        for line in json_lines(rows) if json else columns(_STORES, [_cells(row) for row in rows]):
            print(line)
        if not rows and sys.stderr.isatty():  # for people: a program sees that there is no line
            print("hub store ls: the hub has no store; `hub run --store NAME=:memory:` has one", file=sys.stderr)
    else:
        asyncio.run(_list(name, prefix, hub, as_json=json))


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        row["name"],
        row["entries"],
        round(row["bytes"] / _KIB, 1),
        row["expiring"],
        row["changes_total"],
        row["commands_total"],
        row["reads_total"],
        row["refused_total"],
    )


async def _list(name: str, prefix: str, hub: HubFlags, *, as_json: bool) -> None:
    rows: list[tuple[Cell, ...]] = []
    output = Output(sys.stdout.fileno())
    escape = escaped_lines if sys.stdout.isatty() else bytes
    async with opened_store(name, hub, Notices("store ls")) as store:
        async for entry in store.entries(prefix):
            if as_json:
                await output.write(escape(line_of(entry, now())))
            else:
                key, value = shown(entry.key), cut(shown(entry.value), _VALUE_COLUMNS)
                rows.append((key, value, entry.version, entry.expires_s))
    await output.write("".join(f"{line}\n" for line in columns(_ENTRIES, sorted(rows))).encode())
    await output.flush()


EXIT_NONE = 1
"""There is no such entry, or was none."""


def get(
    name: Annotated[str, Parameter(help="Name of the store.")],
    key: Annotated[str, Parameter(help="JSON if valid, else text.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    text: Annotated[bool, Parameter(help="KEY is text, even if it is valid JSON.", negative=())] = False,
    json: Annotated[
        bool, Parameter(help="Write the entry as an object: key, value, version, expires.", negative=())
    ] = False,
) -> int:
    """Write the value of a key as JSON.

    Exit code 1 if there is no such entry.
    """
    return asyncio.run(_get(name, given(key, "KEY", as_text=text), hub, as_json=json))


async def _get(name: str, key: object, hub: HubFlags, *, as_json: bool) -> int:
    notices = Notices("store get")
    async with opened_store(name, hub, notices) as store:
        entry = await store.entry(key)
    if entry is None:
        notices.say(f"the store {name} has no entry {shown(key)}; `hub store ls {name}` lists them")
        return EXIT_NONE
    line = line_of(entry, now()) if as_json else _value(entry.value)
    if line is None:
        notices.say("the value has no JSON form: --json shows its msgpack")
        return EXIT_NONE
    sys.stdout.buffer.write(escaped_lines(line) if sys.stdout.isatty() else line)
    sys.stdout.flush()
    return 0


def _value(value: object) -> bytes | None:
    text = json_text(value)
    return None if text is None else text + b"\n"


EXIT_OTHER_VERSION = 1
"""The entry had another version than was given."""


def put(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="Name of the store.")],
    key: Annotated[str, Parameter(help="JSON if valid, else text.", allow_leading_hyphen=True)],
    value: Annotated[str, Parameter(help="JSON if valid, else text.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    expires: Annotated[float | None, Parameter(help="Lifetime of the entry, seconds.")] = None,
    if_version: Annotated[
        int | None, Parameter(help="Only if the entry has this version; 0: only if there is none.")
    ] = None,
    text: Annotated[bool, Parameter(help="KEY and VALUE are text, even if they are valid JSON.", negative=())] = False,
) -> int:
    """Set the value of a key, and write the new version of its entry.

    Exit code 1 if the entry has another version than --if-version.
    """
    check_positive("--expires", expires, "seconds")
    if if_version is not None and if_version < 0:
        raise FlagError(f"--if-version {if_version}: give 0 or more")
    packed_key, packed_value = given(key, "KEY", as_text=text), given(value, "VALUE", as_text=text)
    return asyncio.run(_put(name, packed_key, packed_value, hub, expires, if_version))


async def _put(  # noqa: PLR0913, PLR0917 -- of the command's flags
    name: str, key: Any, value: Any, hub: HubFlags, expires_s: float | None, if_version: int | None
) -> int:
    notices = Notices("store put")
    async with opened_store(name, hub, notices) as store:
        version = await store.put(key, value, expires_s=expires_s, if_version=if_version)
        if version is None:
            entry = await store.entry(key)
            there = "there is none" if entry is None else f"it has version {entry.version}"
            notices.say(f"{shown(key)} is unchanged: {there}; read it again, and give that to --if-version")
            return EXIT_OTHER_VERSION
    print(version)
    return 0


def erase(
    name: Annotated[str, Parameter(help="Name of the store.")],
    key: Annotated[str, Parameter(help="JSON if valid, else text.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    text: Annotated[bool, Parameter(help="KEY is text, even if it is valid JSON.", negative=())] = False,
) -> int:
    """Delete an entry.

    Exit code 1 if there was none.
    """
    return asyncio.run(_erase(name, given(key, "KEY", as_text=text), hub))


async def _erase(name: str, key: Any, hub: HubFlags) -> int:
    notices = Notices("store erase")
    async with opened_store(name, hub, notices) as store:
        was_there = await store.erase(key)
    if not was_there:
        notices.say(f"the store {name} has no entry {shown(key)}; `hub store ls {name}` lists them")
    return 0 if was_there else EXIT_NONE


def watch(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="Name of the store.")],
    prefix: Annotated[str, Parameter(help="Only keys that are text with this prefix.")] = "",
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
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
    return asyncio.run(_watch(name, prefix, hub, Stop(limit, timeout), as_json=format == "json"))


async def _watch(name: str, prefix: str, hub: HubFlags, stop: Stop, *, as_json: bool) -> int:
    notices = Notices("store watch")
    async with opened_store(name, hub, notices, reconnect=True) as store:
        try:
            async with store.watch(prefix) as changes:
                return await _write(changes, stop, notices, as_json=as_json)
        finally:
            notices.finish()


async def _write(changes: StoreWatch, stop: Stop, notices: Notices, *, as_json: bool) -> int:
    task = asyncio.current_task()
    output = Output(sys.stdout.fileno(), task.cancel if task is not None else None)
    written = formless = 0
    try:
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
            lines = [_object(change) if as_json else _change_line(change) for change in batch]
            formless += sum(line is None for line in lines)
            text = b"".join(line + b"\n" for line in lines if line is not None)
            await output.write(escaped_lines(text) if sys.stdout.isatty() else text)
            written += len(batch)
        await output.flush()
    except asyncio.CancelledError:
        output.check()  # it may be the output that has cancelled us: then its error says why
        raise
    finally:
        if formless:
            notices.say(f"{counted(formless, 'change')} not shown: no JSON form")
    return stop.exit_code(written)


def _object(change: StoreChange) -> bytes | None:
    return json_text(change._asdict() | {"kind": change.kind.value})


def _change_line(change: StoreChange) -> bytes:
    """Return version, kind, key, and value if there is one."""
    kind = "present" if change.present else change.kind.value
    key = "" if change.kind.value == "clear" else f" {shown(change.key)}"
    value = f" {shown(change.value)}" if change.kind.value == "put" else ""
    return f"{change.version} {kind:7}{key}{value}".encode()


_AT_ONCE = 2_000


def import_(
    name: Annotated[str, Parameter(help="Name of the store.")],
    path: Annotated[str, Parameter(help="A file, plain or gzip; - for standard input.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
) -> None:
    """Write entries from JSON lines into a store: {"key": ..., "value": ...}, optionally with "expires".

    Expired entries are skipped. Other entries of the store stay. Shows its progress on a terminal.
    """
    asyncio.run(_import(name, path, hub))


async def _import(name: str, path: str, hub: HubFlags) -> None:
    notices = Notices("store import")
    with Input(path) as source:
        async with opened_store(name, hub, notices) as store:
            importing = _Importing(store, source)
            try:
                async with shown_progress(importing.progress):
                    await importing.run()
            finally:
                more = f"; the time of {counted(importing.over, 'other')} was over" if importing.over else ""
                print(f"{importing.put:,} put into {name}{more}")


class _Importing:
    """One run, and its account."""

    def __init__(self, store: Store, source: Input) -> None:
        self._store = store
        self._source = source
        self._lines = 0
        self.put = 0
        self.over = 0  # entries whose time was over

    def progress(self) -> Progress:
        """Return the progress."""
        return Progress(f"{self.put:,} put", self._source.read_bytes, self._source.size_bytes)

    async def run(self) -> None:
        async for lines in self._source.lines():
            for first in range(0, len(lines), _AT_ONCE):
                await self._take(lines[first : first + _AT_ONCE])

    async def _take(self, lines: Sequence[bytes]) -> None:
        entries: list[tuple[int, Given]] = []
        unreadable = None
        for number, line in enumerate(lines, self._lines + 1):
            if not line.strip():
                continue
            try:
                entries.append((number, read_line(line)))
            except UnreadableError as error:
                unreadable = UnreadableError(self._at(number, error))
                break
        self._lines += len(lines)
        await self._put(entries)
        if unreadable is not None:
            raise unreadable

    async def _put(self, entries: list[tuple[int, Given]]) -> None:
        time = now()
        alive = [
            (number, entry, left)
            for number, entry in entries
            if (left := left_s(entry.expires, time)) is None or left > 0
        ]
        self.over += len(entries) - len(alive)
        outcomes = await asyncio.gather(
            *(self._store.put(entry.key, entry.value, expires_s=left) for _, entry, left in alive),
            return_exceptions=True,
        )
        self.put += sum(not isinstance(outcome, BaseException) for outcome in outcomes)
        for (number, _, _), outcome in zip(alive, outcomes, strict=True):
            if isinstance(outcome, RequestFailedError | RequestTooBigError):
                raise type(outcome)(outcome.status, self._at(number, outcome)) from outcome
            if isinstance(outcome, InvalidValueError):
                raise UnreadableError(self._at(number, outcome)) from outcome
            if isinstance(outcome, BaseException):
                raise outcome

    def _at(self, number: int, error: Exception) -> str:
        return f"{self._source.name}: line {number}: {error}"


_PIECE_BYTES = 64 * 1024
"""Bytes of one write."""


def export(
    name: Annotated[str, Parameter(help="Name of the store.")],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    prefix: Annotated[str, Parameter(help="Only keys that are text with this prefix.")] = "",
) -> None:
    """Write the entries of a store as JSON lines: key, value, version, expires.

    Shows its progress if standard error is a terminal and standard output is not.
    """
    asyncio.run(_export(name, prefix, hub))


async def _export(name: str, prefix: str, hub: HubFlags) -> None:
    output = Output(sys.stdout.fileno())
    on_terminal = sys.stdout.isatty()
    escape = escaped_lines if on_terminal else bytes
    piece = bytearray()
    written = 0
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
    await output.flush()


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
