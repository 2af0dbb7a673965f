"""Files that the jobs write beside their tables. Errors of the disk become a `UsageError` that names the file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from hub.errors import UsageError

__all__ = ["write_csv", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a text to a file.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def write_csv(path: Path, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table to a file, and make the folder for it.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(heads)
            writer.writerows(rows)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
