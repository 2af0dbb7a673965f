"""Standard output, written by a thread (`Output`), and progress bars.

While `less` or a slow disk holds a write, the loop still answers the hub's pings, and Ctrl-C still works. At most one
write is under way and one waits. The thread is a daemon: call `flush` before the process ends.
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
    """Writes to a descriptor, in a thread; after a failed write `on_broken` is called in the loop."""

    __slots__ = ("_broken", "_descriptor", "_loop", "_on_broken", "_under_way", "_work")

    def __init__(self, descriptor: int, on_broken: Callable[[], object] | None = None) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._under_way: asyncio.Future[None] | None = None
        # The first error stays: the task that waited for the write may be cancelled by `on_broken` before it gets it.
        self._broken: OSError | None = None
        threading.Thread(target=self._run, name="output", daemon=True).start()

    async def write(self, text: bytes) -> None:
        """Hand over `text` once everything before is written; raise the `OSError` of an earlier write."""
        await self.flush()
        if text:
            self._under_way = self._loop.create_future()
            self._under_way.add_done_callback(_retrieve)
            self._work.put((text, self._under_way))

    async def flush(self) -> None:
        self.check()
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            await under_way

    def check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _run(self) -> None:
        while True:
            text, done = self._work.get()
            error: OSError | None = None
            try:
                write_all(self._descriptor, text)
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


@asynccontextmanager
async def stdout_written() -> AsyncIterator[Output]:
    """Yield standard output; write the rest at the end. A failed write cancels the block, and is raised."""
    task = asyncio.current_task()
    output = Output(sys.stdout.fileno(), task.cancel if task is not None else None)
    try:
        yield output
        await output.flush()
    except asyncio.CancelledError:
        output.check()  # the output may have cancelled us: then its error says why
        raise


def write_all(descriptor: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _retrieve(done: asyncio.Future[None]) -> None:
    """Read the exception, which asyncio would report as unread if the command ends first."""
    if not done.cancelled():
        done.exception()


_UPDATE_S = 0.2
"""Drawing takes a few milliseconds from the sending."""


class Progress(NamedTuple):
    """Text, amount and total (None if not known) of a bar."""

    text: str
    done: int = 0
    total: int | None = None


Tell = Callable[[str, int | None, int | None], object]
"""Called with the text, amount and total of a bar; None where not known."""

_DRAWN_PER_S = 5


@contextmanager
def shown_bar(*, visible: bool = True) -> Iterator[Tell]:
    """Show a progress bar while the block lasts, if standard error is a terminal."""
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
    """Show the progress that `look` returns while the block runs."""
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
    """Write a file; raise `UsageError` if that fails."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
