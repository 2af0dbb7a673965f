"""What a journal had before the oldest offset that is here: in its tier, where it has one.

The commands that look into a folder see what is in it. So they say where the rest is, on standard error, whenever
something was deleted here that was copied. The tier is not asked: it may be far, and the file that says how far it was
copied stands in the folder.
"""

from __future__ import annotations

import sys

from hub.errors import StorageError
from peers.cli.texts import escaped
from peers.journal.tier.owner import read_copied
from peers.journal.view import View

__all__ = ["older", "tell_older"]


def older(view: View) -> str:
    """Return where the records before the oldest one here are; empty if there are none, or they are nowhere."""
    first = view.extent.first
    try:
        copied = read_copied(view.path)
    except StorageError as error:
        return str(error)
    if copied is None or not first or copied.journal != view.id.hex():
        return ""
    return (
        f"offsets before {first} are in the tier {copied.tier} alone, as far as it keeps them: see `hub journal tier`"
    )


def tell_older(command: str, view: View) -> None:
    """Say on standard error where they are.

    Args:
        command: Which of the commands of `hub journal` it is.
        view: The journal.
    """
    text = older(view)
    if text:
        print(escaped(f"hub journal {command}: {text}"), file=sys.stderr)
