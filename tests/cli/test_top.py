"""`hub top`: rates from two looks, the tables, and the command."""

from __future__ import annotations

import io
import re
import signal
from typing import Any

import msgspec
import pytest
from rich.console import Console

from hub.errors import ProtocolError
from hub.handlers.counters import HandlerStatistics
from peers.cli.top import Activity, Assembly, HandlerCounters, Snapshot, Sort, activities, handler_table, total
from tests.cli.programs import RunningHub, hub, on_terminal, plain, screen, start, wait_subscribed


def counters(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "role": "client",
        "name": f"client {number}",
        "address": "127.0.0.1:1",
        "prefixes": 1,
        "sample": ["/a"],
        "published_messages": 0,
        "delivered_messages": 0,
        "delivered_bytes": 0,
        "queued_messages": 0,
        "queued_bytes": 0,
        "dropped_messages": 0,
        "overflow": "drop-oldest",
        "paused": False,
    } | changes


def snapshot(at_s: float, *handlers: dict[str, Any], hub: str = "h") -> Snapshot:
    return Snapshot(hub, at_s, msgspec.convert(handlers, tuple[HandlerCounters, ...]))


def part(at_s: float, handlers: int, first: int, *some: dict[str, Any], hub: str = "h") -> dict[str, Any]:
    return {"hub": hub, "at_s": at_s, "handlers": handlers, "first": first, "some": list(some)}


def names(rows: list[Activity]) -> list[int]:
    return [row.handler.id for row in rows]


def test_the_counters_are_those_of_the_hub() -> None:
    assert set(HandlerCounters.__struct_fields__) == set(HandlerStatistics._fields)


def test_the_messages_of_a_look_are_put_together() -> None:
    """A look with a hole is dropped."""
    assembly = Assembly()
    assert assembly.feed(part(1.0, 3, 0, counters(1), counters(2))) is None
    assert assembly.feed(part(1.0, 3, 2, counters(3))) == snapshot(1.0, counters(1), counters(2), counters(3))
    assert assembly.feed(part(2.0, 3, 0, counters(1))) is None
    assert assembly.feed(part(2.0, 3, 2, counters(3))) is None
    assert assembly.feed(part(3.0, 1, 0, counters(1))) == snapshot(3.0, counters(1))
    assert assembly.feed(part(4.0, 3, 2, counters(3))) is None


@pytest.mark.parametrize("value", [None, 5, {}, {"hub": "h"}, part(1.0, 1, 0, {"id": 1})])
def test_what_is_not_understood_is_an_error(value: Any) -> None:
    with pytest.raises(ProtocolError, match="hub/statistics"):
        Assembly().feed(value)


def test_rates_are_differences_over_the_hubs_own_time() -> None:
    before = snapshot(10.0, counters(1, published_messages=100, dropped_messages=5))
    now = snapshot(
        12.0, counters(1, published_messages=300, delivered_messages=40, delivered_bytes=4000, dropped_messages=8)
    )
    (row,) = activities(before, now)
    assert row[1:] == (100.0, 20.0, 2000.0, 3)
    fewer = snapshot(13.0, counters(1, dropped_messages=60))  # what counted as delivered while it waited
    (row,) = activities(now, fewer)
    assert (row.out_per_s, row.dropped_lately) == (0.0, 52)


@pytest.mark.parametrize(
    "before", [None, snapshot(20.0, counters(1)), snapshot(9.0, counters(1), hub="other"), snapshot(10.0, counters(1))]
)
def test_without_a_fitting_earlier_look_there_are_no_rates(before: Snapshot | None) -> None:
    (row,) = activities(before, snapshot(10.0, counters(1, published_messages=50)))
    assert row[1:] == (None, None, None, None)
    assert total([row])["in_per_s"] is None


def test_rows_are_sorted() -> None:
    before = snapshot(0.0, counters(3, dropped_messages=50))
    now = snapshot(
        1.0,
        counters(1, name="b", delivered_messages=5, queued_messages=1),
        counters(2, name="A", published_messages=9, dropped_messages=1),
        counters(3, name="c", dropped_messages=50, queued_messages=7),
        counters(4, name="c"),
    )
    assert names(activities(before, now, Sort.RATE)) == [2, 1, 3, 4]
    assert names(activities(before, now, Sort.QUEUE)) == [3, 1, 2, 4]
    assert names(activities(before, now, Sort.DROPPED)) == [2, 3, 1, 4]
    assert names(activities(before, now, Sort.NAME)) == [2, 1, 3, 4]


