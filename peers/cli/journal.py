"""`hub journal`: look into a journal, check it, list its consumers. Exit code 3 if something is damaged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from hub.errors import JournalUnavailableError
from hub.journal.block import Block
from hub.journal.segment import Row
from hub.journal.selection import Selection, listed_texts
from peers.cli.admin import ask, json_lines
from peers.cli.flag_values import check_count, moment
from peers.cli.journal_reading import (
    Damages,
    JournalPath,
    Tally,
    Tier,
    index,
    opened_history,
    tallies,
    tell_older,
)
from peers.cli.output import shown_bar
from peers.cli.texts import Cell, amount, columns, examples, kib, print_json, show
from peers.cli.url import HubFlags
from peers.journal.folder import segment_path
from peers.journal.history import History
from peers.journal.segment import Segment
from peers.journal.view import Damage, View

if TYPE_CHECKING:
    from hub.journal.manifest import Entry


_LISTED_ROWS = 100
"""Default limit of a table; a journal of 64 GiB has 65,536 blocks."""

_BLOCK_HEADS = ("first offset", "next offset", "records", "KiB", "oldest (UTC)", "newest (UTC)", "where")
_TOPIC_HEADS = ("topic", "messages", "KiB of values", "first (UTC)", "last (UTC)")


def ls(
    path: JournalPath,
    /,
    *,
    topics: Annotated[
        bool, Parameter(help="One row a topic, most messages first; reads everything.", negative=())
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
    rows: deque[Row | Entry] = deque(maxlen=limit or (None if json else _LISTED_ROWS))
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


def _rows(history: History) -> Iterator[Row | Entry | Damage]:
    """Yield the files of the tier that begin before the folder, and their holes; then the blocks."""
    for entry in history.files():
        yield entry
        for hole in entry.holes:
            yield Damage(hole.first, hole.next, f"could not be copied to the tier: {hole.cause}")
    yield from index(history.view)


def _block_object(row: Row | Entry) -> dict[str, Any]:
    return {
        "first": row.first,
        "next": row.next,
        "records": _records(row),
        "bytes": row.size_bytes,
        "oldest": moment(row.earliest_us),
        "newest": moment(row.latest_us),
        "where": _where(row),
    }


def _block_cells(row: Row | Entry) -> Sequence[str]:
    times = moment(row.earliest_us), moment(row.latest_us)
    return (str(row.first), str(row.next), amount(_records(row)), kib(row.size_bytes), *times, _where(row))


def _records(row: Row | Entry) -> int:
    return row.next - row.first if isinstance(row, Row) else row.records


def _where(row: Row | Entry) -> str:
    return "folder" if isinstance(row, Row) else "tier"


def _list_topics(history: History, damages: Damages, limit: int | None, *, json: bool) -> None:
    found = sorted(tallies(history, damages).items(), key=lambda one: (-one[1].messages, one[0]))
    rows = found[: limit or (None if json else _LISTED_ROWS)]
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


class _Totals(NamedTuple):
    """Totals of blocks, or of files of the tier."""

    records: int
    parts: int
    """Blocks or files."""
    size_bytes: int
    times: tuple[int, int] | None


def stat(
    path: JournalPath,
    /,
    *,
    json: Annotated[bool, Parameter(help="One JSON object.", negative=())] = False,
    tier: Tier = None,
) -> int:
    """Show how much a journal holds, and the last batch of each writing query: exit code 3 if something is damaged."""
    damages = Damages("stat")
    with opened_history(path, tier) as history:
        tell_older("stat", history)
        found = _object(history, damages)
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


def _object(history: History, damages: Damages) -> dict[str, Any]:
    view = history.view
    if not view.id:
        damages.note("the id of the journal is missing or damaged")
    there, here = _there(history), _here(view, damages)
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
        "segments": len(view.firsts),
        "file_bytes": sum(_size_bytes(segment_path(view.path, first)) for first in view.firsts),
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
        times = _joined_times(times, row.earliest_us, row.latest_us)
    return _Totals(following - first, count, size_bytes, times)


def _there(history: History) -> _Totals:
    """Return the totals of the tier's files that begin before the folder."""
    records = count = size_bytes = 0
    times: tuple[int, int] | None = None
    for entry in history.files():
        end = min(entry.next, history.view.extent.first)  # the rest of it is here, too
        lacking = sum(max(0, min(hole.next, end) - hole.first) for hole in entry.holes)
        records += end - entry.first - lacking
        count += 1
        size_bytes += entry.size_bytes
        if entry.records:
            times = _joined_times(times, entry.earliest_us, entry.latest_us)
    return _Totals(records, count, size_bytes, times)


