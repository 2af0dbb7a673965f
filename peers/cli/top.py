"""`hub top`: a live table of handlers: prefixes, rates, queues, losses.

The hub announces its handlers once a second while `$hub/statistics` is subscribed to; the rates are computed here. On a
terminal the table is drawn in place, elsewhere they follow one another; with --json each look is a line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from cyclopts import Parameter
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hub.errors import CloseCode, ConnectionLostError, ProtocolError
from peers.cli.contexts import DEFAULT_HUB, HubFlags
from peers.cli.notices import Notices
from peers.cli.texts import FlagError, amount, escaped, json_text
from peers.client import Client


class HandlerCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one handler (`hub.handlers.counters.HandlerStatistics`)."""

    id: int
    role: str
    name: str
    address: str
    prefixes: int
    sample: tuple[str, ...]
    published_messages: int
    delivered_messages: int
    delivered_bytes: int
    queued_messages: int
    queued_bytes: int
    dropped_messages: int
    overflow: str
    paused: bool


class _State(msgspec.Struct, frozen=True):
    text: str = ""


class _Part(msgspec.Struct, frozen=True):
    hub: str
    at_s: float
    handlers: int
    first: int
    some: tuple[HandlerCounters, ...]
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    state: _State = _State()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All handlers of a hub at one moment of its clock."""

    hub: str
    at_s: float
    handlers: tuple[HandlerCounters, ...]
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    state: str = ""


class Assembly:
    """Joins the messages of one announcement."""

    __slots__ = ("_handlers", "_head", "_state")

    def __init__(self) -> None:
        self._head: tuple[str, float] = ("", -1.0)
        self._handlers: list[HandlerCounters] = []
        self._state = ""

    def feed(self, value: Any) -> Snapshot | None:
        """Take the value of one `$hub/statistics` message; return the snapshot that it completes."""
        try:
            part = msgspec.convert(value, _Part)
        except msgspec.ValidationError as error:
            raise ProtocolError(CloseCode.BAD_DATA, f"$hub/statistics: {error}; hub and client differ") from error
        head = (part.hub, part.at_s)
        if head != self._head:
            self._head = head
            self._handlers = []
            self._state = part.state.text
        if part.first != len(self._handlers):
            return None
        self._handlers.extend(part.some)
        if len(self._handlers) < part.handlers:
            return None
        memory = part.memory_bytes, part.memory_limit_bytes
        return Snapshot(part.hub, part.at_s, tuple(self._handlers), *memory, self._state)


class Activity(NamedTuple):
    """One handler and its rates; None where there was only one sample."""

    handler: HandlerCounters
    in_per_s: float | None
    out_per_s: float | None
    out_bytes_per_s: float | None
    dropped_lately: int | None


class Sort(StrEnum):
    """Order of the handlers."""

    RATE = "rate"
    QUEUE = "queue"
    DROPPED = "dropped"
    NAME = "name"


_KEYS = {
    Sort.RATE: lambda one: (-(one.in_per_s or 0) - (one.out_per_s or 0), one.handler.id),
    Sort.QUEUE: lambda one: (-one.handler.queued_messages, -one.handler.queued_bytes, one.handler.id),
    Sort.DROPPED: lambda one: (-(one.dropped_lately or 0), -one.handler.dropped_messages, one.handler.id),
    Sort.NAME: lambda one: (one.handler.name.casefold(), one.handler.id),
}


def activities(before: Snapshot | None, now: Snapshot, sort: Sort = Sort.RATE) -> list[Activity]:
    """Return the rates between two snapshots; None, or one of another life of the hub, gives no rates."""
    if before is None or before.hub != now.hub or before.at_s >= now.at_s:
        found = [Activity(handler, None, None, None, None) for handler in now.handlers]
    else:
        passed_s = now.at_s - before.at_s
        earlier = {handler.id: handler for handler in before.handlers}
        found = []
        for handler in now.handlers:
            published, delivered, size, dropped = (
                getattr(handler, name) - (getattr(earlier[handler.id], name) if handler.id in earlier else 0)
                for name in ("published_messages", "delivered_messages", "delivered_bytes", "dropped_messages")
            )
            # A message in a queue counts as delivered until it is dropped.
            rates = published / passed_s, max(0, delivered) / passed_s, size / passed_s
            found.append(Activity(handler, *rates, dropped))
    return sorted(found, key=_KEYS[sort])


def total(rows: Sequence[Activity]) -> dict[str, Any]:
    known = all(row.in_per_s is not None for row in rows)
    rates = {
        name: sum(getattr(row, name) or 0 for row in rows) if known else None
        for name in ("in_per_s", "out_per_s", "out_bytes_per_s", "dropped_lately")
    }
    sums = {
        name: sum(getattr(row.handler, name) for row in rows)
        for name in ("queued_messages", "queued_bytes", "dropped_messages")
    }
    return rates | sums


def _json_line(now: Snapshot, rows: Sequence[Activity]) -> str:
    handlers = [msgspec.to_builtins(row.handler) | row._asdict() | {"handler": None} for row in rows]
    for handler in handlers:
        del handler["handler"]
    members = {
        "hub": now.hub,
        "at_s": now.at_s,
        "state": now.state,
        "memory_bytes": now.memory_bytes,
        "memory_limit_bytes": now.memory_limit_bytes,
        "handlers": handlers,
        "total": total(rows),
    }
    return (json_text(members) or b"").decode()


_TOPIC = "$hub/statistics"

_ANNOUNCED_S = 1.0

_PATIENCE_S = 10.0
"""A hub that is connected and has announced nothing for so long will not."""

_SLACK_S = 0.25
"""An announcement that comes this early still ends the interval."""

_PIPE_COLUMNS = 200

_FRAME_LINES = 5
"""Lines of a table beside its rows: title, header, totals, "more", and the cursor's."""

