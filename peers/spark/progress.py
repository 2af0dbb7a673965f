"""`JobProgress`: a progress bar on standard error while a job works, where that is a terminal.

A thread asks Spark five times a second how many tasks of the running stages are done. A step that counts by itself
calls `advance`, and then Spark is not asked.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.core.status import StatusTracker

_UPDATE_S = 0.2


class JobProgress:
    """How far a job is; a context, at whose end the bar is removed. Without a terminal nothing is drawn or asked."""

    def __init__(self, console: Console | None = None) -> None:
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
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None)
        self._tracker: StatusTracker | None = None
        self._counts_itself = False
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

    def step(self, name: str) -> None:
        self._counts_itself = False
        self._bar.reset(self._task, description=name, total=None)

    def warn(self, text: str) -> None:
        """Print a warning that does not vanish with the bar."""
        self._bar.console.print(Text(f"hub: {text}"), soft_wrap=True)

    def watch(self, tracker: StatusTracker | None) -> None:
        """Show the tasks of a session; None before it ends."""
        self._tracker = tracker

    def advance(self, completed: float, total: float | None = None) -> None:
        """Show how far the step is, until the next step."""
        self._counts_itself = True
        self._bar.update(self._task, completed=completed, total=total)

    def poll(self) -> None:
        """Ask Spark once, and draw."""
        tracker = self._tracker
        if tracker is not None and not self._counts_itself:
            found = (tracker.getStageInfo(number) for number in tracker.getActiveStageIds())
            stages = [stage for stage in found if stage is not None]  # None: it has just ended
            done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
            self._bar.update(self._task, completed=done, total=total or None)
        self._bar.refresh()

    def _run(self) -> None:
        while not self._over.wait(_UPDATE_S):
            # A session that is just ending cannot be asked: py4j raises all sorts.
            with suppress(Exception):
                self.poll()
