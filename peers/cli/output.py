"""`Output`: standard output, written by a thread, so that a reader that stalls does not stall the event loop; progress.

While `less` or a slow disk holds a write, the loop still answers the hub's pings, and Ctrl-C still works. What is given
is written in order and completely; at most one write is under way and one waits. Once a write has failed, every call
says so. The thread is a daemon: a process that ends does not wait for it, so call `flush` first.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from hub.errors import UsageError

_Work = tuple[bytes, asyncio.Future[None]]


class Output:
    """Writes to a descriptor, in a thread of its own.

    Args:
        descriptor: Such as 1 for standard output.
        on_broken: Called in the loop when something could not be written, so that whoever waits for something else to
            write need not wait; `check` then says what it was.
    """

    __slots__ = ("_broken", "_descriptor", "_loop", "_on_broken", "_under_way", "_work")

    def __init__(self, descriptor: int, on_broken: Callable[[], object] | None = None) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        # Done when the thread has written what it was given last; None when somebody has waited for that.
        self._under_way: asyncio.Future[None] | None = None
        # The first error of a write. It stays, because whoever waited for that write may have been cancelled by
        # `on_broken` before the error reached it.
        self._broken: OSError | None = None
        threading.Thread(target=self._run, name="output", daemon=True).start()

    async def write(self, text: bytes) -> None:
        """Hand `text` over for writing, as soon as what was given before is written.

        Raises:
            OSError: Something given before could not be written (BrokenPipeError: its reader has gone).
        """
        await self.flush()
        if text:
            self._under_way = self._loop.create_future()
            self._under_way.add_done_callback(_retrieve)
            self._work.put((text, self._under_way))

    async def flush(self) -> None:
        """Wait until all that was given is written; raises as `write` does."""
        self.check()
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            await under_way

    def check(self) -> None:
        """Raise as `write` does if anything could not be written so far; wait for nothing."""
        if self._broken is not None:
            raise self._broken

    def _run(self) -> None:
        """Write what is given, one after the other; this is what the thread does."""
        while True:
            text, done = self._work.get()
            error: OSError | None = None
            try:
                _write_all(self._descriptor, text)
            except OSError as problem:
                error = problem
            try:
                self._loop.call_soon_threadsafe(self._settle, done, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _settle(self, done: asyncio.Future[None], error: OSError | None) -> None:
        if error is None:
            if not done.cancelled():
                done.set_result(None)
            return
        self._broken = self._broken or error
        if not done.cancelled():
            done.set_exception(error)
        if self._on_broken is not None:
            self._on_broken()


def _write_all(descriptor: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _retrieve(done: asyncio.Future[None]) -> None:
    """Look at the outcome: nobody else may, if the command ends first, and asyncio would complain of that."""
    if not done.cancelled():
        done.exception()


_UPDATE_S = 0.2
"""Often enough to look alive; drawing takes a few milliseconds from the sending."""


class Progress(NamedTuple):
    """How far a command has come."""

    text: str
    """What it has done, for people."""
    done: int = 0
    total: int | None = None
    """Of what `done` is a part; None: nobody knows."""


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


@asynccontextmanager
async def shown_progress(look: Callable[[], Progress]) -> AsyncIterator[None]:
    """Show how far something has come while the block runs, then wipe it out."""
    if not sys.stderr.isatty():
        yield
        return
    with shown_bar() as tell:

        async def update() -> None:
            while True:
                tell(*look())
                await asyncio.sleep(_UPDATE_S)

        updating = asyncio.get_running_loop().create_task(update())
        try:
            yield
        finally:
            updating.cancel()
            await asyncio.wait([updating])


def write_file(path: Path, content: bytes) -> None:
    """Write a file that a command was asked for.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
