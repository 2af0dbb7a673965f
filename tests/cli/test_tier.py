"""`hub journal` and `hub journal tier` with a tier."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hub.errors import UsageError
from peers.cli.journal import journals
from peers.journal.tier import parquet
from peers.journal.tier.place import place_at
from tests.cli.journals import cells, complaint, lines, run
from tests.cli.programs import hub
from tests.journal.files import flip, hurt_block, segments
from tests.journal.tier.made import copy, fill_untidily


def made(path: Path, damaged: int | None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parquet, "FILE_BYTES", 300)
    fill_untidily(path, 40, 30, 25)
    if damaged is not None:
        hurt_block(path, damaged)
    (path.parent / "tier").mkdir()
    copy(path, place_at(str(path.parent / "tier")))
    return path


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return made(tmp_path / "journal", 50, monkeypatch)


@pytest.fixture
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = made(tmp_path / "journal", None, monkeypatch)
    fill_untidily(path, 10)
    return path


def test_status(journal: Path) -> None:
    fill_untidily(journal, 10)
    found = json.loads(run("tier", "status", journal, "--json"))
    assert {name: found[name] for name in ("first_there", "copied", "behind", "next", "files")} == {
        "first_there": 0,
        "copied": 95,
        "behind": 10,
        "next": 105,
        "files": 2,
    }
    assert found["tier"] == str(journal.parent / "tier")
    assert "copied before" in run("tier", "status", journal)


@pytest.mark.parametrize("command", ["ls", "stat", "verify", "export"])
def test_the_folder_alone(journal: Path, command: str) -> None:
    assert b"in the tier" not in hub("journal", command, str(journal), "--tier", "none").stderr
    delete(journal)
    result = hub("journal", command, str(journal), "--tier", "none")
    tier = journal.parent / "tier"
    text = f"offsets before 70 are in the tier {tier} alone, as far as it keeps them"
    assert (result.returncode, result.stderr.decode()) == (0, f"hub journal {command}: {text}\n")
    if command == "export":
        assert hub("journal", command, str(journal), "--tier", "none", "--start", "80").stderr == b""
        assert text in complaint(command, journal, "--tier", "none", "--start", "50")


def delete(journal: Path) -> None:
    for file in segments(journal)[:2]:
        file.unlink()


EXPORTS: tuple[list[str], ...] = (
    [],
    ["--start", "50", "--end", "90"],
    ["--prefix", "/t/1"],
    ["--start", "2023-11-14T22:13:50Z"],
    ["--end", "2023-11-14T22:14:10Z"],
)


def test_exports_read_both(sound: Path) -> None:
    before = [hub("journal", "export", str(sound), *flags).stdout for flags in EXPORTS]
    assert before[0].count(b"\n") == 105
    assert len(set(before)) == len(EXPORTS)
    delete(sound)
    for flags, expected in zip(EXPORTS, before, strict=True):
        result = hub("journal", "export", str(sound), *flags)
        assert (result.returncode, result.stderr, result.stdout) == (0, b"", expected)


def test_the_other_commands_read_both(sound: Path) -> None:
    topics = run("ls", sound, "--topics")
    (before,) = lines("stat", sound, "--json")
    assert run("verify", sound) == "sound: 105 records in 4 blocks, offsets 0 to 104\n"
    delete(sound)
    assert run("ls", sound, "--topics") == topics
    (after,) = lines("stat", sound, "--json")
    for name in ("id", "first", "next", "records", "oldest", "newest", "writes"):
        assert after[name] == before[name]
    assert (before["tier_files"], after["tier_files"], after["first_here"]) == (0, 2, 70)
    rows = cells(run("stat", sound))
    assert ["older, in the tier", "files", "2"] in rows
    assert run("verify", sound) == "sound: 105 records in 2 blocks and 2 files of the tier, offsets 0 to 104\n"
    listed = lines("ls", sound, "--json")
    assert [(row["first"], row["next"], row["records"], row["where"]) for row in listed] == [
        (0, 40, 40, "tier"),
        (40, 70, 30, "tier"),
        (70, 95, 25, "folder"),
        (95, 105, 10, "folder"),
    ]


def test_damage_in_the_tier(journal: Path) -> None:
    delete(journal)
    assert "offsets 40 to 69: could not be copied to the tier" in complaint_of(journal)
    result = hub("journal", "export", str(journal), "--skip-damaged")
    assert (result.returncode, result.stdout.count(b"\n")) == (3, 65)
    file = next((journal.parent / "tier").glob("*/data/*0040.parquet"))
    flip(file, file.stat().st_size - 100)
    assert file.name in complaint_of(journal)
    result = hub("journal", "export", str(journal), "--skip-damaged")
    assert (result.returncode, result.stdout.count(b"\n")) == (3, 25)
    (first, second) = result.stderr.decode().splitlines()
    assert first.startswith("hub journal export: passed over offsets 0 to 39: ")
    assert second.startswith("hub journal export: passed over offsets 40 to 69: could not be copied to the tier: ")
    found = cells(run("verify", journal, code=3))
    assert [row[:2] for row in found[1:3]] == [["0 to 39", "40"], ["40 to 69", "30"]]
    assert found[-1] == ["70 to 94", "25"]
    file.unlink()
    assert "there is no such file" in complaint_of(journal)


def complaint_of(journal: Path) -> str:
    result = hub("journal", "export", str(journal))
    assert result.returncode == 1
    return result.stderr.decode()


@pytest.mark.parametrize("command", ["ls", "stat", "verify", "export"])
def test_a_tier_that_is_away(sound: Path, command: str) -> None:
    delete(sound)
    expected = run(command, sound)
    elsewhere = (sound.parent / "tier").rename(sound.parent / "elsewhere")
    text = complaint(command, sound)
    assert "there is no such folder" in text
    assert "--tier none reads the folder only" in text
    assert run(command, sound, "--tier", elsewhere) == expected
    if command == "export":
        assert run(command, sound, "--start", "70").count("\n") == 35


def test_verify(journal: Path) -> None:
    (head, *rows) = cells(run("tier", "verify", journal.parent / "tier", code=3).split("\n\n")[0])
    assert head[0] == "journal"
    ((_, offsets, count, cause),) = rows
    assert (offsets, count) == ("40 to 69", "30")
    assert cause.startswith("could not be copied: ")
    first = next((journal.parent / "tier").glob("*/data/*0040.parquet"))
    flip(first, 200)
    told = run("tier", "verify", journal.parent / "tier", code=3)
    assert "the checksum of the file does not match" in told
    assert told.endswith("\n25 records can be read, in 1 of 2 files\n")
    first.unlink()
    assert "there is no such file" in run("tier", "verify", journal.parent / "tier", code=3)


def test_a_tier_without_journals(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(UsageError, match="holds no journal"):
        journals(str(tmp_path), None)
    with pytest.raises(UsageError, match="holds no journal 00"):
        journals(str(tmp_path), "00")


def test_pyarrow_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match=r"pip install 'topichub\[tier\]'"):
        journals(str(tmp_path), None)
