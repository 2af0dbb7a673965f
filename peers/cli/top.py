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
from typing import Annotated, Any, NamedTuple

import msgspec
from cyclopts import Parameter
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hub.errors import CloseCode, ConnectionLostError, ProtocolError
from peers.cli.flag_values import FlagError
from peers.cli.notices import Notices
from peers.cli.texts import escaped, json_text
from peers.cli.url import HubFlags
from peers.client import Client, connect


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
    """The state of the hub in one sentence."""


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
    """One handler and its rates; None where there was only one look."""

    handler: HandlerCounters
    in_per_s: float | None
    out_per_s: float | None
    out_bytes_per_s: float | None
    dropped_lately: int | None


class Total(NamedTuple):
    """Rates of all handlers together; None where one of them has no rate yet."""

    in_per_s: float | None
    out_per_s: float | None
    out_bytes_per_s: float | None
    queued_messages: int
    queued_bytes: int
    dropped_messages: int
    dropped_lately: int | None


class Sort(StrEnum):
    """Order of the handlers."""

    RATE = "rate"
    QUEUE = "queue"
    DROPPED = "dropped"
    NAME = "name"


def activities(before: Snapshot | None, now: Snapshot, sort: Sort = Sort.RATE) -> list[Activity]:
    """Return the rates between two snapshots; None, or one of another life of the hub, gives no rates."""
    if before is None or before.hub != now.hub or before.at_s >= now.at_s:
        found = [Activity(handler, None, None, None, None) for handler in now.handlers]
    else:
        passed_s = now.at_s - before.at_s
        earlier = {handler.id: handler for handler in before.handlers}
        found = [_activity(earlier.get(handler.id), handler, passed_s) for handler in now.handlers]
    return sorted(found, key=_KEYS[sort])


def _activity(before: HandlerCounters | None, now: HandlerCounters, passed_s: float) -> Activity:
    published = now.published_messages - (before.published_messages if before else 0)
    delivered = now.delivered_messages - (before.delivered_messages if before else 0)
    size = now.delivered_bytes - (before.delivered_bytes if before else 0)
    dropped = now.dropped_messages - (before.dropped_messages if before else 0)
    # What waited in a queue counted as delivered, and no longer does once it is dropped.
    return Activity(now, published / passed_s, max(0, delivered) / passed_s, size / passed_s, dropped)


_KEYS = {
    Sort.RATE: lambda one: (-(one.in_per_s or 0) - (one.out_per_s or 0), one.handler.id),
    Sort.QUEUE: lambda one: (-one.handler.queued_messages, -one.handler.queued_bytes, one.handler.id),
    Sort.DROPPED: lambda one: (-(one.dropped_lately or 0), -one.handler.dropped_messages, one.handler.id),
    Sort.NAME: lambda one: (one.handler.name.casefold(), one.handler.id),
}


def total(rows: Sequence[Activity]) -> Total:
    """Return the sums of all rows; the sum of a rate is None if a row has none."""
    known = all(row.in_per_s is not None for row in rows)
    return Total(
        in_per_s=sum(row.in_per_s or 0 for row in rows) if known else None,
        out_per_s=sum(row.out_per_s or 0 for row in rows) if known else None,
        out_bytes_per_s=sum(row.out_bytes_per_s or 0 for row in rows) if known else None,
        queued_messages=sum(row.handler.queued_messages for row in rows),
        queued_bytes=sum(row.handler.queued_bytes for row in rows),
        dropped_messages=sum(row.handler.dropped_messages for row in rows),
        dropped_lately=sum(row.dropped_lately or 0 for row in rows) if known else None,
    )


def look_line(now: Snapshot, rows: Sequence[Activity]) -> str:
    """Return a line of JSON with the later snapshot, its rates and totals."""
    return (json_text(_look(now, rows)) or b"").decode()


def _look(now: Snapshot, rows: Sequence[Activity]) -> dict[str, Any]:
    return {
        "hub": now.hub,
        "at_s": now.at_s,
        "state": now.state,
        "memory_bytes": now.memory_bytes,
        "memory_limit_bytes": now.memory_limit_bytes,
        "handlers": [_handler(row) for row in rows],
        "total": total(rows)._asdict(),
    }


def _handler(row: Activity) -> dict[str, Any]:
    figures = row._asdict()
    told: dict[str, Any] = msgspec.to_builtins(figures.pop("handler"))
    return told | figures


_TOPIC = "$hub/statistics"

_ANNOUNCED_S = 1.0
"""How often a hub announces its handlers."""

_PATIENCE_S = 10.0
"""A hub that is connected and has announced nothing for so long will not."""

_SLACK_S = 0.25
"""An announcement that comes this early still ends the interval."""

_PIPE_COLUMNS = 200

_FRAME_LINES = 5
"""Lines of a table beside its rows: title, header, totals, "more", and the cursor's."""

_KIB = 1024
_MIB = 1024 * _KIB


