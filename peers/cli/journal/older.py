"""Where the records are that stood in a journal before the oldest one that is here: in its tier, where it has one.

The folder says where it was copied to (`peers.journal.tier.owner`), and the commands read there what is not here any
more. `--tier` names another place, as where the hub sees it under another path; with `--tier none` they see what is in
the folder alone, and say on standard error where the rest is.
"""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from hub.errors import StorageError
from peers.cli.texts import escaped
from peers.journal.history import History
from peers.journal.tier.owner import read_copied
from peers.journal.view import View

__all__ = ["NO_TIER", "Tier", "older", "tell_older", "tier_of"]

NO_TIER = "none"
"""What `--tier` is given to see what is in the folder alone."""

Tier = Annotated[
    str | None,
    Parameter(
        name="--tier",
        help="Where older records are, as `journal.tier` names it; none: only what is in the folder. "
        "Default: where the folder says that it was copied to.",
    ),
]


def tier_of(view: View, chosen: str | None) -> str:
    """Return where older records of a journal are looked for; empty for nowhere.

    Args:
        view: The journal.
        chosen: What `--tier` was given; None if it was not.

    Raises:
        JournalCorruptError: The file that says where it was copied to is damaged.
        JournalUnavailableError: It cannot be read.
    """
    if chosen is not None:
        return "" if chosen == NO_TIER else chosen
    copied = read_copied(view.path)
    return copied.tier if copied is not None and copied.journal == view.id.hex() else ""


def older(view: View) -> str:
    """Return where the records before the oldest one here are; empty if there are none, or they are nowhere."""
    first = view.extent.first
    try:
        tier = tier_of(view, None)
    except StorageError as error:
        return str(error)
    if not first or not tier:
        return ""
    return f"offsets before {first} are in the tier {tier} alone, as far as it keeps them"


def tell_older(command: str, history: History) -> None:
    """Say on standard error where they are, if they are not looked at.

    Args:
        command: Which of the commands of `hub journal` it is.
        history: The journal, as the command sees it.
    """
    text = "" if history.address else older(history.view)
    if text:
        print(escaped(f"hub journal {command}: {text}"), file=sys.stderr)
