"""A progress bar on standard error while a journal is read, where that is a terminal; rich is loaded only then.

It draws itself, in a thread of its own, so that it moves also while a disk is slow. Owner: one command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Tell", "shown_bar"]

Tell = Callable[[str, int | None, int | None], object]
"""A function that is told what is done, how far it is, and how far it goes; None where nobody knows."""

_DRAWN_PER_S = 5


@contextmanager
def shown_bar(*, visible: bool = True) -> Iterator[Tell]:
    """Show what is told for as long as the block lasts, then wipe it out.

    Args:
        visible: False where other output goes to the terminal: then there is no bar.
    """
    if not visible or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console  # noqa: PLC0415 -- takes 50 ms
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    drawn = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    bar = Progress(
        *drawn,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        refresh_per_second=_DRAWN_PER_S,
    )
    task = bar.add_task("", total=None)

    def tell(doing: str, done: int | None, total: int | None) -> None:
        bar.update(task, description=doing, completed=done or 0, total=total)

    with bar:
        yield tell