def _joined_times(times: tuple[int, int] | None, earliest_us: int, latest_us: int) -> tuple[int, int]:
    return (earliest_us, latest_us) if times is None else (min(times[0], earliest_us), max(times[1], latest_us))


def _size_bytes(path: str) -> int:
    """Return the size of a file, 0 if a hub has deleted it."""
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
    yield "oldest record", "UTC", found["oldest"] or "none"
    yield "newest record", "UTC", found["newest"] or "none"
    yield "blocks, as they are read", "KiB", kib(found["block_bytes"])
    yield "segments", "files", amount(found["segments"])
    yield "segments", "KiB", kib(found["file_bytes"])
    if found["tier_files"]:
        yield "oldest in the folder", "offset", str(found["first_here"])
        yield "older, in the tier", "files", amount(found["tier_files"])
        yield "older, in the tier", "KiB", kib(found["tier_bytes"])


_NOWHERE = "missing: neither here nor in the tier, where they were deleted, or its manifest is lost"


class Stretch(NamedTuple):
    """A range of offsets, and its flaw."""

    first: int
    next: int | None
    """The offset behind the last; None if not known."""
    flaw: str
    """Empty if its records can be read."""
    is_there: bool = False
    """Whether it is in the tier."""


class Flaw(NamedTuple):
    """Damage beside records."""

    text: str


def survey(view: View) -> Iterator[Stretch | Flaw]:
    """Yield the state of each block of a journal, in order, ranges that are missing between them, and other damage."""
    journal_id = view.id
    position = view.firsts[0]
    for number, first in enumerate(view.firsts):
        end = view.end_of(number)
        try:
            segment = view.segment(number)
        except JournalUnavailableError:
            if Path(segment_path(view.path, first)).exists():
                raise
            position = end or position  # a hub has deleted it
            continue
        yield from _segment_flaws(segment, journal_id)
        if not segment.rows and end is not None:
            yield Stretch(first, end, "no block of the segment can be found")
            position = end
        for row in segment.rows:
            if row.first > position:
                yield Stretch(position, row.first, "missing: no block has them")
            elif row.first < position:
                yield Stretch(row.first, position, "more than one block has them")
            yield Stretch(row.first, row.next, _flaw_of(view, row))
            position = max(position, row.next)


def survey_of_tier(history: History) -> Iterator[Stretch]:
    """Yield the state of each file of the tier that begins before the folder, and ranges that are missing."""
    here = history.view.extent.first
    position = history.extent.first
    for entry in history.files():
        if entry.first > position:
            yield Stretch(position, entry.first, _NOWHERE)
        flaw = history.tier.flaw_of(entry)
        position = entry.first
        for hole in () if flaw else entry.holes:
            if hole.first > position:
                yield Stretch(position, hole.first, "", is_there=True)
            yield Stretch(hole.first, hole.next, f"could not be copied to the tier: {hole.cause}")
            position = hole.next
        if position < entry.next:
            yield Stretch(position, entry.next, flaw and f"{history.address}: {entry.name}: {flaw}", is_there=True)
        position = entry.next
    if position < here:
        yield Stretch(position, here, _NOWHERE)


def _segment_flaws(segment: Segment, journal_id: bytes) -> Iterator[Flaw]:
    """Yield damage of a segment beside its blocks."""
    name = Path(segment.path).name
    if segment.flaw:
        yield Flaw(f"{name}: {segment.flaw}")
    if segment.header is not None and segment.header.id != journal_id:
        yield Flaw(f"{name}: a segment of another journal")


def _flaw_of(view: View, row: Row) -> str:
    """Return the flaw of a block, or an empty text."""
    flaw = view.flaw_of(row)
    return flaw or _contradiction(view.block(row), row)


def _contradiction(block: Block, row: Row) -> str:
    times = row.earliest_us <= min(block.times) and max(block.times) <= row.latest_us
    listed = all(map(Selection(listed_texts(row.topics)).holds, block.topics))
    if not times or not listed or len(block.data) != row.size_bytes:
        return "the index says something else of it than what it holds"
    return ""


_SHOWN_ROWS = 100
"""Most rows of each table."""


class Soundness(IntEnum):
    """The exit codes of `verify`."""

    SOUND = 0
    DAMAGED = 3


