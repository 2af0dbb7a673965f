"""`hub top`: a live table of a hub's handlers: who, which prefixes, how fast, what waits, what was lost.

The hub announces its handlers once a second while somebody listens (`$hub/statistics`); the sums are done here, in
`peers.cli.rates`. Above stands how the hub does, in its own words. Where the hub has links, another table shows how
these do; where it has users, one shows what those hold who hold most. On a terminal they are drawn in place, elsewhere
they follow one another; for programs, each look is a line of JSON (`peers.cli.look`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hub.errors import CloseCode, ConnectionLostError
from peers.cli.errors import FlagError
from peers.cli.look import look_line
from peers.cli.notices import Notices
from peers.cli.rates import (
    Activity,
    Assembly,
    HandlerCounters,
    LinkFigures,
    Snapshot,
    Sort,
    Total,
    UserHoldings,
    activities,
    total,
)
from peers.cli.texts import escaped
from peers.cli.url import HubFlags
from peers.client import Client, connect

__all__ = ["handler_table", "link_table", "top", "user_table"]

_TOPIC = "$hub/statistics"

_ANNOUNCED_S = 1.0
"""How often a hub announces its handlers."""

_PATIENCE_S = 10.0
"""A hub that is connected and has announced nothing for so long will not."""

_SLACK_S = 0.25
"""An announcement that comes this early still ends the interval."""

_PIPE_COLUMNS = 200
_WIDE_COLUMNS = 120
"""Narrower terminals get fewer columns, not unreadable ones."""

_FRAME_LINES = 5
"""Lines of a table beside its rows: title, header, totals, "more", and the cursor's."""

_OTHER_ROWS = 6
"""Users, and links, shown where the table is drawn in place: most of the terminal is for handlers."""

_OTHER_FRAME_LINES = 3
"""Lines of their tables beside the rows: an empty one, title and header."""

_KIB = 1024
_MIB = 1024 * _KIB


def top(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    sort: Annotated[Sort, Parameter(help="What comes first.")] = Sort.RATE,
    interval: Annotated[float, Parameter(help="Time between two tables, seconds, 1 or more.")] = _ANNOUNCED_S,
    once: Annotated[bool, Parameter(help="Print one table and end.", negative=())] = False,
    json: Annotated[bool, Parameter(help="A JSON object a line, in place of each table.", negative=())] = False,
) -> int:
    """Show what each client and peer of a hub does, until Ctrl-C."""
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
                    _print_tables(console, now, looked)
                if once:
                    return
        with Live(console=console, auto_refresh=False, screen=True) as screen:
            async for before, now in pairs:
                others = _other_tables(now, _OTHER_ROWS)
                rows = (
                    console.height
                    - _FRAME_LINES
                    - len(_sentence(now))
                    - sum(one.row_count + _OTHER_FRAME_LINES for one in others)
                )
                wide = console.width >= _WIDE_COLUMNS
                found = activities(before, now, sort)
                table = handler_table(now, found, limit_rows=max(1, rows), wide=wide)
                screen.update(Group(*_sentence(now), table, *others), refresh=True)


def _print_tables(console: Console, now: Snapshot, rows: Sequence[Activity]) -> None:
    if now.state:
        console.print(escaped(now.state), soft_wrap=True, markup=False, highlight=False)
    console.print(handler_table(now, rows, wide=console.width >= _WIDE_COLUMNS))
    for table in _other_tables(now):
        console.print(table)


def _sentence(now: Snapshot) -> list[Text]:
    """Return how the hub does, in a line as long as the terminal is wide; none where the hub does not say."""
    return [Text(escaped(now.state), no_wrap=True, overflow="ellipsis")] if now.state else []


def _other_tables(now: Snapshot, most: int | None = None) -> list[Table]:
    """Return the tables of links and of users, as far as there are any, each with at most so many rows."""
    tables = []
    if now.links:
        tables.append(link_table(now.links[:most]))
    if now.users:
        tables.append(user_table(now.users[:most]))
    return tables


async def _pairs(client: Client, interval_s: float) -> AsyncGenerator[tuple[Snapshot, Snapshot], None]:
    """Yield two looks at the hub, an interval apart, again and again."""
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
    """Return how much memory the hub takes, and of how much; empty where it does not say."""
    if not now.memory_limit_bytes:
        return ""
    return f", memory: {now.memory_bytes / _MIB:,.0f} of {now.memory_limit_bytes / _MIB:,.0f} MiB"


