"""`hub top`: the table, and the command against a real hub."""

from __future__ import annotations

import io
import re
import signal
import subprocess

import msgspec
import pytest
from rich.console import Console

from peers.cli.top import (
    HandlerCounters,
    LinkFigures,
    Snapshot,
    UserHoldings,
    activities,
    handler_table,
    link_table,
    user_table,
)
from tests.cli.programs import RunningHub, hub, on_terminal, plain, screen, start, wait_subscribed
from tests.cli.test_rates import counters


def drawn(*handlers: dict[str, object], columns: int = 200, limit_rows: int | None = None) -> list[str]:
    """The lines of a table after two looks a second apart."""
    now = Snapshot("h\x1b", 2.0, msgspec.convert(handlers, tuple[HandlerCounters, ...]))
    rows = activities(Snapshot("h\x1b", 1.0, ()), now)
    console = Console(width=columns, record=True, file=io.StringIO())
    console.print(handler_table(now, rows, limit_rows=limit_rows, width=columns))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_row_says_who_and_how_much() -> None:
    """Role, name, address, prefixes, rates, queue, losses, policy and state, and the sums below."""
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


def test_users_are_shown_with_what_they_hold() -> None:
    """A column for each resource that somebody holds; those who are not shown by themselves are counted."""
    users = (
        UserHoldings(
            user="al\x1b", users=1, held={"connections": 2, "queued_bytes": 5 << 20}, refused_total=7, held_back_s=1.5
        ),
        UserHoldings(user="", users=1200, held={"rules": 3}, refused_total=0, held_back_s=0),
    )
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(user_table(users))
    assert [" ".join(line.split()) for line in console.export_text().splitlines()] == [
        "",
        "users",
        "user connections queued bytes rules refused held back",
        "al\\u001b 2 5.0 MiB 7 1.5 s",
        "(1,200 others) 3 0 0.0 s",
    ]


def test_links_are_shown_with_how_they_do() -> None:
    """One that is down is there, too, for a while; what is not known is left out."""
    links = (
        LinkFigures(
            hub="so\x1b", links=1, dropped={"cut": 3, "missed": 4}, waiting_s=2.0, lag_s=0.0123, cost=5, path_changes=6
        ),
        LinkFigures(hub="", links=0, dropped={}, waiting_s=0.0, lag_s=None, cost=None, path_changes=0),
    )
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(link_table(links))
    assert [" ".join(line.split()) for line in console.export_text().splitlines()] == [
        "",
        "links",
        "hub up cost lag waiting dropped paths",
        "so\\u001b 1 5 12 ms 2 s 7 6",
        "(others) 0 0 0",
    ]


def test_names_cannot_steer_the_terminal() -> None:
    """What a client or hub calls itself, and what it subscribes to, is shown, not obeyed; nor is it markup."""
    text = "\n".join(drawn(counters(1, name="[red]a\x1b[2J\u202e", sample=["/\u202e"])))
    assert "hub h\\u001b, handlers: 1" in text
    assert "[red]a\\u001b[2J\\u202e" in text
    assert "/\\u202e" in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 160])
def test_numbers_are_whole_on_every_terminal(columns: int) -> None:
    """Where there is little room, columns are left out and names cut; a number is shown whole, a row stays one line."""
    lines = drawn(counters(1, name="n" * 80, address="a" * 80, sample=["/p" * 40], published_messages=123456))
    narrow = drawn(
        counters(1, name="n" * 80, address="a" * 80, sample=["/p" * 40], published_messages=123456), columns=columns
    )
    assert len(narrow) == len(lines) == 4
    assert "123,456" in narrow[2]
    assert max(map(len, narrow)) <= columns


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_name_and_losses_are_whole_on_every_terminal(columns: int) -> None:
    """A table of slow subscribers says who they are and what they lost; everything else is left out before."""
    slow = counters(
        1, name="feed of the east wing", sample=["/plant/east/press"], queued_messages=8192, dropped_messages=71860
    )
    header, row, *_ = drawn(slow, columns=columns)[1:]
    assert "feed of the east wing" in row
    assert "71,860" in row
    assert {"name", "dropped"} <= set(header.split())
    assert "policy" not in header or "drop-oldest" in row


def test_more_handlers_than_lines_are_counted() -> None:
    """What does not fit the screen is told in the title; the sums are those of all."""
    lines = drawn(*(counters(number, published_messages=1) for number in range(10)), limit_rows=3)
    assert lines[0].startswith("hub h\\u001b, handlers: 10, not shown: 7")
    assert len(lines) == 6
    assert lines[-1].split()[:2] == ["total", "10"]


def test_once_prints_one_table(running_hub: RunningHub) -> None:
    """For scripts: after two looks, the handlers with names and prefixes, then it ends."""
    subscriber = start("sub", "/top/once", "--name", "watched", url=running_hub.unix)
    wait_subscribed(running_hub.unix, "watched")
    result = hub("top", "--once", url=running_hub.tcp)
    subscriber.send_signal(signal.SIGINT)
    subscriber.communicate()
    assert (result.returncode, result.stderr) == (0, b"")
    (row,) = [line for line in result.stdout.decode().splitlines() if "watched" in line]
    assert "1: /top/once" in row
    assert re.search(r"^\S.* subscribers? .*dropped in the last minute", result.stdout.decode(), re.MULTILINE)
    assert "drop-oldest" in row
    assert "hub top" in result.stdout.decode()


def test_a_look_for_programs(running_hub: RunningHub) -> None:
    """A line of JSON has the sentence, each handler with its rates, and the sums."""
    subscriber = start("sub", "/top/json", "--name", "told", url=running_hub.unix)
    wait_subscribed(running_hub.tcp, "told")
    result = hub("top", "--once", "--json", "--sort", "name", url=running_hub.tcp)
    subscriber.terminate()
    subscriber.communicate()
    (line,) = result.stdout.splitlines()
    look = msgspec.json.decode(line)
    (told,) = [one for one in look["handlers"] if one["name"] == "told"]
    assert (told["sample"], told["dropped_lately"], told["overflow"]) == (["/top/json"], 0, "drop-oldest")
    assert look["total"]["in_per_s"] == pytest.approx(sum(one["in_per_s"] for one in look["handlers"]))
    assert "dropped in the last minute" in look["state"]
    assert [one["name"] for one in look["handlers"]] == sorted(one["name"] for one in look["handlers"])


def test_it_works_over_websocket(running_hub: RunningHub) -> None:
    """The statistics reach a WebSocket client as well."""
    assert b"hub top" in hub("top", "--once", url=running_hub.ws).stdout


def test_it_is_drawn_in_place_until_ctrl_c(running_hub: RunningHub) -> None:
    """On a terminal the screen is taken and given back; Ctrl-C is no error message."""
    process, terminal = on_terminal("top", "--name", "live top", url=running_hub.tcp, columns=160)
    wait_subscribed(running_hub.tcp, "live top")
    process.send_signal(signal.SIGINT)
    shown = screen(terminal)
    assert process.wait() == 130
    assert "\x1b[?1049h" in shown
    assert "\x1b[?1049l" in shown
    assert "Traceback" not in plain(shown)


def test_too_short_an_interval_is_refused(running_hub: RunningHub) -> None:
    """Hubs announce once a second; asking for more is an error that says so."""
    result: subprocess.CompletedProcess[bytes] = hub("top", "--interval", "0.1", url=running_hub.tcp)
    assert result.returncode == 2
    assert b"once a second" in result.stderr
