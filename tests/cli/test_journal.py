"""`hub journal ls`, `stat` and `verify`, on sound journals and on damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

import pytest

from hub.journal.segment import Write
from peers.cli.journal_reading import Damages
from peers.journal.folder import segment_path
from peers.journal.store import Retention
from peers.journal.view import Damage, View
from tests.cli.journals import FULL_RECORDS, cells, commit, complaint, fill, lines, opened, run
from tests.cli.programs import hub
from tests.journal.files import damaged_by, flip, segments


def test_ls_shows_blocks_the_newest_last(full: Path) -> None:
    heads, *rows = cells(run("ls", full))
    assert heads == ["first offset", "next offset", "records", "KiB", "oldest (UTC)", "newest (UTC)", "where"]
    assert [row[:3] for row in rows] == [
        *([str(first), str(first + 8192), "8,192"] for first in range(0, 40960, 8192)),
        ["40960", "40961", "1"],
    ]
    assert rows[1][4:] == [*["2023-11-14T22:13:21.000000Z"] * 2, "folder"]
    said = run("ls", full, "--limit", "2")
    assert [row[0] for row in cells(said)] == ["first offset", "32768", "40960", "and 4 older blocks, see --limit"]
    listed = lines("ls", full, "--json")
    assert [row["first"] for row in listed] == [*range(0, 40961, 8192)]
    assert lines("ls", full, "--json", "--limit", "1") == listed[-1:]
    assert all(row.pop("bytes") > 0 for row in listed)
    times = {"oldest": "2023-11-14T22:14:20.000000Z", "newest": "2023-11-14T22:14:20.000000Z"}
    assert listed[-1] == {"first": 40960, "next": 40961, "records": 1, "where": "folder"} | times


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


def test_verify_of_sound_journals(full: Path, tmp_path: Path) -> None:
    assert run("verify", full) == "sound: 40,961 records in 6 blocks, offsets 0 to 40960\n"
    empty = tmp_path / "empty"
    opened(empty).close()
    assert run("verify", empty) == "sound: no records\n"


def test_verify_while_it_is_written(full: Path) -> None:
    store = opened(full, Retention(bytes=100_000, age_us=1 << 60))
    commit(store, ("/a", 1))
    commit(store, ("/a", 2))
    assert store.first > 0
    count = store.next - store.first
    assert run("verify", full).startswith(f"sound: {count:,} records in ")
    store.close()


def damage_and_readable(path: Path) -> tuple[list[list[str]], list[list[str]]]:
    """What `verify` tells of a damaged journal: what is damaged, and what is readable."""
    found, readable = run("verify", path, code=3).split("\n\n")
    return cells(found)[1:], cells(readable)[1:]


def test_verify_goes_on_behind_damage(full: Path) -> None:
    damaged_by(full, ("block", 8192), ("head", 16384))
    assert damage_and_readable(full) == (
        [
            ["8192 to 16383", "8,192", "the block is damaged: its checksum does not match"],
            ["16384 to 24575", "8,192", "missing: no block has them"],
            [f"{0:020}.seg: the checksum of an entry's head does not match"],
        ],
        [["0 to 8191", "8,192"], ["24576 to 40960", "16,385"]],
    )
    assert len(lines("export", full, "--start", "24576", "--end", "32768")) == 8192
    assert b": offsets 8192 to 16383: the block is damaged: its checksum" in hub("journal", "export", str(full)).stderr


def test_verify_for_programs(full: Path) -> None:
    assert [json.loads(line) for line in run("verify", full, "--json").splitlines()] == [
        {"damaged": False, "first": 0, "next": 40_961}
    ]
    damaged_by(full, ("block", 8192))
    assert [json.loads(line) for line in run("verify", full, "--json", code=3).splitlines()] == [
        {"damaged": True, "what": "the block is damaged: its checksum does not match", "first": 8192, "next": 16_384},
        {"damaged": False, "first": 0, "next": 8192},
        {"damaged": False, "first": 16_384, "next": 40_961},
    ]


def several(path: Path) -> Path:
    store = opened(path, segment_bytes=1)
    fill(store, 5)
    store.close()
    return path


def test_verify_finds_a_segment_that_is_missing(path: Path) -> None:
    Path(segment_path(str(several(path)), FULL_RECORDS)).unlink()
    assert damage_and_readable(path) == (
        [["8192 to 16383", "8,192", "missing: no block has them"]],
        [["0 to 8191", "8,192"], ["16384 to 40959", "24,576"]],
    )


def test_verify_finds_what_is_damaged_beside_blocks(path: Path) -> None:
    files = segments(several(path))
    other = path.with_name("other")
    stranger = segments(several(other))[1]
    flip(files[0], 20)
    files[1].write_bytes(stranger.read_bytes())
    flip(files[2], files[2].stat().st_size - 60)
    found, readable = damage_and_readable(path)
    assert [row[0].partition(":")[0] for row in found] == [file.name for file in files[:3]]
    assert "the header of the segment is damaged" in found[0][0]
    assert "a segment of another journal" in found[1][0]
    assert "its footer is damaged" in found[2][0]
    assert readable == [["0 to 40959", "40,960"]]


def test_verify_passes_over_what_is_covered(path: Path) -> None:
    (first, *_) = segments(several(path))
    other = opened(path.with_name("other"))
    fill(other, 2)
    other.close()
    first.write_bytes(segments(path.with_name("other"))[0].read_bytes())
    found, _ = damage_and_readable(path)
    assert [f"{FULL_RECORDS:020}.seg: a segment of another journal"] not in found
    assert [f"{0:020}.seg: a segment of another journal"] in found


CHECKSUM = "the block is damaged: its checksum does not match"


def told(*arguments: str | Path, code: int = 3) -> tuple[list[str], list[str]]:
    result = hub("journal", *map(str, arguments))
    assert result.returncode == code, result.stderr
    complaints = result.stderr.decode().splitlines()
    start = f"hub journal {arguments[0]}: "
    assert all(line.startswith(start) for line in complaints)
    return result.stdout.decode().splitlines(), [line.removeprefix(start) for line in complaints]


def exported(rows: list[str]) -> list[int]:
    return [json.loads(row)["offset"] for row in rows]


@pytest.mark.parametrize(
    ("what", "damaged", "cause"),
    [
        ("block", (0, 8192), CHECKSUM),
        ("block", (40960, 40961), CHECKSUM),
        ("head", (0, 8192), "no block has them"),
        ("head", (32768, 40960), "no block has them"),
    ],
)
def test_a_damaged_journal(full: Path, what: str, damaged: tuple[int, int], cause: str) -> None:
    first, following = damaged
    damaged_by(full, (what, first))
    line = f"passed over offsets {first} to {following - 1}: {cause}"
    rows, complaints = told("export", full, "--skip-damaged")
    left = [*range(first), *range(following, 40961)]
    assert exported(rows) == left
    assert complaints == [line]
    rows, complaints = told("ls", full, "--topics", "--json")
    assert sum(json.loads(row)["messages"] for row in rows) == len(left)
    assert complaints == [line]
    assert len(rows) == (3 if first == 40960 else 4)
    in_index = what == "head"
    code, told_of = (3, [line]) if in_index else (0, [])
    rows, complaints = told("ls", full, "--json", code=code)
    assert complaints == told_of
    shown = [json.loads(row)["first"] for row in rows]
    assert shown == [one for one in range(0, 40961, 8192) if not in_index or one != first]
    ((row,), complaints) = told("stat", full, "--json", code=code)
    assert complaints == told_of
    assert json.loads(row)["blocks"] == len(shown)


def test_export_stops_at_damage_and_says_how_to_go_on(full: Path, tmp_path: Path) -> None:
    damaged_by(full, ("block", 8192))
    result = hub("journal", "export", str(full))
    assert result.returncode == 1
    assert exported(result.stdout.decode().splitlines()) == [*range(8192)]
    reason = f"hub: {full}: offsets 8192 to 16383: {CHECKSUM}; --skip-damaged continues after them\n"
    assert result.stderr.decode() == reason
    assert complaint("export", full, "--start", "9000") == reason.replace("8192 to", "9000 to")
    assert len(lines("export", full, "--start", "16384")) == 40961 - 16384
    assert len(lines("export", full, "--prefix", "/end")) == 1
    result = hub("journal", "export", str(full), "-o", str(tmp_path / "out"))
    assert (result.returncode, result.stderr.decode()) == (1, reason)
    assert result.stdout.startswith(b"exported 8,192 records in ")


def test_what_belongs_to_no_block(path: Path) -> None:
    store = opened(path)
    commit(store, ("/a", 1), writes=[Write("q", 1, 0, 1)])
    store.close()
    flip(segments(path)[0], 20)
    assert [row["value"] for row in lines("export", path)] == [1]
    assert len(lines("ls", path, "--json")) == 1
    ((row,), complaints) = told("stat", path, "--json")
    assert json.loads(row)["id"] is None
    assert json.loads(row)["writes"] == [{"query": "q", "batch": 1, "first": 0, "next": 1}]
    assert complaints == ["the id of the journal is missing or damaged"]
    table, complaints = told("stat", path)
    assert any("damaged" in line for line in table)
    assert len(complaints) == 1


def test_lines_have_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    damages = Damages("ls")
    assert damages.exit_code == 0
    for number in range(150):
        damages.add(Damage(number, number + 1, f"cause\x1b {number}"))
        damages.add(Damage(number + 1, number + 1, f"cause\x1b {number}"))  # of the same place
        damages.add(Damage(number + 1, number + 2, f"cause {number}"))
    assert damages.exit_code == 3
    damages.tell()
    *said, rest = capsys.readouterr().err.splitlines()
    assert len(said) == 100
    assert said[1] == "hub journal ls: passed over offsets 1 to 1: cause 0"
    assert "\x1b" not in said[0]
    assert rest == "hub journal ls: and 200 damaged places more; see `hub journal verify`"