_KIB = 1024
_MIB = 1024 * _KIB


async def top(
    *,
    hub: HubFlags = DEFAULT_HUB,
    sort: Annotated[Sort, Parameter(help="Order of the rows.")] = Sort.RATE,
    interval: Annotated[float, Parameter(help="Time between two tables, seconds, 1 or more.")] = _ANNOUNCED_S,
    once: Annotated[bool, Parameter(help="Print one table and end.")] = False,
    json: Annotated[bool, Parameter(help="A JSON object a line, in place of each table.")] = False,
) -> None:
    """Show rates, queues and losses of each client and peer of a hub, until Ctrl-C."""
    if not interval >= _ANNOUNCED_S:  # so that `nan` is none either
        raise FlagError(f"--interval {interval:g}: hubs announce their handlers once a second, give 1 or more")
    console = Console()
    live = console.is_terminal and not once and not json
    if not console.is_terminal:
        console.width = _PIPE_COLUMNS
    async with (
        Notices("top").connected(hub) as client,
        aclosing(_pairs(client, interval)) as pairs,
    ):
        if not live:
            async for before, now in pairs:
                found = activities(before, now, sort)
                if json:
                    print(_json_line(now, found), flush=True)
                else:
                    if now.state:
                        console.print(escaped(now.state), soft_wrap=True, markup=False, highlight=False)
                    console.print(handler_table(now, found, width=console.width))
                if once:
                    return
        with Live(console=console, auto_refresh=False, screen=True) as screen:
            async for before, now in pairs:
                state = [Text(escaped(now.state), no_wrap=True, overflow="ellipsis")] if now.state else []
                rows = max(1, console.height - _FRAME_LINES - len(state))
                table = handler_table(now, activities(before, now, sort), limit_rows=rows, width=console.width)
                screen.update(Group(*state, table), refresh=True)


async def _pairs(client: Client, interval_s: float) -> AsyncGenerator[tuple[Snapshot, Snapshot], None]:
    """Yield two snapshots of the hub, an interval apart, again and again."""
    assembly = Assembly()
    before: Snapshot | None = None
    async with client.subscribe(_TOPIC) as messages:
        while True:
            connections = client.statistics().connections
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    batch = await messages.batch()
            except TimeoutError:
                if not client.statistics().connected or client.statistics().connections != connections:
                    continue  # there was no hub to listen to
                text = f"no {_TOPIC} from the hub within {_PATIENCE_S:g} s; is it overloaded?"
                raise ConnectionLostError(CloseCode.TRY_AGAIN_LATER, text) from None
            for message in batch:
                now = assembly.feed(message.value) if message.topic == _TOPIC else None
                if now is None:
                    continue
                if before is None or before.hub != now.hub or now.at_s <= before.at_s:
                    before = now
                elif now.at_s - before.at_s >= interval_s - _SLACK_S:
                    yield before, now
                    before = now


