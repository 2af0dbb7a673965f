"""`hub journal`: look into a journal or its tier, check them, list consumers. Exit code 3 if something is damaged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from hub.errors import JournalUnavailableError, UsageError
from hub.journal.manifest import Entry
from hub.journal.segment import ID_BYTES, Row
from hub.journal.selection import Selection, listed_texts
from peers.cli.admin import Columns, ask, print_rows
from peers.cli.contexts import DEFAULT_HUB, HubFlags, Json
from peers.cli.journal_reading import (
    NO_TIER,
    Damages,
    JournalPath,
    Tier,
    index,
    opened,
    opened_history,
    tallies,
    tell_older,
)
from peers.cli.output import shown_bar
from peers.cli.texts import amount, check_count, escaped, examples, kib, moment, print_json, show
from peers.journal.backup import copy_journal
from peers.journal.folder import segment_path
from peers.journal.history import History
from peers.journal.tier.place import check_installed, place_at
from peers.journal.tier.tiering import read_copied
from peers.journal.view import Damage, View

if TYPE_CHECKING:
    from peers.journal.tier.files import TierFiles

_LISTED_ROWS = 100
"""Default limit of a table; a journal of 64 GiB has 65,536 blocks."""


def ls(
    path: JournalPath,
    /,
    *,
    topics: Annotated[bool, Parameter(help="One row a topic, most messages first; reads everything.")] = False,
    limit: Annotated[
        int | None, Parameter(help="Most rows: the newest blocks, or the first topics. Default: 100, with --json all.")
    ] = None,
    json: Annotated[bool, Parameter(help="One JSON object a line.")] = False,
    tier: Tier = None,
) -> int:
    """List the blocks of a journal, the newest last, or its topics: exit code 3 if something is damaged."""
    check_count("--limit", limit)
    damages = Damages("ls")
    with opened_history(path, tier) as history:
        (_list_topics if topics else _list_blocks)(history, damages, limit or (None if json else _LISTED_ROWS), json)
        tell_older("ls", history)
    damages.tell()
    return damages.exit_code


def _list_blocks(history: History, damages: Damages, limit: int | None, as_json: bool) -> None:  # noqa: FBT001 -- a flag
    blocks: deque[dict[str, Any]] = deque(maxlen=limit)
    count = 0
    for row in chain(_tier_files(history), index(history.view)):
        if isinstance(row, Damage):
            damages.add(row)
            continue
        count += 1
        is_here = isinstance(row, Row)
        blocks.append(
            {
                "first": row.first,
                "next": row.next,
                "records": row.next - row.first if isinstance(row, Row) else row.records,
                "bytes": row.size_bytes,
                "oldest": moment(row.earliest_us),
                "newest": moment(row.latest_us),
                "where": "folder" if is_here else "tier",
            }
        )
    if as_json:
        print_json(*blocks)
        return
    heads = ("first offset", "next offset", "records", "KiB", "oldest (UTC)", "newest (UTC)", "where")
    rows = (
        (str(one["first"]), str(one["next"]), amount(one["records"]), kib(one["bytes"]), *list(one.values())[4:])
        for one in blocks
    )
    show(heads, rows, text_columns=(6,))
    _tell_rest(count - len(blocks), "older blocks")


def _tier_files(history: History) -> Iterator[Entry | Damage]:
    """Yield the files of the tier that begin before the folder, and their holes."""
    for entry in history.files():
        yield entry
        for hole in entry.holes:
            yield Damage(hole.first, hole.next, f"could not be copied to the tier: {hole.cause}")


def _list_topics(history: History, damages: Damages, limit: int | None, as_json: bool) -> None:  # noqa: FBT001 -- a flag
    found = sorted(tallies(history, damages).items(), key=lambda one: (-one[1].messages, one[0]))
    topics: list[dict[str, Any]] = [
        {
            "topic": topic,
            "messages": tally.messages,
            "bytes": tally.size_bytes,
            "first": moment(tally.first_us),
            "last": moment(tally.last_us),
        }
        for topic, tally in found[:limit]
    ]
    if as_json:
        print_json(*topics)
        return
    rows = [(one["topic"], amount(one["messages"]), kib(one["bytes"]), one["first"], one["last"]) for one in topics]
    show(("topic", "messages", "KiB of values", "first (UTC)", "last (UTC)"), rows)
    _tell_rest(len(found) - len(topics), "more topics")


def _tell_rest(count: int, noun: str) -> None:
    if count:
        print(f"and {count:,} {noun}, see --limit")


class _Totals:
    def __init__(self) -> None:
        self.records = self.parts = self.size_bytes = 0
        self.times: list[int] = []  # of the oldest and the newest record

    def add(self, records: int, row: Row | Entry) -> None:
        self.records += records
        self.parts += 1
        self.size_bytes += row.size_bytes
        if records:
            times = (*self.times, row.earliest_us, row.latest_us)
            self.times = [min(times), max(times)]


def stat(
    path: JournalPath,
    /,
    *,
    json: Annotated[bool, Parameter(help="One JSON object.")] = False,
    tier: Tier = None,
) -> int:
    """Show how much a journal holds, and the last batch of each writing query: exit code 3 if something is damaged."""
    damages = Damages("stat")
    with opened_history(path, tier) as history:
        tell_older("stat", history)
        found = _stat(history, damages)
    if json:
        print_json(found)
    else:
        show(("", "unit", "figure"), _figures(found), text_columns=(0, 1))
        if found["writes"]:
            print()
            rows = [[one["query"], *(str(one[name]) for name in ("batch", "first", "next"))] for one in found["writes"]]
            show(("query", "last batch", "first offset", "next offset"), rows)
    damages.tell()
    return damages.exit_code


def _stat(history: History, damages: Damages) -> dict[str, Any]:
    view = history.view
    if not view.id:
        damages.note("the id of the journal is missing or damaged")
    there, here = _Totals(), _Totals()
    for entry in history.files():
        end = min(entry.next, view.extent.first)  # the rest of it is here, too
        lacking = sum(max(0, min(hole.next, end) - hole.first) for hole in entry.holes)
        there.add(end - entry.first - lacking, entry)
    for row in index(view):
        if isinstance(row, Damage):
            damages.add(row)
        else:
            here.add(row.next - row.first, row)
    times = there.times + here.times
    file_bytes = 0
    for first in view.firsts:
        with suppress(OSError):  # a hub has deleted it
            file_bytes += Path(segment_path(view.path, first)).stat().st_size
    return {
        "path": view.path,
        "id": view.id.hex() or None,
        "first": history.extent.first,
        "next": view.extent.next,
        "records": there.records + view.extent.next - view.extent.first,
        "blocks": here.parts,
        "block_bytes": here.size_bytes,
        "segments": len(view.firsts),
        "file_bytes": file_bytes,
        "tier": history.address or None,
        "first_here": view.extent.first,
        "tier_files": there.parts,
        "tier_bytes": there.size_bytes,
        "oldest": moment(min(times)) if times else None,
        "newest": moment(max(times)) if times else None,
        "writes": [write._asdict() for write in view.writes],
    }


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


def survey(view: View) -> Iterator[Stretch | str]:
    """Yield the state of each block of a journal, in order, ranges that are missing between them, and other damage."""
    journal_id = view.id
    position = view.firsts[0]
    for number, first in enumerate(view.firsts):
        end = view.end_of(number)
        path = Path(segment_path(view.path, first))
        try:
            segment = view.segment(number)
        except JournalUnavailableError:
            if path.exists():
                raise
            position = end or position  # a hub has deleted it
            continue
        if segment.flaw:
            yield f"{path.name}: {segment.flaw}"
        if segment.header is not None and segment.header.id != journal_id:
            yield f"{path.name}: a segment of another journal"
        if not segment.rows and end is not None:
            yield Stretch(first, end, "no block of the segment can be found")
            position = end
        for row in segment.rows:
            if row.first > position:
                yield Stretch(position, row.first, "missing: no block has them")
            elif row.first < position:
                yield Stretch(row.first, position, "more than one block has them")
            yield Stretch(row.first, row.next, view.flaw_of(row) or _contradiction(view, row))
            position = max(position, row.next)


def _contradiction(view: View, row: Row) -> str:
    block = view.block(row)
    times = row.earliest_us <= min(block.times) and max(block.times) <= row.latest_us
    listed = all(map(Selection(listed_texts(row.topics)).holds, block.topics))
    is_same = times and listed and len(block.data) == row.size_bytes
    return "" if is_same else "the index does not match its content"


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


_SHOWN_ROWS = 100


class Soundness(IntEnum):
    """The exit codes of `verify`."""

    SOUND = 0
    DAMAGED = 3


def verify(
    path: JournalPath,
    /,
    *,
    tier: Tier = None,
    json: Annotated[bool, Parameter(help="A JSON object a line: damaged records, then readable ones.")] = False,
) -> int:
    """Read everything in a journal and look for damage: exit code 0 if there is none, 3 if there is."""
    stretches: list[Stretch] = []
    troubles: list[str] = []
    with opened_history(path, tier) as history, shown_bar() as tell:
        tell_older("verify", history)
        first, following = history.extent
        for one in chain(survey_of_tier(history), survey(history.view)):
            if isinstance(one, str):
                troubles.append(one)
            else:
                stretches.append(one)
                tell(f"offset {one.first:,}", one.first - first, following - first)
    flawed = [one for one in stretches if one.flaw]
    sound = [one for one in stretches if not one.flaw]
    readable = _joined(sound)
    if json:
        print_json(*({"damaged": True, "what": one.flaw, "first": one.first, "next": one.next} for one in flawed))
        print_json(*({"damaged": True, "what": text} for text in troubles))
        print_json(*({"damaged": False, "first": one.first, "next": one.next} for one in readable))
    elif flawed or troubles:
        rows = [(_offsets(one), _record_count(one), one.flaw) for one in flawed]
        rows += [("", "", text) for text in troubles]
        show(("damaged offsets", "records", "what"), rows, text_columns=(0, 2), most=_SHOWN_ROWS)
        print()
        ranges = [(_offsets(one), _record_count(one)) for one in readable]
        show(("readable offsets", "records"), ranges, most=_SHOWN_ROWS)
    elif readable:
        first, following = readable[0].first, readable[-1].next or 0
        records = sum((one.next or 0) - one.first for one in readable)  # a hub may have deleted some in between
        files = sum(one.is_there for one in sound)
        there = f" and {files:,} files of the tier" if files else ""
        print(f"sound: {records:,} records in {len(sound) - files:,} blocks{there}, offsets {first} to {following - 1}")
    else:
        print("sound: no records")
    return Soundness.DAMAGED if flawed or troubles else Soundness.SOUND


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    joined: list[Stretch] = []
    for one in stretches:
        if joined and joined[-1].next is not None and one.first <= joined[-1].next:
            joined[-1] = joined[-1]._replace(next=max(joined[-1].next, one.next or 0))
        else:
            joined.append(one)
    return joined


def _offsets(stretch: Stretch) -> str:
    return f"{stretch.first} to {'?' if stretch.next is None else stretch.next - 1}"


def _record_count(stretch: Stretch | Damage) -> str:
    return "?" if stretch.next is None else amount(stretch.next - stretch.first)


_CONSUMERS: Columns = {
    "consumer": "name",
    "prefixes": lambda row: ", ".join(prefix or "everything" for prefix in row["prefixes"]),
    # A query has no members, but the age of its last report.
    "members": lambda row: row["members"] if row["committed_s"] is None else f"query, {row['committed_s']:,.0f} s ago",
    "position": "position",
    "lag": "lag",
    "out": "out",
    "acknowledged": lambda row: row["counters"]["acknowledged_total"],
    "again": lambda row: row["counters"]["redelivered_total"],
    "dead": lambda row: row["counters"]["dead_total"],
    "missed": lambda row: row["counters"]["missed_total"],
}


async def consumers(*, hub: HubFlags = DEFAULT_HUB, json: Json = False) -> None:
    """List the named consumers of a running hub, for admins. Counts are messages since its start."""
    print_rows(await ask("journal consumers", hub, None, topic="consumers"), _CONSUMERS, json=json)


def journals(address: str, journal: str | None) -> list[TierFiles]:
    """Return the journals in a tier (or one of them), their manifests read; raise `UsageError` if there is none."""
    check_installed()
    found = [name for name in place_at(address).folders() if _id(name) and journal in {None, name}]
    if not found:
        raise UsageError(f"{address}: holds no {'journal' if journal is None else f'journal {journal}'}")
    return [files_of(address, _id(name)) for name in found]


def files_of(address: str, journal: bytes) -> TierFiles:
    check_installed()
    from peers.journal.tier.files import TierFiles  # noqa: PLC0415 -- it needs the package that was just found

    held = TierFiles(place_at(address), journal)
    held.refresh()
    return held


def _id(name: str) -> bytes:
    """Return the journal id that is the name of a folder; empty for other names."""
    try:
        found = bytes.fromhex(name)
    except ValueError:
        return b""
    return found if len(found) == ID_BYTES and found.hex() == name else b""


def status(path: JournalPath, /, *, json: Annotated[bool, Parameter(help="One JSON object.")] = False) -> None:
    """Show how far a journal is copied to its tier."""
    with opened(path) as view:
        copied = read_copied(path)
        if copied is None:
            raise UsageError(f"{path}: was never copied; a hub with journal.tier does that, once a segment is sealed")
        held = files_of(copied.tier, view.id)
        here, sealed = view.extent, view.firsts[-1]
    entries, following = list(held.entries()), held.next or 0
    found: dict[str, Any] = {
        "journal": held.journal.hex(),
        "tier": copied.tier,
        "first_there": held.first,
        "first_here": here.first,
        "copied": following,
        "next": here.next,
        "behind": max(0, sealed - following),
        "files": len(entries),
        "bytes": sum(entry.size_bytes for entry in entries),
        "raw_bytes": sum(entry.raw_bytes for entry in entries),
    }
    if json:
        print_json(found)
        return
    rows = [
        ("journal", "id", found["journal"]),
        ("tier", "", found["tier"]),
        ("oldest there", "offset", str(found["first_there"])),
        ("oldest here", "offset", str(found["first_here"])),
        ("copied before", "offset", str(found["copied"])),
        ("sealed, not copied", "records", amount(found["behind"])),
        ("end", "offset", str(found["next"])),
        ("files there", "", amount(found["files"])),
        ("size there", "KiB", kib(found["bytes"])),
        ("values in them", "KiB", kib(found["raw_bytes"])),
    ]
    show(("", "unit", "figure"), rows, text_columns=(0, 1))


def verify_tier(
    tier: Annotated[str, Parameter(help="The tier: a folder or s3://bucket/prefix, as in `journal.tier`.")],
    /,
    *,
    journal: Annotated[str | None, Parameter(help="Id of a journal, if the tier holds several.")] = None,
) -> int:
    """Read everything in a tier and look for damage: exit code 0 if there is none, 3 if there is."""
    found: list[tuple[str, Damage]] = []
    files = records = damaged = 0
    with shown_bar() as tell:
        for held in journals(tier, journal):
            name = held.journal.hex()
            begin, end = position, _ = held.first or 0, held.next or 0
            for entry in held.entries():
                tell(f"file {entry.name}", entry.first - begin, end - begin)
                if position < entry.first:
                    cause = "deleted before they were copied, or the manifest is lost"
                    found.append((name, Damage(position, entry.first, cause)))
                found += [
                    (name, Damage(hole.first, hole.next, f"could not be copied: {hole.cause}")) for hole in entry.holes
                ]
                position = entry.next
                flaw = held.flaw_of(entry)
                if flaw:
                    found.append((name, Damage(entry.first, entry.next, flaw)))
                    damaged += 1
                else:
                    files += 1
                    records += entry.records
    if not found:
        print(f"sound: {records:,} records in {files:,} files")
        return Soundness.SOUND
    rows = ((name, f"{one.first} to {(one.next or 0) - 1}", _record_count(one), one.cause) for name, one in found)
    show(("journal", "offsets", "records", "what"), rows, text_columns=(0, 1, 3))
    print(f"\n{records:,} records can be read, in {files:,} of {files + damaged:,} files")
    return Soundness.DAMAGED


def backup(
    path: JournalPath,
    target: Annotated[str, Parameter(help="Folder of the copy: a new or empty one, or one with an earlier copy.")],
    /,
    *,
    json: Annotated[bool, Parameter(help="One JSON object.")] = False,
) -> None:
    """Copy a journal with the positions of its consumers, also while a hub writes it.

    Into a folder with an earlier copy, only new segments are copied, and segments that the journal has deleted are
    deleted. The tier and stores are not part of it.
    """
    _copy(path, target, as_json=json)


def restore(
    source: Annotated[str, Parameter(help="Folder of a copy, as `hub journal backup` has made it.")],
    path: Annotated[str, Parameter(help="Folder of the new journal: it must not exist, or be empty.")],
    /,
    *,
    json: Annotated[bool, Parameter(help="One JSON object.")] = False,
) -> int:
    """Make a journal from a copy, and verify it: exit code 3 if records are damaged; the others are there."""
    if Path(path).is_dir() and any(Path(path).iterdir()):
        raise UsageError(f"{path}: not empty; move it away, or choose another folder")
    _copy(source, path, as_json=json)
    return verify(path, tier=NO_TIER, json=json)


def _copy(source: str, target: str, *, as_json: bool) -> None:
    with shown_bar() as tell:
        copied = copy_journal(source, target, tell)
    if as_json:
        print_json(copied._asdict())
        return
    records = f"offsets {copied.first} to {copied.next - 1}" if copied.next > copied.first else "no records"
    files = f"{copied.copied_segments:,} of {copied.segments:,} segments, {kib(copied.copied_bytes)} KiB"
    print(f"{escaped(target)}: {records}; copied {files}")


tier_app = App(
    name="tier",
    help="Inspect the tier of a journal, verify it.",
    help_epilogue=examples("hub journal tier status journal", "hub journal tier verify /mnt/shared/hub"),
)
tier_app.command(status, name="status", help="Show how far a journal is copied to its tier.")
tier_app.command(verify_tier, name="verify", help="Read all files and look for damage.")

app = App(
    name="journal",
    help="Inspect a journal, export its records, verify it, back it up.",
    help_epilogue=examples("hub journal stat journal", "hub journal export journal --prefix /zeek/dns --start 100"),
)
app.command(ls, name="ls", help="List the blocks of a journal, or its topics.")
app.command(stat, name="stat", help="Show size, offsets and times of a journal.")
app.command("peers.cli.journal_export:export", name="export", help="Write records as JSON lines.")
app.command(consumers, name="consumers", help="Show the positions of named consumers, for admins.")
app.command(backup, name="backup", help="Copy a journal, also while a hub writes it.")
app.command(restore, name="restore", help="Make a journal from a copy, and verify it.")
app.command(tier_app)
app.command(verify, name="verify", help="Read everything and look for damage.")
