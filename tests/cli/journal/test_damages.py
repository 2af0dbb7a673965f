"""`hub journal export`, `stat` and `ls` on damaged journals: what is readable comes, what is not is named, once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hub.journal.segment import Write
from peers.cli.journal_reading import Damages
from peers.journal.view import Damage
from tests.cli.journal.journals import commit, complaint, lines, opened, run
from tests.cli.programs import hub
from tests.journal.files import damaged_by, flip, segments

CHECKSUM = "the block is damaged: its checksum does not match"
MISSING = "no block has them"
ALL = range(40961)


def told(*arguments: str | Path, code: int = 3) -> tuple[list[str], list[str]]:
    result = hub("journal", *map(str, arguments))
    assert result.returncode == code, result.stderr
    complaints = result.stderr.decode().splitlines()
    start = f"hub journal {arguments[0]}: "
    assert all(line.startswith(start) for line in complaints)
    return result.stdout.decode().splitlines(), [line.removeprefix(start) for line in complaints]


def exported(rows: list[str]) -> list[int]:
    return [json.loads(row)["offset"] for row in rows]


def without(*gaps: tuple[int, int]) -> list[int]:
    return [offset for offset in ALL if not any(first <= offset < following for first, following in gaps)]


EDGES = [
    ("block", (0, 8192), CHECKSUM),
    ("block", (40960, 40961), CHECKSUM),
    ("head", (0, 8192), MISSING),
    ("head", (32768, 40960), MISSING),
]


@pytest.mark.parametrize(("what", "damaged", "cause"), EDGES)
def test_a_damaged_journal(full: Path, what: str, damaged: tuple[int, int], cause: str) -> None:
    first, following = damaged
    damaged_by(full, (what, first))
    line = f"passed over offsets {first} to {following - 1}: {cause}"
    rows, complaints = told("export", full, "--skip-damaged")
    assert exported(rows) == without(damaged)
    assert complaints == [line]
    rows, complaints = told("ls", full, "--topics", "--json")
    assert sum(json.loads(row)["messages"] for row in rows) == len(without(damaged))
    assert complaints == [line]
    assert len(rows) == (3 if first == 40960 else 4)


@pytest.mark.parametrize(("what", "damaged", "cause"), EDGES)
def test_the_index_alone(full: Path, what: str, damaged: tuple[int, int], cause: str) -> None:
    first, following = damaged
    damaged_by(full, (what, first))
    in_index = what == "head"
    complaints = [f"passed over offsets {first} to {following - 1}: {cause}"] if in_index else []
    rows, said = told("ls", full, "--json", code=3 if in_index else 0)
    assert said == complaints
    shown = [json.loads(row)["first"] for row in rows]
    assert shown == [one for one in [*range(0, 40961, 8192)] if not in_index or one != first]
    ((row,), said) = told("stat", full, "--json", code=3 if in_index else 0)
    assert said == complaints
    assert json.loads(row)["blocks"] == len(shown)


def test_export_stops_at_damage_and_says_how_to_go_on(full: Path, tmp_path: Path) -> None:
    damaged_by(full, ("block", 8192))
    result = hub("journal", "export", str(full))
    assert result.returncode == 1
    assert exported(result.stdout.decode().splitlines()) == [*range(8192)]
    reason = f"hub: {full}: offsets 8192 to 16383: {CHECKSUM}; --skip-damaged goes on behind them\n"
    assert result.stderr.decode() == reason
    assert complaint("export", full, "--start", "9000") == reason.replace("8192 to", "9000 to")
    assert len(lines("export", full, "--start", "16384")) == 40961 - 16384
    assert len(lines("export", full, "--prefix", "/end")) == 1
    result = hub("journal", "export", str(full), "-o", str(tmp_path / "out"))
    assert (result.returncode, result.stderr.decode()) == (1, reason)
    assert result.stdout.startswith(b"exported 8,192 records in ")


def test_several_damages(full: Path, tmp_path: Path) -> None:
    damaged_by(full, ("block", 0), ("block", 8192), ("block", 32768), ("head", 16384))
    rows, complaints = told("export", full, "--skip-damaged")
    assert exported(rows) == without((0, 24576), (32768, 40960))
    assert complaints == [
        f"passed over offsets 0 to 16383: {CHECKSUM}",
        f"passed over offsets 16384 to 24575: {MISSING}",
        f"passed over offsets 32768 to 40959: {CHECKSUM}",
    ]
    rows, complaints = told("export", full, "--skip-damaged", "--start", "24000", "--end", "32770")
    assert exported(rows) == [*range(24576, 32768)]
    assert complaints == [
        f"passed over offsets 24000 to 24575: {MISSING}",
        f"passed over offsets 32768 to 32769: {CHECKSUM}",
    ]
    out, complaints = told("export", full, "--skip-damaged", "-o", tmp_path / "out")
    assert out[0].startswith("exported 8,193 records in ")
    assert len(complaints) == 3


def test_sound_journals_are_exported_alike(full: Path) -> None:
    assert run("export", full, "--skip-damaged") == run("export", full)


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
        damages.add(Damage(number + 1, number + 2, f"cause {number}"))
    assert damages.exit_code == 3
    damages.tell()
    *said, rest = capsys.readouterr().err.splitlines()
    assert len(said) == 100
    assert said[1] == "hub journal ls: passed over offsets 1 to 1: cause 0"
    assert "\x1b" not in said[0]
    assert rest == "hub journal ls: and 200 damaged places more; see `hub journal verify`"
