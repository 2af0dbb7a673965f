"""Files that the jobs read and write beside Spark. Errors of the disk become a `UsageError` that names the file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from hub.errors import UsageError

__all__ = ["check_folder", "read_text", "write_csv", "write_text"]


def read_text(path: Path) -> str:
    """Read a text that is not empty from a file.

    Raises:
        UsageError: It cannot be read, or is empty.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    if not text.strip():
        raise UsageError(f"{path}: it is empty")
    return text


def check_folder(archive: str) -> None:
    """See to it that an archive is there before Java is started, where it is a folder of this machine.

    Raises:
        UsageError: It is not.
    """
    if "://" not in archive and not Path(archive).exists():
        raise UsageError(f"{archive}: there is no such archive")


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
