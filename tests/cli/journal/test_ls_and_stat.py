"""`hub journal ls` and `stat`, also while a store has the file open; and what all its commands refuse."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from hub.journal.segment import Write
from peers.cli.flag_values import moment, time_us_of
from peers.journal.view import View
from tests.cli.journal.journals import (
    AT_US,
    cells,
    commit,
    complaint,
    lines,
    opened,
    run,
)


def test_ls_shows_blocks_the_newest_last(full: Path) -> None:
    heads, *rows = cells(run("ls", full))
    assert heads == ["first offset", "next offset", "records", "KiB", "oldest (UTC)", "newest (UTC)", "where"]
    assert [row[:3] for row in rows] == [
        *([str(first), str(first + 8192), "8,192"] for first in range(0, 40960, 8192)),
        ["40960", "40961", "1"],
    ]
    assert rows[1][4:] == [*["2023-11-14T22:13:21.000000Z"] * 2, "folder"]


def test_ls_limit_takes_the_newest_and_tells_of_the_others(full: Path) -> None:
    said = run("ls", full, "--limit", "2")
    assert [row[0] for row in cells(said)] == ["first offset", "32768", "40960", "and 4 older blocks, see --limit"]


def test_ls_for_programs(full: Path) -> None:
    rows = lines("ls", full, "--json")
    assert [row["first"] for row in rows] == [*range(0, 40961, 8192)]
    with_bytes = {row.pop("bytes") > 0 for row in rows}
    assert with_bytes == {True}
    assert rows[-1] == {
        "first": 40960,
        "next": 40961,
        "records": 1,
        "oldest": "2023-11-14T22:14:20.000000Z",
        "newest": "2023-11-14T22:14:20.000000Z",
        "where": "folder",
    }
    assert lines("ls", full, "--json", "--limit", "1") == [lines("ls", full, "--json")[-1]]


def test_ls_topics_counts_what_each_has(full: Path) -> None:
    rows = lines("ls", full, "--topics", "--json")
    assert [(row["topic"], row["messages"]) for row in rows] == [
        ("/t/0", 13655),
        ("/t/1", 13655),
        ("/t/2", 13650),
        ("/end", 1),
    ]
    assert rows[-1] == {
        "topic": "/end",
        "messages": 1,
        "bytes": 5,
        "first": "2023-11-14T22:14:20.000000Z",
        "last": "2023-11-14T22:14:20.000000Z",
    }
    assert (rows[0]["first"], rows[0]["last"]) == ("2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:24.000000Z")
    heads, *shown = cells(run("ls", full, "--topics", "--limit", "3"))
    assert heads == ["topic", "messages", "KiB of values", "first (UTC)", "last (UTC)"]
    assert [row[:2] for row in shown] == [
        ["/t/0", "13,655"],
        ["/t/1", "13,655"],
        ["/t/2", "13,650"],
        ["and 1 more topics, see --limit"],
    ]


def test_stat(full: Path) -> None:
    view = View(str(full))
    journal_id = view.id.hex()
    view.close()
    (found,) = lines("stat", full, "--json")
    size = sum(file.stat().st_size for file in full.iterdir())
    assert found.pop("file_bytes") == size
    assert found.pop("block_bytes") > 40_961 * 16, "as they are before they are compressed"
    assert found == {
        "path": str(full),
        "id": journal_id,
        "first": 0,
        "next": 40961,
        "records": 40961,
        "blocks": 6,
        "segments": 1,
        "tier": None,
        "first_here": 0,
        "tier_files": 0,
        "tier_bytes": 0,
        "oldest": "2023-11-14T22:13:20.000000Z",
        "newest": "2023-11-14T22:14:20.000000Z",
        "writes": [],
    }
    rows = cells(run("stat", full))
    assert rows[:3] == [["unit", "figure"], ["journal", "id", journal_id], ["first", "offset", "0"]]
    assert ["records", "records", "40,961"] in rows


def test_stat_while_it_is_written(path: Path) -> None:
    store = opened(path)
    commit(store, ("/a", 1), ("/a", 2), writes=[Write("query-1", 7, 0, 2)])
    (found,) = lines("stat", path, "--json")
    assert found["writes"] == [{"query": "query-1", "batch": 7, "first": 0, "next": 2}]
    rows = cells(run("stat", path))
    assert rows[-2:] == [["query", "last batch", "first offset", "next offset"], ["query-1", "7", "0", "2"]]
    store.close()


@pytest.mark.parametrize("flag", [["--limit", "0"], ["--topics", "--limit", "-3"]])
def test_mistakes_of_ls_are_one_line(full: Path, flag: list[str]) -> None:
    assert "give 1 or more" in complaint("ls", full, *flag, code=2)


@pytest.mark.parametrize("command", ["ls", "stat", "export", "verify"])
def test_what_is_no_journal(command: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert "there is no such journal" in complaint(command, missing)
    assert not missing.exists()
    text = tmp_path / "text"
    text.write_text("no journal\n" * 100)
    assert "a journal is a folder" in complaint(command, text)
    other = tmp_path / "other"
    other.mkdir()
    assert "a folder, but not a journal" in complaint(command, other)
    later = tmp_path / "later"
    opened(later).close()
    (file,) = later.iterdir()
    data = bytearray(file.read_bytes())
    data[8] = 9
    data[4:8] = crc32(data[8:64]).to_bytes(4, "little")
    file.write_bytes(data)
    assert "format 9, this version reads format 1" in complaint(command, later)


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2023-11-14T23:13:20.5+01:00", AT_US + 500_000),
        ("2023-11-14 22:13:20", AT_US),
        ("2023-11-14", AT_US // 86_400_000_000 * 86_400_000_000),
    ],
)
def test_times(text: str, time_us: int) -> None:
    assert time_us_of("--start", text) == time_us
    assert time_us_of("--start", moment(time_us)) == time_us
