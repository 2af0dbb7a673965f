"""`hub journal take-over`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.journal.journals import complaint, lines, run
from tests.cli.programs import hub
from tests.journal.earlier.databases import change, earlier


def test_take_over(tmp_path: Path) -> None:
    """One line says what there is now."""
    old, new = earlier(tmp_path / "old.db", 10, 20), tmp_path / "new"
    said = run("take-over", old, new)
    assert said == f"took over 30 records, offsets 0 to 29, and compared them; {old} was not changed\n"
    assert [row["offset"] for row in lines("export", new)] == list(range(30))
    assert "there is something already" in complaint("take-over", old, new)


def test_take_over_of_a_damaged_one(tmp_path: Path) -> None:
    """The line says how to go on; then it says what is missing, and ends with exit code 3."""
    old, new = earlier(tmp_path / "old.db", 10, 20), tmp_path / "new"
    change(old, "DELETE FROM data WHERE first = 10")
    assert "offsets 10 to 29: no sound block has them; --skip-damaged goes on" in complaint("take-over", old, new)
    result = hub("journal", "take-over", str(old), str(new), "--skip-damaged")
    assert result.returncode == 3
    assert result.stderr == b"hub journal take-over: passed over offsets 10 to 29: no sound block has them\n"
    assert result.stdout.startswith(b"took over 10 records, offsets 0 to 29, ")
    assert len(lines("export", new, "--end", "10")) == 10
