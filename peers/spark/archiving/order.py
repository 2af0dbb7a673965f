"""`ArchiveOrder`: what is to be archived, and how. No Spark here."""

from __future__ import annotations

from dataclasses import dataclass, field

from peers.spark.archiving.state import Format

__all__ = ["ArchiveOrder", "is_local"]


@dataclass(frozen=True, kw_only=True)
class ArchiveOrder:
    """What is to be archived, and how."""

    url: str
    path: str
    topics: tuple[str, ...] | None = None
    """Prefixes; None for those of the archive, or for all if it is new."""
    starting: str = "earliest"
    """Where a new archive begins: earliest, latest, or an offset."""
    every_s: float | None = None
    """None: what is there, then end."""
    format: Format = "parquet"
    compact: bool = False
    max_offsets: int | None = None
    lossy: bool = False
    """Whether to go on where records were deleted before they were archived."""
    token: str = field(default="", repr=False)


def is_local(path: str) -> bool:
    """Whether a path is one of this machine's own files."""
    return "://" not in path
