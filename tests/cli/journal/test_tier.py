"""`hub journal tier`: what a tier holds, how far it is, and what is damaged in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hub.errors import UsageError
from peers.cli.journal.tier.shelves import shelves
from peers.journal.tier import parquet
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.place import place_at
from tests.cli.journal.journals import cells, run
from tests.cli.programs import hub
from tests.journal.files import AT_US, flip, hurt_block, segments
from tests.journal.tier.made import fill_untidily, id_of


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of 95 records in three files of its tier, whose second lacks what was damaged."""
    monkeypatch.setattr(parquet, "FILE_BYTES", 300)
    path = tmp_path / "journal"
    fill_untidily(path, 40, 30, 25)
    hurt_block(path, 50)
    (tmp_path / "tier").mkdir()
    copier = Copier(str(path), place_at(str(tmp_path / "tier")), TierRetention(0, 0))
    while copier.step(AT_US):
        pass
    copier.close()
    return path


def test_ls(journal: Path) -> None:
    """A row a file, or a topic, from the manifest alone."""
    name = id_of(journal).hex()
    rows = cells(run("tier", "ls", journal.parent / "tier"))
    assert [row[:4] for row in rows[1:]] == [[name, "0", "40", "40"], [name, "40", "95", "25"]]
    assert [row[-1] for row in rows[1:]] == ["0", "30"]
    found = [json.loads(line) for line in run("tier", "ls", journal.parent / "tier", "--json").splitlines()]
    assert [(one["first"], one["next"], len(one["holes"])) for one in found] == [(0, 40, 0), (40, 95, 1)]
    assert run("tier", "ls", journal.parent / "tier", "--limit", "1").endswith("and 1 older files, see --limit\n")
    topics = cells(run("tier", "ls", journal.parent / "tier", "--topics", "--journal", name))
    assert topics[1:] == [["/t/0", "22"], ["/t/1", "22"], ["/t/2", "21"]]


def test_status(journal: Path) -> None:
    """How far it is, from the folder and the tier."""
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


def test_status_without_a_tier(tmp_path: Path) -> None:
    """It says what makes one."""
    fill_untidily(tmp_path / "journal", 10)
    result = hub("journal", "tier", "status", str(tmp_path / "journal"))
    assert result.returncode != 0
    assert b"was never copied; a hub with journal.tier does that" in result.stderr


@pytest.mark.parametrize("command", ["ls", "stat", "verify", "export"])
def test_what_is_in_the_tier_alone(journal: Path, command: str) -> None:
    """The commands for what is here say where the rest is; nothing while all is here."""
    assert b"in the tier" not in hub("journal", command, str(journal)).stderr
    for file in segments(journal)[:2]:
        file.unlink()
    result = hub("journal", command, str(journal))
    tier = journal.parent / "tier"
    text = f"offsets before 70 are in the tier {tier} alone, as far as it keeps them: see `hub journal tier`"
    assert (result.returncode, result.stderr.decode()) == (0, f"hub journal {command}: {text}\n")
    if command == "export":
        assert hub("journal", command, str(journal), "--start", "80").stderr == b""
        assert text.encode() in hub("journal", command, str(journal), "--start", "50").stderr


def test_verify(journal: Path) -> None:
    """What was not copied, and what is damaged by now; the rest is sound."""
    (head, *rows) = cells(run("tier", "verify", journal.parent / "tier", code=3).split("\n\n")[0])
    assert head[0] == "journal"
    ((_, offsets, count, cause),) = rows
    assert (offsets, count) == ("40 to 69", "30")
    assert cause.startswith("could not be copied: ")
    first = next((journal.parent / "tier").glob("*/data/*0040.parquet"))
    flip(first, 200)
    told = run("tier", "verify", journal.parent / "tier", code=3)
    assert "the checksum of the file does not match" in told
    assert told.endswith("sound: 25 records in 1 files\n")
    first.unlink()
    assert "there is no such file" in run("tier", "verify", journal.parent / "tier", code=3)


def test_verify_of_a_sound_tier(tmp_path: Path) -> None:
    """One line."""
    path = tmp_path / "journal"
    fill_untidily(path, 40, 30, 25)
    (tmp_path / "tier").mkdir()
    copier = Copier(str(path), place_at(str(tmp_path / "tier")), TierRetention(0, 0))
    copier.step(AT_US)
    copier.close()
    assert run("tier", "verify", tmp_path / "tier") == "sound: 95 records in 1 files\n"


def test_a_tier_without_journals(tmp_path: Path) -> None:
    """It is told."""
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(UsageError, match="holds no journal"):
        shelves(str(tmp_path), None)
    with pytest.raises(UsageError, match="holds no journal 00"):
        shelves(str(tmp_path), "00")


def test_pyarrow_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match=r"pip install '\.\[tier\]'"):
        shelves(str(tmp_path), None)