def handler_table(
    now: Snapshot, rows: Sequence[Activity], *, limit_rows: int | None = None, wide: bool = True
) -> Table:
    """Return the table of one look at a hub.

    Args:
        now: The later one of the two looks that were compared.
        rows: In the order to show.
        limit_rows: Most rows shown, None for all.
        wide: Whether there is room for all columns.
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
    columns = [column for column in _COLUMNS if wide or not column.wide]
    sums = total(rows)
    for column in columns:
        # What may wrap is made narrower first; the cells themselves do not wrap, they are cut.
        footer = column.total(sums)
        table.add_column(
            column.header, footer, justify="right" if column.number else "left", no_wrap=column.number or column.fixed
        )
    for row in shown:
        cells = [Text(column.cell(row), no_wrap=True, overflow="ellipsis") for column in columns]
        table.add_row(*cells, style=_style(row))
    return table


def _plain_table(title: str) -> Table:
    return Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="bold"
    )


def link_table(links: Sequence[LinkFigures]) -> Table:
    """Return the table of how links do, by the name of the hub at their other end."""
    table = _plain_table("links")
    table.add_column("hub", no_wrap=True)
    for header in ("up", "cost", "lag", "waiting", "dropped", "paths"):
        table.add_column(header, justify="right", no_wrap=True)
    for one in links:
        lag = "" if one.lag_s is None else f"{one.lag_s * 1000:,.0f} ms"
        waiting = f"{one.waiting_s:,.0f} s" if one.waiting_s else ""
        cost, dropped = "" if one.cost is None else f"{one.cost:,}", f"{sum(one.dropped.values()):,}"
        name = Text(escaped(one.hub) or "(others)")
        style = "" if one.links else "red"
        table.add_row(name, f"{one.links:,}", cost, lag, waiting, dropped, f"{one.path_changes:,}", style=style)
    return table


def user_table(users: Sequence[UserHoldings]) -> Table:
    """Return the table of what users hold: a column for each resource that somebody holds."""
    table = _plain_table("users")
    resources = list(dict.fromkeys(resource for one in users for resource in one.held))
    table.add_column("user", no_wrap=True)
    for header in (*resources, "refused", "held back"):
        table.add_column(header.replace("_", " "), justify="right", no_wrap=True)
    for one in users:
        name = escaped(one.user) if one.user else f"({one.users:,} others)"
        amounts = [_amount(resource, one.held.get(resource, 0)) for resource in resources]
        table.add_row(Text(name), *amounts, f"{one.refused_total:,}", f"{one.held_back_s:,.1f} s")
    return table


def _amount(resource: str, amount: int) -> str:
    """Return how much somebody holds."""
    if not amount:
        return ""
    return _size(amount) if resource.endswith("_bytes") else f"{amount:,}"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table.

    Attributes:
        header: What stands above. `in` is what a handler has published, `out` what it was sent.
        cell: Returns what stands in a row.
        total: Returns what stands below the rows.
        number: Whether the column holds numbers, which are aligned at the right.
        fixed: Whether the column is never made narrower.
        wide: Whether the column is left out where there is little room.
    """

    header: str
    cell: Callable[[Activity], str]
    total: Callable[[Total], str] = lambda _: ""
    number: bool = False
    fixed: bool = False
    wide: bool = False


_COLUMNS = (
    _Column("id", lambda row: str(row.handler.id), number=True, wide=True),
    _Column("role", lambda row: row.handler.role, lambda _: "total", fixed=True),
    _Column("name", lambda row: escaped(row.handler.name)),
    _Column("address", lambda row: escaped(row.handler.address), wide=True),
    _Column("prefixes", lambda row: _prefixes(row.handler)),
    _Column("in/s", lambda row: _rate(row.in_per_s), lambda sums: _rate(sums.in_per_s), number=True),
    _Column("out/s", lambda row: _rate(row.out_per_s), lambda sums: _rate(sums.out_per_s), number=True),
    _Column("MB/s", lambda row: _mega(row.out_bytes_per_s), lambda sums: _mega(sums.out_bytes_per_s), number=True),
    _Column(
        "queued", lambda row: f"{row.handler.queued_messages:,}", lambda sums: f"{sums.queued_messages:,}", number=True
    ),
    _Column("bytes", lambda row: _size(row.handler.queued_bytes), lambda sums: _size(sums.queued_bytes), number=True),
    _Column(
        "dropped",
        lambda row: f"{row.handler.dropped_messages:,}",
        lambda sums: f"{sums.dropped_messages:,}",
        number=True,
    ),
    _Column("lately", lambda row: _lately(row.dropped_lately), lambda sums: _lately(sums.dropped_lately), number=True),
    _Column("policy", lambda row: row.handler.overflow, wide=True),
    _Column("state", lambda row: "paused" if row.handler.paused else "", wide=True),
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
