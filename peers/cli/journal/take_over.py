"""`hub journal take-over`: make a journal of today of one of an earlier version."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peers.cli.journal.bar import shown_bar
from peers.cli.journal.damages import Damages
from peers.journal.earlier.taking_over import take_over as taken_over

__all__ = ["take_over"]


def take_over(
    old: Annotated[str, Parameter(help="File of the earlier journal; it is not changed.")],
    new: Annotated[str, Parameter(help="Folder of the new one, which is made.")],
    /,
    *,
    skip_damaged: Annotated[
        bool, Parameter(help="Go on behind what cannot be read; it is missing in the new one.", negative=())
    ] = False,
) -> int:
    """Copy a journal of an earlier version into a folder, and compare: exit code 3 if something was damaged."""
    damages = Damages("take-over")
    with shown_bar() as tell:
        taken = taken_over(old, new, skips_damaged=skip_damaged, tell=tell)
    for damage in taken.damages:
        damages.add(damage)
    held = f"offsets {taken.first} to {taken.next - 1}" if taken.next > taken.first else "an empty journal"
    print(f"took over {taken.records:,} records, {held}, and compared them; {old} was not changed")
    damages.tell()
    return damages.exit_code
