"""`hub journal tier status`: how far a journal is copied to its tier, as its folder and the tier say."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from hub.errors import UsageError
from peers.cli.journal.reading import JournalPath, opened
from peers.cli.journal.tier.shelves import shelf_of
from peers.cli.texts import amount, kib, print_json, show
from peers.journal.tier.owner import read_copied

__all__ = ["status"]


def status(
    path: JournalPath, /, *, json: Annotated[bool, Parameter(help="One JSON object.", negative=())] = False
) -> None:
    """Tell how far a journal is copied to its tier."""
    with opened(path) as view:
        copied = read_copied(path)
        if copied is None:
            raise UsageError(f"{path}: was never copied; a hub with journal.tier does that, once a segment is sealed")
        shelf = shelf_of(copied.tier, view.id)
        here, sealed = view.extent, view.catalog.firsts[-1]
    following = shelf.next or 0
    behind = max(0, sealed - following)
    files = size_bytes = raw_bytes = 0
    for entry in shelf.entries():
        files += 1
        size_bytes += entry.size_bytes
        raw_bytes += entry.raw_bytes
    if json:
        offsets = {
            "first_there": shelf.first,
            "first_here": here.first,
            "copied": following,
            "next": here.next,
        }
        sizes = {"behind": behind, "files": files, "bytes": size_bytes, "raw_bytes": raw_bytes}
        print_json({"journal": shelf.journal.hex(), "tier": copied.tier} | offsets | sizes)
        return
    rows = [
        ("journal", "id", shelf.journal.hex()),
        ("tier", "", copied.tier),
        ("oldest there", "offset", str(shelf.first)),
        ("oldest here", "offset", str(here.first)),
        ("copied before", "offset", str(following)),
        ("sealed, not copied", "records", amount(behind)),
        ("end", "offset", str(here.next)),
        ("files there", "", amount(files)),
        ("size there", "KiB", kib(size_bytes)),
        ("values in them", "KiB", kib(raw_bytes)),
    ]
    show(("", "unit", "figure"), rows, text_columns=(0, 1))
