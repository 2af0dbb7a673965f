"""`hub journal verify` on sound journals and on damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

from peers.journal.folder import segment_path
from peers.journal.store import Retention
from tests.cli.journal.journals import FULL_RECORDS, cells, commit, fill, lines, opened, run
from tests.cli.programs import hub
from tests.journal.files import damaged_by, flip, segments


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
        {
            "damaged": True,
            "what": "the block is damaged: its checksum does not match",
            "first": 8192,
            "next": 16_384,
        },
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
