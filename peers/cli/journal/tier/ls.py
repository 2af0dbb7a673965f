"""`hub journal tier ls`: list the files of a tier, or the topics in them, as its manifest has them.

Nothing but the manifest is read. Memory: the rows that are shown, or one entry for each topic.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from hub.journal.manifest import Entry
from peers.cli.flag_values import check_count, moment
from peers.cli.journal.tier.shelves import JournalId, TierAddress, shelves
from peers.cli.texts import amount, kib, print_json, show

__all__ = ["ls"]

_SHOWN_ROWS = 100
"""Most rows of a table, unless another limit is given."""

_FILE_HEADS = ("journal", "first offset", "next offset", "records", "KiB", "oldest (UTC)", "newest (UTC)", "missing")
_TOPIC_HEADS = ("topic", "messages")


def ls(
    tier: TierAddress,
    /,
    *,
    journal: JournalId = None,
    topics: Annotated[
        bool, Parameter(help="One row a topic, those with the most messages first.", negative=())
    ] = False,
    limit: Annotated[
        int | None, Parameter(help="Most rows: the newest files, or the first topics. Default: 100, with --json all.")
    ] = None,
    json: Annotated[bool, Parameter(help="One JSON object a line.", negative=())] = False,
) -> None:
    """List the files of a tier, the newest last, or its topics."""
    check_count("--limit", limit)
    most = limit or (None if json else _SHOWN_ROWS)
    found = ((shelf.journal.hex(), entry) for shelf in shelves(tier, journal) for entry in shelf.entries())
    if topics:
        _list_topics((entry for _, entry in found), most, json=json)
        return
    rows: deque[tuple[str, Entry]] = deque(maxlen=most)
    count = 0
    for one in found:
        rows.append(one)
        count += 1
    if json:
        print_json(*(_file_object(*one) for one in rows))
        return
    show(_FILE_HEADS, (_file_cells(*one) for one in rows))
    _tell_rest(count - len(rows), "older files")


def _file_object(journal: str, entry: Entry) -> dict[str, Any]:
    return {
        "journal": journal,
        "first": entry.first,
        "next": entry.next,
        "records": entry.records,
        "bytes": entry.size_bytes,
        "oldest": moment(entry.earliest_us),
        "newest": moment(entry.latest_us),
        "holes": [{"first": hole.first, "next": hole.next, "cause": hole.cause} for hole in entry.holes],
    }


def _file_cells(journal: str, entry: Entry) -> Sequence[str]:
    missing = entry.next - entry.first - entry.records
    offsets = journal, str(entry.first), str(entry.next), amount(entry.records), kib(entry.size_bytes)
    return (*offsets, moment(entry.earliest_us), moment(entry.latest_us), amount(missing))


def _list_topics(entries: Iterable[Entry], most: int | None, *, json: bool) -> None:
    counts: Counter[str] = Counter()
    for entry in entries:
        for topic, count in entry.topics:
            counts[topic if entry.are_topics_whole else f"{topic}..."] += count
    found = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    rows = found[:most]
    if json:
        print_json(*({"topic": topic, "messages": count} for topic, count in rows))
        return
    show(_TOPIC_HEADS, ((topic, amount(count)) for topic, count in rows))
    _tell_rest(len(found) - len(rows), "more topics")


def _tell_rest(count: int, what: str) -> None:
    if count:
        print(f"and {count:,} {what}, see --limit")
