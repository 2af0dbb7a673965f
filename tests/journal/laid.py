"""Journals whose sealed segments are laid anew, as the process does it, at once."""

from __future__ import annotations

from pathlib import Path

from peers.journal.segments.codec import Compressor
from peers.journal.segments.laying import check_laid, lay_anew
from peers.journal.segments.segment import Segment
from tests.journal.files import segments

__all__ = ["lay", "lay_all"]


def lay(folder: Path, file: Path, *, compresses: bool = True) -> None:
    """Lay a segment anew, and put it in its place."""
    segment = Segment(str(folder), int(file.stem))
    made = file.with_suffix(".seg.new")
    try:
        lay_anew(segment, str(made), Compressor(is_on=compresses, is_patient=True), lambda: None)
        check_laid(segment, str(made), lambda: None)
    finally:
        segment.close()
    made.rename(file)


def lay_all(folder: Path, *, compresses: bool = True) -> None:
    """Lay all sealed segments anew."""
    for file in segments(folder)[:-1]:
        lay(folder, file, compresses=compresses)