def drawn(*handlers: dict[str, object], columns: int = 200, limit_rows: int | None = None) -> list[str]:
    now = Snapshot("h\x1b", 2.0, msgspec.convert(handlers, tuple[HandlerCounters, ...]))
    rows = activities(Snapshot("h\x1b", 1.0, ()), now)
    console = Console(width=columns, record=True, file=io.StringIO())
    console.print(handler_table(now, rows, limit_rows=limit_rows, width=columns))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_row_says_who_and_how_much() -> None:
    lines = drawn(
        counters(
            7,
            name="sensor",
            sample=["/a", ""],
            prefixes=3,
            published_messages=1500,
            delivered_messages=20,
            delivered_bytes=2_500_000,
            queued_messages=8192,
            queued_bytes=64 * 1024 * 1024,
            dropped_messages=17,
            paused=True,
        )
    )
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "id role name address prefixes in/s out/s MB/s queued bytes dropped lately policy state",
        "7 client sensor 127.0.0.1:1 3: /a (everything) … 1,500 20 2.5 8,192 64.0 MiB 17 +17 drop-oldest paused",
        "total 1,500 20 2.5 8,192 64.0 MiB 17 +17",
    ]


def test_names_cannot_steer_the_terminal() -> None:
    text = "\n".join(drawn(counters(1, name="[red]a\x1b[2J\u202e", sample=["/\u202e"])))
    assert "hub h\\u001b, handlers: 1" in text
    assert "[red]a\\u001b[2J\\u202e" in text
    assert "/\\u202e" in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_name_and_losses_are_whole_on_every_terminal(columns: int) -> None:
    slow = counters(
        1, name="feed of the east wing", sample=["/plant/east/press"], queued_messages=8192, dropped_messages=71860
    )
    header, row, *_ = drawn(slow, columns=columns)[1:]
    assert "feed of the east wing" in row
    assert "71,860" in row
    assert {"name", "dropped"} <= set(header.split())
    assert "policy" not in header or "drop-oldest" in row


def test_more_handlers_than_lines_are_counted() -> None:
    lines = drawn(*(counters(number, published_messages=1) for number in range(10)), limit_rows=3)
    assert lines[0].startswith("hub h\\u001b, handlers: 10, not shown: 7")
    assert len(lines) == 6
    assert lines[-1].split()[:2] == ["total", "10"]


def test_one_look_for_people_and_programs(running_hub: RunningHub) -> None:
    subscriber = start("sub", "/top/once", "--name", "watched", url=running_hub.unix)
    wait_subscribed(running_hub.unix, "watched")
    shown = hub("top", "--once", url=running_hub.tcp)
    told = hub("top", "--once", "--json", "--sort", "name", url=running_hub.tcp)
    subscriber.send_signal(signal.SIGINT)
    subscriber.communicate()
    assert (shown.returncode, shown.stderr) == (0, b"")
    table = shown.stdout.decode()
    (row,) = [line for line in table.splitlines() if "watched" in line]
    assert "1: /top/once" in row
    assert "drop-oldest" in row
    assert re.search(r"^\S.* subscribers? .*dropped in the last minute", table, re.MULTILINE)
    assert "hub top" in table
    look = msgspec.json.decode(told.stdout)
    (one,) = [one for one in look["handlers"] if one["name"] == "watched"]
    assert (one["sample"], one["dropped_lately"], one["overflow"]) == (["/top/once"], 0, "drop-oldest")
    assert look["total"]["in_per_s"] == pytest.approx(sum(one["in_per_s"] for one in look["handlers"]))
    assert "dropped in the last minute" in look["state"]
    assert [one["name"] for one in look["handlers"]] == sorted(one["name"] for one in look["handlers"])


def test_it_is_drawn_in_place_until_ctrl_c(running_hub: RunningHub) -> None:
    process, terminal = on_terminal("top", "--name", "live top", url=running_hub.tcp, columns=160)
    wait_subscribed(running_hub.tcp, "live top")
    process.send_signal(signal.SIGINT)
    shown = screen(terminal)
    assert process.wait() == 130
    assert "\x1b[?1049h" in shown
    assert "\x1b[?1049l" in shown
    assert "Traceback" not in plain(shown)
