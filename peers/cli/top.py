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
from rich.cells import cell_len
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

_GAP = 2
"""Spaces between two columns of a table."""

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
                found = activities(before, now, sort)
                table = handler_table(now, found, limit_rows=max(1, rows), width=console.width)
                screen.update(Group(*_sentence(now), table, *others), refresh=True)


def _print_tables(console: Console, now: Snapshot, rows: Sequence[Activity]) -> None:
    if now.state:
        console.print(escaped(now.state), soft_wrap=True, markup=False, highlight=False)
    console.print(handler_table(now, rows, width=console.width))
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
    now: Snapshot, rows: Sequence[Activity], *, limit_rows: int | None = None, width: int = _PIPE_COLUMNS
) -> Table:
    """Return the table of one snapshot of a hub.

    Args:
        now: The later one of the two snapshots that were compared.
        rows: In the order to show.
        limit_rows: Most rows shown, None for all.
        width: Columns of the terminal. Where they are few, whole columns of the table are left out in the order of
            `_Column.keep`; the name and what was dropped always stay.
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
    widths = _fitting({column: _natural(column, shown, sums) for column in _COLUMNS}, width)
    for column, cells in widths.items():
        table.add_column(
            column.header,
            column.total(sums),
            justify="left" if column.text_cells else "right",
            width=cells,
            no_wrap=True,
        )
    for row in shown:
        cells_of_row = [Text(column.cell(row), no_wrap=True, overflow="ellipsis") for column in widths]
        table.add_row(*cells_of_row, style=_style(row))
    return table


def _natural(column: _Column, rows: Sequence[Activity], sums: Total) -> int:
    """Return how wide a column must be to show everything in it, in cells of the terminal."""
    return max(cell_len(text) for text in (column.header, column.total(sums), *map(column.cell, rows)))


def _fitting(natural: dict[_Column, int], width: int) -> dict[_Column, int]:
    """Return the columns that fit into `width` cells, with the width of each.

    Text is cut as far as it may be before a column is left out. The space that is then free goes to the text again.
    """
    least = {column: min(cells, column.text_cells or cells) for column, cells in natural.items()}
    for column in sorted(least, key=lambda column: column.keep):
        if sum(least.values()) + _GAP * (len(least) - 1) <= width or len(least) == _ALWAYS_SHOWN:
            break
        del least[column]
    free = width - sum(least.values()) - _GAP * (len(least) - 1)  # below 0: the name, which comes first, is cut
    for column in sorted(least, key=lambda column: column.keep, reverse=True):
        more = max(min(free, natural[column] - least[column]), 1 - least[column])
        least[column] += more
        free -= more
    return least


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
        keep: Where there is little room, the column with the least number is left out first.
        total: Returns what stands below the rows.
        text_cells: Of a column of text: the width to which it may be cut. 0 for numbers, which are never cut.
    """

    header: str
    cell: Callable[[Activity], str]
    keep: int
    total: Callable[[Total], str] = lambda _: ""
    text_cells: int = 0


_ALWAYS_SHOWN = 2
"""The name and what was dropped: a table of slow subscribers is of no use without either."""

_COLUMNS = (
    _Column("id", lambda row: str(row.handler.id), 1),
    _Column("role", lambda row: row.handler.role, 7, lambda _: "total", text_cells=6),
    _Column("name", lambda row: escaped(row.handler.name), 14, text_cells=24),
    _Column("address", lambda row: escaped(row.handler.address), 0, text_cells=15),
    _Column("prefixes", lambda row: _prefixes(row.handler), 6, text_cells=12),
    _Column("in/s", lambda row: _rate(row.in_per_s), 9, lambda sums: _rate(sums.in_per_s)),
    _Column("out/s", lambda row: _rate(row.out_per_s), 11, lambda sums: _rate(sums.out_per_s)),
    _Column("MB/s", lambda row: _mega(row.out_bytes_per_s), 4, lambda sums: _mega(sums.out_bytes_per_s)),
    _Column("queued", lambda row: f"{row.handler.queued_messages:,}", 10, lambda sums: f"{sums.queued_messages:,}"),
    _Column("bytes", lambda row: _size(row.handler.queued_bytes), 5, lambda sums: _size(sums.queued_bytes)),
    _Column("dropped", lambda row: f"{row.handler.dropped_messages:,}", 13, lambda sums: f"{sums.dropped_messages:,}"),
    _Column("lately", lambda row: _lately(row.dropped_lately), 8, lambda sums: _lately(sums.dropped_lately)),
    _Column("policy", lambda row: row.handler.overflow, 3, text_cells=11),
    _Column("state", lambda row: "paused" if row.handler.paused else "", 2, text_cells=6),
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