def top(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    sort: Annotated[Sort, Parameter(help="Order of the rows.")] = Sort.RATE,
    interval: Annotated[float, Parameter(help="Time between two tables, seconds, 1 or more.")] = _ANNOUNCED_S,
    once: Annotated[bool, Parameter(help="Print one table and end.", negative=())] = False,
    json: Annotated[bool, Parameter(help="A JSON object a line, in place of each table.", negative=())] = False,
) -> int:
    """Show rates, queues and losses of each client and peer of a hub, until Ctrl-C."""
    if not interval >= _ANNOUNCED_S:  # so that `nan` is none either
        raise FlagError(f"--interval {interval:g}: hubs announce their handlers once a second, give 1 or more")
    asyncio.run(_show(hub, sort, interval, once=once, json=json))
    return 0


async def _show(hub: HubFlags, sort: Sort, interval_s: float, *, once: bool, json: bool) -> None:
    console = Console()
    live = console.is_terminal and not once and not json
    if not console.is_terminal:
        console.width = _PIPE_COLUMNS
    async with (
        connect(hub.url, **Notices("top").options(hub)) as client,
        aclosing(_pairs(client, interval_s)) as pairs,
    ):
        if not live:
            async for before, now in pairs:
                looked = activities(before, now, sort)
                if json:
                    print(look_line(now, looked), flush=True)
                else:
                    if now.state:
                        console.print(escaped(now.state), soft_wrap=True, markup=False, highlight=False)
                    console.print(handler_table(now, looked, width=console.width))
                if once:
                    return
        with Live(console=console, auto_refresh=False, screen=True) as screen:
            async for before, now in pairs:
                rows = console.height - _FRAME_LINES - len(_sentence(now))
                found = activities(before, now, sort)
                table = handler_table(now, found, limit_rows=max(1, rows), width=console.width)
                screen.update(Group(*_sentence(now), table), refresh=True)


def _sentence(now: Snapshot) -> list[Text]:
    """Return the state of the hub in one line."""
    return [Text(escaped(now.state), no_wrap=True, overflow="ellipsis")] if now.state else []


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


def _memory(now: Snapshot) -> str:
    """Return the hub's memory and its limit."""
    if not now.memory_limit_bytes:
        return ""
    return f", memory: {now.memory_bytes / _MIB:,.0f} of {now.memory_limit_bytes / _MIB:,.0f} MiB"


def handler_table(
    now: Snapshot, rows: Sequence[Activity], *, limit_rows: int | None = None, width: int = _PIPE_COLUMNS
) -> Table:
    """Return the table of handlers.

    Args:
        now: The later snapshot.
        rows: In the order to show.
        limit_rows: Most rows shown, None for all.
        width: Columns of the terminal; a narrow table has fewer columns.
    """
    shown = rows if limit_rows is None else rows[:limit_rows]
    left_out = len(rows) - len(shown)
    table = Table(
        title=f"hub {escaped(now.hub)}, handlers: {len(rows):,}"
        + (f", not shown: {left_out:,}" if left_out else "")
        + _memory(now),
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
        table.add_column(
            column.header,
            column.total(sums),
            justify="left" if column.is_text else "right",
            no_wrap=not column.is_text,
        )
    for row in shown:
        table.add_row(
            *(Text(column.cell(row), no_wrap=True, overflow="ellipsis") for column in columns), style=_style(row)
        )
    return table


class _Column(NamedTuple):
    """A column of the table of handlers."""

    header: str
    """`in` is what a handler has published, `out` what it was sent."""
    cell: Callable[[Activity], str]
    from_width: int = 0
    """Least width of the terminal for this column."""
    total: Callable[[Total], str] = lambda _: ""
    """Returns the text below the rows."""
    is_text: bool = False


_COLUMNS = (
    _Column("id", lambda row: str(row.handler.id), 110),
    _Column("role", lambda row: row.handler.role, 90, lambda _: "total", is_text=True),
    _Column("name", lambda row: escaped(row.handler.name), is_text=True),
    _Column("address", lambda row: escaped(row.handler.address), 160, is_text=True),
    _Column("prefixes", lambda row: _prefixes(row.handler), 100, is_text=True),
    _Column("in/s", lambda row: _rate(row.in_per_s), 60, lambda sums: _rate(sums.in_per_s)),
    _Column("out/s", lambda row: _rate(row.out_per_s), 50, lambda sums: _rate(sums.out_per_s)),
    _Column("MB/s", lambda row: _mega(row.out_bytes_per_s), 130, lambda sums: _mega(sums.out_bytes_per_s)),
    _Column("queued", lambda row: f"{row.handler.queued_messages:,}", 50, lambda sums: f"{sums.queued_messages:,}"),
    _Column("bytes", lambda row: _size(row.handler.queued_bytes), 120, lambda sums: _size(sums.queued_bytes)),
    _Column("dropped", lambda row: f"{row.handler.dropped_messages:,}", 0, lambda sums: f"{sums.dropped_messages:,}"),
    _Column("lately", lambda row: _lately(row.dropped_lately), 70, lambda sums: _lately(sums.dropped_lately)),
    _Column("policy", lambda row: row.handler.overflow, 150, is_text=True),
    _Column("state", lambda row: "paused" if row.handler.paused else "", 80, is_text=True),
)


def _style(row: Activity) -> str:
    if row.dropped_lately:
        return "red"
    return "yellow" if row.handler.paused else ""


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
