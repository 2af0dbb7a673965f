"""`hub journal stat`: how much a journal holds, from when to when, and what writers have committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from peers.cli.journal.moments import moment
from peers.cli.journal.reading import JournalPath, opened
from peers.cli.journal.tables import amount, kib, print_json, show
from peers.cli.journal.tallies import tallies
from peers.journal.view import View

__all__ = ["stat"]


class _Totals(NamedTuple):
    """What the index says of all blocks together."""

    first: int
    next: int
    blocks: int
    size_bytes: int
    times: tuple[int, int] | None


def stat(
    path: JournalPath,
    /,
    *,
    topics: Annotated[bool, Parameter(help="Count distinct topics too; reads everything.", negative=())] = False,
    json: Annotated[bool, Parameter(help="One JSON object.", negative=())] = False,
) -> None:
    """Tell how much a journal holds, and what the last batch of each writing query was."""
    with opened(path) as view:
        found = _object(view)
        if topics:
            found["topics"] = len(tallies(view))
    if json:
        print_json(found)
        return
    show(("", "unit", "figure"), _figures(found), text_columns=(0, 1))
    if found["writes"]:
        print()
        rows = [[one["query"], *(str(one[name]) for name in ("batch", "first", "next"))] for one in found["writes"]]
        show(("query", "last batch", "first offset", "next offset"), rows)


def _object(view: View) -> dict[str, Any]:
    with view.snapshot():  # all of one state
        totals, writes = _totals(view), view.writes
    oldest, newest = map(moment, totals.times) if totals.times else (None, None)
    return {
        "path": view.path,
        "id": view.id.hex(),
        "first": totals.first,
        "next": totals.next,
        "records": totals.next - totals.first,
        "blocks": totals.blocks,
        "block_bytes": totals.size_bytes,
        "file_bytes": _size_bytes(view.path),
        "wal_bytes": _size_bytes(f"{view.path}-wal"),
        "oldest": oldest,
        "newest": newest,
        "writes": [write._asdict() for write in writes],
    }


def _totals(view: View) -> _Totals:
    first, following = view.extent
    count = size_bytes = 0
    earliest_us = latest_us = None
    for count, row in enumerate(view.rows(), 1):  # noqa: B007 -- wanted behind the loop
        size_bytes += row.size_bytes
        earliest_us = row.earliest_us if earliest_us is None else min(earliest_us, row.earliest_us)
        latest_us = row.latest_us if latest_us is None else max(latest_us, row.latest_us)
    times = None if earliest_us is None or latest_us is None else (earliest_us, latest_us)
    return _Totals(first, following, count, size_bytes, times)


def _size_bytes(path: str) -> int:
    """Return the size of a file, 0 if there is none: the log goes when the last program closes the journal."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _figures(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    yield "journal", "id", found["id"]
    yield "first", "offset", str(found["first"])
    yield "next", "offset", str(found["next"])
    yield "records", "records", amount(found["records"])
    yield "blocks", "blocks", amount(found["blocks"])
    if "topics" in found:
        yield "topics", "topics", amount(found["topics"])
    yield "oldest record", "UTC", found["oldest"] or "none"
    yield "newest record", "UTC", found["newest"] or "none"
    yield "blocks", "KiB", kib(found["block_bytes"])
    yield "file", "KiB", kib(found["file_bytes"])
    yield "write-ahead log", "KiB", kib(found["wal_bytes"])
