"""`hub journal stat`: how much a journal holds, from when to when, and what writers have committed.

What is damaged is told on standard error, and not counted: of blocks it knows their rows in the index, unless it counts
topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from peers.cli.journal.damages import Damages
from peers.cli.journal.older import tell_older
from peers.cli.journal.reading import JournalPath, index, opened
from peers.cli.journal.tables import amount, kib, print_json, show
from peers.cli.journal.tallies import tallies
from peers.cli.moments import moment
from peers.journal.damage import Damage
from peers.journal.segments.folder import segment_path
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
) -> int:
    """Tell how much a journal holds, and the last batch of each writing query: exit code 3 if something is damaged."""
    damages = Damages("stat")
    with opened(path) as view:
        tell_older("stat", view)
        found = _object(view, damages, tells_ranges=not topics)
        if topics:
            found["topics"] = len(tallies(view, damages))  # it meets all that is damaged, blocks too
    if json:
        print_json(found)
    else:
        _show(found)
    damages.tell()
    return damages.exit_code


def _show(found: dict[str, Any]) -> None:
    show(("", "unit", "figure"), _figures(found), text_columns=(0, 1))
    if found["writes"]:
        print()
        rows = [[one["query"], *(str(one[name]) for name in ("batch", "first", "next"))] for one in found["writes"]]
        show(("query", "last batch", "first offset", "next offset"), rows)


def _object(view: View, damages: Damages, *, tells_ranges: bool) -> dict[str, Any]:
    if not view.id:
        damages.note("the id of the journal is missing or damaged")
    totals = _totals(view, damages if tells_ranges else Damages("stat"))
    oldest, newest = map(moment, totals.times) if totals.times else (None, None)
    return {
        "path": view.path,
        "id": view.id.hex() or None,
        "first": totals.first,
        "next": totals.next,
        "records": totals.next - totals.first,
        "blocks": totals.blocks,
        "block_bytes": totals.size_bytes,
        "segments": len(view.catalog.firsts),
        "file_bytes": sum(_size_bytes(segment_path(view.path, first)) for first in view.catalog.firsts),
        "oldest": oldest,
        "newest": newest,
        "writes": [write._asdict() for write in view.writes],
    }


def _totals(view: View, damages: Damages) -> _Totals:
    first, following = view.extent
    count = size_bytes = 0
    earliest_us = latest_us = None
    for row in index(view):
        if isinstance(row, Damage):
            damages.add(row)
            continue
        count += 1
        size_bytes += row.size_bytes
        earliest_us = row.earliest_us if earliest_us is None else min(earliest_us, row.earliest_us)
        latest_us = row.latest_us if latest_us is None else max(latest_us, row.latest_us)
    times = None if earliest_us is None or latest_us is None else (earliest_us, latest_us)
    return _Totals(first, following, count, size_bytes, times)


def _size_bytes(path: str) -> int:
    """Return the size of a file, 0 if there is none: a hub may have deleted it."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _figures(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    yield "journal", "id", found["id"] or "damaged"
    yield "first", "offset", str(found["first"])
    yield "next", "offset", str(found["next"])
    yield "records", "records", amount(found["records"])
    yield "blocks", "blocks", amount(found["blocks"])
    if "topics" in found:
        yield "topics", "topics", amount(found["topics"])
    yield "oldest record", "UTC", found["oldest"] or "none"
    yield "newest record", "UTC", found["newest"] or "none"
    yield "blocks, as they are read", "KiB", kib(found["block_bytes"])
    yield "segments", "files", amount(found["segments"])
    yield "segments", "KiB", kib(found["file_bytes"])
