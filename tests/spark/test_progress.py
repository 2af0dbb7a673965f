"""The bar: what it shows of Spark's stages and of steps that count themselves, and that it is only for terminals."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass, field

from pyspark.core.status import SparkStageInfo
from rich.console import Console

from peers.spark.progress import JobProgress, tasks


@dataclass
class Stages:
    """A tracker with stages as (tasks, done); None for one that has just ended."""

    stages: dict[int, tuple[int, int] | None]
    asked: threading.Event = field(default_factory=threading.Event)

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 -- Spark's name
        """All of them."""
        self.asked.set()
        return list(self.stages)

    def getStageInfo(self, stageId: int) -> SparkStageInfo | None:  # noqa: N802, N803 -- Spark's names
        """One of them."""
        stage = self.stages[stageId]
        return None if stage is None else SparkStageInfo(stageId, 0, "", stage[0], 1, stage[1], 0)


def terminal() -> Console:
    """A terminal of 100 columns that keeps what is drawn."""
    return Console(file=io.StringIO(), force_terminal=True, width=100, legacy_windows=False)


def drawn(console: Console) -> str:
    """What was drawn since this was last asked."""
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    console.file.seek(0)
    console.file.truncate()
    return text


def test_tasks_of_all_running_stages() -> None:
    """Are added up; a stage that has just ended is none."""
    assert tasks(Stages({1: (10, 4), 2: (5, 0), 3: None})) == (4, 15)
    assert tasks(Stages({})) == (0, 0)


def test_the_bar_follows_sparks_tasks() -> None:
    """And begins anew with each step."""
    console = terminal()
    progress = JobProgress(console=console)
    progress.tell("counting")
    progress.watch(Stages({1: (10, 4)}))
    progress.poll()
    progress._bar.start()
    assert "counting" in drawn(console)
    progress._bar.refresh()
    assert " 40%" in drawn(console)
    progress.tell("matching")
    progress._bar.refresh()
    assert "matching" in (text := drawn(console))
    assert " 40%" not in text
    progress._bar.stop()


def test_a_step_that_counts_itself_is_believed() -> None:
    """Spark's tasks do not overwrite it, until the next step."""
    console = terminal()
    progress = JobProgress(console=console)
    progress._bar.start()
    progress.watch(Stages({1: (10, 4)}))
    progress.tell("replaying")
    progress.advance(30, 40)
    progress.poll()
    assert " 75%" in drawn(console)
    progress.tell("next")
    progress.poll()
    assert " 40%" in drawn(console)
    progress._bar.stop()


def test_as_a_context_it_asks_by_itself() -> None:
    """In a thread that ends with the block."""
    stages = Stages({1: (10, 4)})
    with JobProgress(console=terminal()) as progress:
        progress.watch(stages)
        assert stages.asked.wait(30)
    assert not progress._thread.is_alive()


def test_nothing_is_shown_or_asked_off_terminals() -> None:
    """Nor where the user does not want it."""
    pipe = Console(file=io.StringIO(), width=100)
    for console, shown in ((pipe, True), (terminal(), False)):
        stages = Stages({1: (10, 4)})
        with JobProgress(shown=shown, console=console) as progress:
            progress.watch(stages)
            progress.tell("counting")
            progress.advance(1, 2)
        assert drawn(console) == ""
        assert not stages.asked.is_set()
