"""`hub journal stat`: how much a journal holds, from when to when, and what writers have committed.

What is damaged is told on standard error, and not counted: of blocks it knows their rows in the index, unless it counts
topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from peers.cli.flag_values import moment
from peers.cli.journal.damages import Damages
from peers.cli.journal.older import Tier, tell_older
from peers.cli.journal.reading import JournalPath, index, opened_history
from peers.cli.journal.tallies import tallies
from peers.cli.texts import amount, kib, print_json, show
from peers.journal.damage import Damage
from peers.journal.history import History
from peers.journal.segments.folder import segment_path
from peers.journal.view import View

__all__ = ["stat"]


class _Totals(NamedTuple):
    """What is said of all blocks together, or of all files of the tier."""

    records: int
    parts: int
    """How many blocks, or files."""
    size_bytes: int
    times: tuple[int, int] | None


def stat(
    path: JournalPath,
    /,
    *,
    topics: Annotated[bool, Parameter(help="Count distinct topics too; reads everything.", negative=())] = False,
    json: Annotated[bool, Parameter(help="One JSON object.", negative=())] = False,
    tier: Tier = None,
) -> int:
    """Tell how much a journal holds, and the last batch of each writing query: exit code 3 if something is damaged."""
    damages = Damages("stat")
    with opened_history(path, tier) as history:
        tell_older("stat", history)
        found = _object(history, damages, tells_ranges=not topics)
        if topics:
            found["topics"] = len(tallies(history, damages))  # it meets all that is damaged, blocks too
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


def _object(history: History, damages: Damages, *, tells_ranges: bool) -> dict[str, Any]:
    view = history.view
    if not view.id:
        damages.note("the id of the journal is missing or damaged")
    there, here = _there(history), _here(view, damages if tells_ranges else Damages("stat"))
    times = [*(there.times or ()), *(here.times or ())]
    oldest, newest = map(moment, (min(times), max(times))) if times else (None, None)
    return {
        "path": view.path,
        "id": view.id.hex() or None,
        "first": history.extent.first,
        "next": view.extent.next,
        "records": there.records + here.records,
        "blocks": here.parts,
        "block_bytes": here.size_bytes,
        "segments": len(view.catalog.firsts),
        "file_bytes": sum(_size_bytes(segment_path(view.path, first)) for first in view.catalog.firsts),
        "tier": history.address or None,
        "first_here": view.extent.first,
        "tier_files": there.parts,
        "tier_bytes": there.size_bytes,
        "oldest": oldest,
        "newest": newest,
        "writes": [write._asdict() for write in view.writes],
    }


def _here(view: View, damages: Damages) -> _Totals:
    first, following = view.extent
    count = size_bytes = 0
    times: tuple[int, int] | None = None
    for row in index(view):
        if isinstance(row, Damage):
            damages.add(row)
            continue
        count += 1
        size_bytes += row.size_bytes
        times = _joined(times, row.earliest_us, row.latest_us)
    return _Totals(following - first, count, size_bytes, times)


def _there(history: History) -> _Totals:
    """Return what is said of the files of the tier that begin before what is here."""
    records = count = size_bytes = 0
    times: tuple[int, int] | None = None
    for entry in history.files():
        end = min(entry.next, history.view.extent.first)  # the rest of it is here, too
        lacking = sum(max(0, min(hole.next, end) - hole.first) for hole in entry.holes)
        records += end - entry.first - lacking
        count += 1
        size_bytes += entry.size_bytes
        if entry.records:
            times = _joined(times, entry.earliest_us, entry.latest_us)
    return _Totals(records, count, size_bytes, times)


def _joined(times: tuple[int, int] | None, earliest_us: int, latest_us: int) -> tuple[int, int]:
    return (earliest_us, latest_us) if times is None else (min(times[0], earliest_us), max(times[1], latest_us))


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
    if found["tier_files"]:
        yield "oldest in the folder", "offset", str(found["first_here"])
        yield "older, in the tier", "files", amount(found["tier_files"])
        yield "older, in the tier", "KiB", kib(found["tier_bytes"])