def handler_table(
    now: Snapshot, rows: Sequence[Activity], *, limit_rows: int | None = None, width: int = _PIPE_COLUMNS
) -> Table:
    shown = rows if limit_rows is None else rows[:limit_rows]
    title = f"hub {escaped(now.hub)}, handlers: {len(rows):,}"
    if len(rows) > len(shown):
        title += f", not shown: {len(rows) - len(shown):,}"
    if now.memory_limit_bytes:
        title += f", memory: {now.memory_bytes / _MIB:,.0f} of {now.memory_limit_bytes / _MIB:,.0f} MiB"
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="bold",
        show_footer=True,
        footer_style="bold",
    )
    sums = total(rows)
    columns = [column for column in _COLUMNS if column.from_width <= width]
    for column in columns:
        justify: Literal["left", "right"] = "left" if column.is_text else "right"
        table.add_column(column.header, column.total(sums), justify=justify, no_wrap=not column.is_text)
    for row in shown:
        cells = (Text(column.cell(row), no_wrap=True, overflow="ellipsis") for column in columns)
        table.add_row(*cells, style="red" if row.dropped_lately else "yellow" if row.handler.paused else "")
    return table


class _Column(NamedTuple):
    header: str
    """`in` is what a handler has published, `out` what it was sent."""
    cell: Callable[[Activity], str]
    from_width: int = 0
    total: Callable[[dict[str, Any]], str] = lambda _: ""
    is_text: bool = False


_COLUMNS = (
    _Column("id", lambda row: str(row.handler.id), 110),
    _Column("role", lambda row: row.handler.role, 90, lambda _: "total", is_text=True),
    _Column("name", lambda row: escaped(row.handler.name), is_text=True),
    _Column("address", lambda row: escaped(row.handler.address), 160, is_text=True),
    _Column("prefixes", lambda row: _prefixes(row.handler), 100, is_text=True),
    _Column("in/s", lambda row: _rate(row.in_per_s), 60, lambda sums: _rate(sums["in_per_s"])),
    _Column("out/s", lambda row: _rate(row.out_per_s), 50, lambda sums: _rate(sums["out_per_s"])),
    _Column("MB/s", lambda row: _mega(row.out_bytes_per_s), 130, lambda sums: _mega(sums["out_bytes_per_s"])),
    _Column("queued", lambda row: amount(row.handler.queued_messages), 50, lambda sums: f"{sums['queued_messages']:,}"),
    _Column("bytes", lambda row: _size(row.handler.queued_bytes), 120, lambda sums: _size(sums["queued_bytes"])),
    _Column(
        "dropped", lambda row: amount(row.handler.dropped_messages), 0, lambda sums: f"{sums['dropped_messages']:,}"
    ),
    _Column("lately", lambda row: _lately(row.dropped_lately), 70, lambda sums: _lately(sums["dropped_lately"])),
    _Column("policy", lambda row: row.handler.overflow, 150, is_text=True),
    _Column("state", lambda row: "paused" if row.handler.paused else "", 80, is_text=True),
)


def _prefixes(handler: HandlerCounters) -> str:
    if not handler.prefixes:
        return ""
    sample = " ".join(escaped(prefix) if prefix else "(everything)" for prefix in handler.sample)
    more = "" if handler.prefixes <= len(handler.sample) else " …"
    return f"{handler.prefixes:,}: {sample}{more}"


def _rate(per_s: float | None) -> str:
    return "" if per_s is None else f"{per_s:,.0f}"


def _mega(bytes_per_s: float | None) -> str:
    return "" if bytes_per_s is None else f"{bytes_per_s / 1e6:,.1f}"


def _lately(messages: int | None) -> str:
    return f"+{messages:,}" if messages else ""


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):  # noqa: B007 -- the last one is used
        if size < _KIB:
            break
        size /= _KIB
    return f"{size_bytes:,} B" if unit == "B" else f"{size:,.1f} {unit}"
