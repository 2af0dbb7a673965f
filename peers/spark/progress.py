"""`JobProgress`: a bar on standard error while Spark works, where that is a terminal.

Spark says which stages are running and how many of their tasks are done; a thread asks it five times a second. A step
that knows better how far it is (a stream that counts offsets) says so with `advance`, and is believed.

Owner of the state: the command that made it; the thread only reads what it was given. Cost: nothing where standard
error is no terminal, else about 2 ms of the driver five times a second.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from peers.spark.failure import spark_errors

if TYPE_CHECKING:
    from pyspark.core.status import SparkStageInfo

__all__ = ["JobProgress", "Tracker", "tasks"]

_UPDATE_S = 0.2


class Tracker(Protocol):
    """What is needed of Spark's `StatusTracker`."""

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 -- Spark's name
        """Return the stages that are running."""

    def getStageInfo(self, stageId: int) -> SparkStageInfo | None:  # noqa: N802, N803 -- Spark's names
        """Return how far a stage is."""


def tasks(tracker: Tracker) -> tuple[int, int]:
    """Return how many tasks of the running stages are done, and how many there are."""
    done = total = 0
    for number in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(number)
        if stage is not None:  # it has just ended
            done += stage.numCompletedTasks
            total += stage.numTasks
    return done, total


class JobProgress:
    """How far a job is; to be used as a context, at whose end the bar is wiped out.

    Args:
        shown: Whether to show it at all.
        console: Where to; standard error without it, and only if that is a terminal.
    """

    def __init__(self, *, shown: bool = True, console: Console | None = None) -> None:
        console = console or Console(file=sys.stderr)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            auto_refresh=False,
            disable=not (shown and console.is_terminal),
        )
        self._task = self._bar.add_task("", total=None)
        self._tracker: Tracker | None = None
        self._told = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._bar.start()
        if not self._bar.disable:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._bar.stop()

    def tell(self, what: str) -> None:
        """A step of that name begins."""
        self._told = False
        self._bar.reset(self._task, description=what, total=None)

    def warn(self, text: str) -> None:
        """Say something that does not vanish with the bar."""
        self._bar.console.print(Text(f"hub: {text}"), soft_wrap=True)

    def watch(self, tracker: Tracker | None) -> None:
        """Show the tasks that this tracker tells of; None before the session that it belongs to ends."""
        self._tracker = tracker

    def advance(self, completed: float, total: float | None = None) -> None:
        """The step itself says how far it is: what Spark's tasks say is not shown until the next step."""
        self._told = True
        self._bar.update(self._task, completed=completed, total=total)

    def poll(self) -> None:
        """Ask once, and draw."""
        tracker = self._tracker
        if tracker is not None and not self._told:
            done, total = tasks(tracker)
            self._bar.update(self._task, completed=done, total=total or None)
        self._bar.refresh()

    def _run(self) -> None:
        while not self._over.wait(_UPDATE_S):
            # A session that is just ending cannot be asked; its end is told elsewhere.
            with suppress(OSError, *spark_errors()):
                self.poll()
