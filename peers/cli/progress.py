"""A progress bar on standard error while a command works, where that is a terminal; rich is loaded only then."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

__all__ = ["Progress", "shown_progress"]

_UPDATE_S = 0.2
"""Often enough to look alive; drawing takes a few milliseconds from the sending."""


class Progress(NamedTuple):
    """How far a command has come."""

    text: str
    """What it has done, for people."""
    done: int = 0
    total: int | None = None
    """Of what `done` is a part; None: nobody knows."""


@asynccontextmanager
async def shown_progress(look: Callable[[], Progress]) -> AsyncIterator[None]:
    """Show how far something has come while the block runs, then wipe it out."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415 -- takes 50 ms
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False, auto_refresh=False)
    task = bar.add_task("", total=None)

    async def update() -> None:
        while True:
            text, done, total = look()
            bar.update(task, description=text, completed=done, total=total, refresh=True)
            await asyncio.sleep(_UPDATE_S)

    with bar:
        updating = asyncio.get_running_loop().create_task(update())
        try:
            yield
        finally:
            updating.cancel()
            await asyncio.wait([updating])
