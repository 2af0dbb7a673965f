"""`hub journal tier`: how far a journal is copied to its tier; check the files there. Needs no hub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from hub.errors import UsageError
from hub.journal.manifest import Entry
from hub.journal.segment import ID_BYTES
from peers.cli.journal import Soundness
from peers.cli.journal_reading import JournalPath, opened
from peers.cli.output import shown_bar
from peers.cli.texts import amount, examples, kib, print_json, show
from peers.journal.tier.place import check_installed, place_at
from peers.journal.tier.tiering import read_copied
from peers.journal.view import Damage

if TYPE_CHECKING:
    from peers.journal.tier.files import TierFiles


TierAddress = Annotated[str, Parameter(help="The tier: a folder or s3://bucket/prefix, as in `journal.tier`.")]

JournalId = Annotated[str | None, Parameter(help="Id of a journal, if the tier holds several.")]


def journals(address: str, journal: str | None) -> list[TierFiles]:
    """Return the journals in a tier (or one of them), their manifests read; raise `UsageError` if there is none."""
    check_installed()
    found = [name for name in place_at(address).folders() if _id(name) and journal in {None, name}]
    if not found:
        raise UsageError(f"{address}: holds no {'journal' if journal is None else f'journal {journal}'}")
    return [files_of(address, _id(name)) for name in found]


def files_of(address: str, journal: bytes) -> TierFiles:
    """Return one journal in a tier, its manifest read."""
    check_installed()
    from peers.journal.tier.files import TierFiles  # noqa: PLC0415 -- it needs what was looked for just now

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


def status(
    path: JournalPath, /, *, json: Annotated[bool, Parameter(help="One JSON object.", negative=())] = False
) -> None:
    """Show how far a journal is copied to its tier."""
    with opened(path) as view:
        copied = read_copied(path)
        if copied is None:
            raise UsageError(f"{path}: was never copied; a hub with journal.tier does that, once a segment is sealed")
        held = files_of(copied.tier, view.id)
        here, sealed = view.extent, view.firsts[-1]
    following = held.next or 0
    behind = max(0, sealed - following)
    files = size_bytes = raw_bytes = 0
    for entry in held.entries():
        files += 1
        size_bytes += entry.size_bytes
        raw_bytes += entry.raw_bytes
    if json:
        offsets = {
            "first_there": held.first,
            "first_here": here.first,
            "copied": following,
            "next": here.next,
        }
        sizes = {"behind": behind, "files": files, "bytes": size_bytes, "raw_bytes": raw_bytes}
        print_json({"journal": held.journal.hex(), "tier": copied.tier} | offsets | sizes)
        return
    rows = [
        ("journal", "id", held.journal.hex()),
        ("tier", "", copied.tier),
        ("oldest there", "offset", str(held.first)),
        ("oldest here", "offset", str(here.first)),
        ("copied before", "offset", str(following)),
        ("sealed, not copied", "records", amount(behind)),
        ("end", "offset", str(here.next)),
        ("files there", "", amount(files)),
        ("size there", "KiB", kib(size_bytes)),
        ("values in them", "KiB", kib(raw_bytes)),
    ]
    show(("", "unit", "figure"), rows, text_columns=(0, 1))


_HEADS = ("journal", "offsets", "records", "what")


def verify(tier: TierAddress, /, *, journal: JournalId = None) -> int:
    """Read everything in a tier and look for damage: exit code 0 if there is none, 3 if there is."""
    found: list[tuple[str, Damage]] = []
    files = records = damaged = 0
    with shown_bar() as tell:
        for held in journals(tier, journal):
            begin, end = position, _ = held.first or 0, held.next or 0
            for entry in held.entries():
                tell(f"file {entry.name}", entry.first - begin, end - begin)
                found += [(held.journal.hex(), damage) for damage in _missing(entry, position)]
                position = entry.next
                flaw = held.flaw_of(entry)
                if flaw:
                    found.append((held.journal.hex(), Damage(entry.first, entry.next, flaw)))
                    damaged += 1
                else:
                    files += 1
                    records += entry.records
    if not found:
        print(f"sound: {records:,} records in {files:,} files")
        return Soundness.SOUND
    rows = ((name, f"{one.first} to {(one.next or 0) - 1}", _count(one), one.cause) for name, one in found)
    show(_HEADS, rows, text_columns=(0, 1, 3))
    print(f"\n{records:,} records can be read, in {files:,} of {files + damaged:,} files")
    return Soundness.DAMAGED


def _count(damage: Damage) -> str:
    return amount((damage.next or 0) - damage.first)


def _missing(entry: Entry, position: int) -> Iterator[Damage]:
    """Yield the ranges between an offset and the end of a file that no file holds."""
    if position < entry.first:
        yield Damage(position, entry.first, "deleted before they were copied, or the manifest is lost")
    for hole in entry.holes:
        yield Damage(hole.first, hole.next, f"could not be copied: {hole.cause}")


app = App(
    name="tier",
    help="Inspect the tier of a journal, verify it.",
    help_epilogue=examples("hub journal tier status journal", "hub journal tier verify /mnt/shared/hub"),
)
app.command(status, name="status", help="Show how far a journal is copied to its tier.")
app.command(verify, name="verify", help="Read all files and look for damage.")