def verify(
    path: JournalPath,
    /,
    *,
    tier: Tier = None,
    json: Annotated[
        bool, Parameter(help="A JSON object a line: damaged records, then readable ones.", negative=())
    ] = False,
) -> int:
    """Read everything in a journal and look for damage: exit code 0 if there is none, 3 if there is."""
    stretches: list[Stretch] = []
    troubles: list[str] = []
    with opened_history(path, tier) as history, shown_bar() as tell:
        tell_older("verify", history)
        first, following = history.extent
        for one in chain(survey_of_tier(history), survey(history.view)):
            if isinstance(one, Flaw):
                troubles.append(one.text)
            else:
                stretches.append(one)
                tell(f"offset {one.first:,}", one.first - first, following - first)
    flawed = [one for one in stretches if one.flaw]
    sound = [one for one in stretches if not one.flaw]
    readable = _joined(sound)
    if json:
        print_json(*map(_damaged_object, flawed), *({"damaged": True, "what": text} for text in troubles))
        print_json(*({"damaged": False, "first": one.first, "next": one.next} for one in readable))
        return Soundness.DAMAGED if flawed or troubles else Soundness.SOUND
    if not flawed and not troubles:
        files = sum(one.is_there for one in sound)
        print(_sound_line(readable, len(sound) - files, files))
        return Soundness.SOUND
    _show_damage(flawed, troubles)
    print()
    _show_rows(("readable offsets", "records"), [(_offsets(one), _record_count(one)) for one in readable])
    return Soundness.DAMAGED


def _damaged_object(stretch: Stretch) -> dict[str, object]:
    return {"damaged": True, "what": stretch.flaw, "first": stretch.first, "next": stretch.next}


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return adjacent ranges as one."""
    joined: list[Stretch] = []
    for one in stretches:
        if joined and joined[-1].next is not None and one.first <= joined[-1].next:
            joined[-1] = joined[-1]._replace(next=max(joined[-1].next, one.next or 0))
        else:
            joined.append(one)
    return joined


def _sound_line(readable: list[Stretch], blocks: int, files: int) -> str:
    if not readable:
        return "sound: no records"
    first, following = readable[0].first, readable[-1].next or 0
    records = sum((one.next or 0) - one.first for one in readable)  # a hub may have deleted some in between
    tier = f" and {files:,} files of the tier" if files else ""
    return f"sound: {records:,} records in {blocks:,} blocks{tier}, offsets {first} to {following - 1}"


def _show_damage(flawed: list[Stretch], troubles: list[str]) -> None:
    rows = [(_offsets(one), _record_count(one), one.flaw) for one in flawed]
    rows += [("", "", text) for text in troubles]
    _show_rows(("damaged offsets", "records", "what"), rows)


def _show_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    show(heads, rows[:_SHOWN_ROWS], text_columns=(0, 2))
    if len(rows) > _SHOWN_ROWS:
        print(f"and {len(rows) - _SHOWN_ROWS:,} more")


def _offsets(stretch: Stretch) -> str:
    return f"{stretch.first} to {'?' if stretch.next is None else stretch.next - 1}"


def _record_count(stretch: Stretch) -> str:
    return "?" if stretch.next is None else amount(stretch.next - stretch.first)


_CONSUMERS = ("consumer", "prefixes", "members", "position", "lag", "out", "acknowledged", "again", "dead", "missed")


def consumers(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the named consumers of a running hub, for admins. Counts are messages since its start."""
    rows = ask("journal consumers", hub, None, topic="consumers")
    for line in json_lines(rows) if json else columns(_CONSUMERS, [_consumer_cells(row) for row in rows]):
        print(line)


def _sharing(row: dict[str, Any]) -> Cell:
    """Return the number of members; of a Spark query, which has none, when it last committed."""
    heard_s: float | None = row["committed_s"]
    members: int = row["members"]
    return members if heard_s is None else f"query, {heard_s:,.0f} s ago"


def _consumer_cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    counters = row["counters"]
    return (
        row["name"],
        ", ".join(prefix or "everything" for prefix in row["prefixes"]),
        _sharing(row),
        row["position"],
        row["lag"],
        row["out"],
        counters["acknowledged_total"],
        counters["redelivered_total"],
        counters["dead_total"],
        counters["missed_total"],
    )


app = App(
    name="journal",
    help="Inspect a journal, export its records, verify it.",
    help_epilogue=examples("hub journal stat journal", "hub journal export journal --prefix /zeek/dns --start 100"),
)
app.command(ls, name="ls", help="List the blocks of a journal, or its topics.")
app.command(stat, name="stat", help="Show size, offsets and times of a journal.")
app.command("peers.cli.journal_export:export", name="export", help="Write records as JSON lines.")
app.command(consumers, name="consumers", help="Show the positions of named consumers, for admins.")
app.command("peers.cli.journal_tier:app", name="tier", help="Inspect the tier of a journal, verify it.")
app.command(verify, name="verify", help="Read everything and look for damage.")
