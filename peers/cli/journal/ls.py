"""`hub journal ls`: list the blocks of a journal, and files of its tier before them, or its topics, one in a row.

What is damaged is told on standard error (`peers.cli.journal.damages`). Memory: the rows that are shown, or one entry
for each topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from peers.cli.flag_values import check_count, moment
from peers.cli.journal.damages import Damages
from peers.cli.journal.older import Tier, tell_older
from peers.cli.journal.reading import JournalPath, index, opened_history
from peers.cli.journal.tallies import Tally, tallies
from peers.cli.texts import amount, kib, print_json, show
from peers.journal.damage import Damage
from peers.journal.history import History
from peers.journal.view import BlockRow

if TYPE_CHECKING:
    from hub.journal.manifest import Entry

__all__ = ["ls"]

_SHOWN_ROWS = 100
"""Most rows of a table, unless another limit is given; a journal of 64 GiB has 65,536 blocks."""

_BLOCK_HEADS = ("first offset", "next offset", "records", "KiB", "oldest (UTC)", "newest (UTC)", "where")
_TOPIC_HEADS = ("topic", "messages", "KiB of values", "first (UTC)", "last (UTC)")


def ls(
    path: JournalPath,
    /,
    *,
    topics: Annotated[
        bool, Parameter(help="One row a topic, those with the most messages first; reads everything.", negative=())
    ] = False,
    limit: Annotated[
        int | None, Parameter(help="Most rows: the newest blocks, or the first topics. Default: 100, with --json all.")
    ] = None,
    json: Annotated[bool, Parameter(help="One JSON object a line.", negative=())] = False,
    tier: Tier = None,
) -> int:
    """List the blocks of a journal, the newest last, or its topics: exit code 3 if something is damaged."""
    check_count("--limit", limit)
    damages = Damages("ls")
    with opened_history(path, tier) as history:
        (_list_topics if topics else _list_blocks)(history, damages, limit, json=json)
        tell_older("ls", history)
    damages.tell()
    return damages.exit_code


def _list_blocks(history: History, damages: Damages, limit: int | None, *, json: bool) -> None:
    rows: deque[BlockRow | Entry] = deque(maxlen=limit or (None if json else _SHOWN_ROWS))
    count = 0
    for row in _rows(history):
        if isinstance(row, Damage):
            damages.add(row)
        else:
            rows.append(row)
            count += 1
    if json:
        print_json(*map(_block_object, rows))
        return
    show(_BLOCK_HEADS, map(_block_cells, rows), text_columns=(6,))
    _tell_rest(count - len(rows), "older blocks")


def _rows(history: History) -> Iterator[BlockRow | Entry | Damage]:
    """Yield the files of the tier that begin before what is here, and what they lack; then the blocks."""
    for entry in history.files():
        yield entry
        for hole in entry.holes:
            yield Damage(hole.first, hole.next, f"could not be copied to the tier: {hole.cause}")
    yield from index(history.view)


def _block_object(row: BlockRow | Entry) -> dict[str, Any]:
    return {
        "first": row.first,
        "next": row.next,
        "records": _records(row),
        "bytes": row.size_bytes,
        "oldest": moment(row.earliest_us),
        "newest": moment(row.latest_us),
        "where": _where(row),
    }


def _block_cells(row: BlockRow | Entry) -> Sequence[str]:
    times = moment(row.earliest_us), moment(row.latest_us)
    return (str(row.first), str(row.next), amount(_records(row)), kib(row.size_bytes), *times, _where(row))


def _records(row: BlockRow | Entry) -> int:
    return row.next - row.first if isinstance(row, BlockRow) else row.records


def _where(row: BlockRow | Entry) -> str:
    return "folder" if isinstance(row, BlockRow) else "tier"


def _list_topics(history: History, damages: Damages, limit: int | None, *, json: bool) -> None:
    found = sorted(tallies(history, damages).items(), key=lambda one: (-one[1].messages, one[0]))
    rows = found[: limit or (None if json else _SHOWN_ROWS)]
    if json:
        print_json(*(_topic_object(*one) for one in rows))
        return
    show(_TOPIC_HEADS, (_topic_cells(*one) for one in rows))
    _tell_rest(len(found) - len(rows), "more topics")


def _topic_object(topic: str, tally: Tally) -> dict[str, Any]:
    return {
        "topic": topic,
        "messages": tally.messages,
        "bytes": tally.size_bytes,
        "first": moment(tally.first_us),
        "last": moment(tally.last_us),
    }


def _topic_cells(topic: str, tally: Tally) -> Sequence[str]:
    times = moment(tally.first_us), moment(tally.last_us)
    return (topic, amount(tally.messages), kib(tally.size_bytes), *times)


def _tell_rest(count: int, what: str) -> None:
    if count:
        print(f"and {count:,} {what}, see --limit")
