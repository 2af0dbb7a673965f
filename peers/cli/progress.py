"""A progress bar on standard error while an input is sent, where that is a terminal; rich is loaded only then."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from peers.cli.feed import Feed
from peers.cli.texts import counted

__all__ = ["shown_progress"]

_UPDATE_S = 0.2
"""Often enough to look alive; drawing takes a few milliseconds from the sending."""


@asynccontextmanager
async def shown_progress(feed: Feed) -> AsyncIterator[None]:
    """Show how far `feed` has come while the block runs, then wipe it out."""
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
            source = feed.source
            bar.update(
                task,
                description=f"{counted(feed.sent_messages, 'message')}  {feed.rate_per_s:,.0f}/s",
                completed=source.read_bytes if source is not None else 0,
                total=source.size_bytes if source is not None else None,
                refresh=True,
            )
            await asyncio.sleep(_UPDATE_S)

    with bar:
        updating = asyncio.get_running_loop().create_task(update())
        try:
            yield
        finally:
            updating.cancel()
            await asyncio.wait([updating])
