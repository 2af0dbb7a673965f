"""The bar: what it shows of Spark's stages and of steps that count themselves, and that it is only for terminals."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass, field
from typing import Any, cast

from pyspark.core.status import SparkStageInfo
from rich.console import Console

from peers.spark.progress import JobProgress


@dataclass
class Stages:
    stages: dict[int, tuple[int, int] | None]
    asked: threading.Event = field(default_factory=threading.Event)

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 -- Spark's name
        self.asked.set()
        return list(self.stages)

    def getStageInfo(self, stageId: int) -> SparkStageInfo | None:  # noqa: N802, N803 -- Spark's names
        stage = self.stages[stageId]
        return None if stage is None else SparkStageInfo(stageId, 0, "", stage[0], 1, stage[1], 0)


def tracker(stages: Stages) -> Any:
    return cast("Any", stages)


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, legacy_windows=False)


def drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    console.file.seek(0)
    console.file.truncate()
    return text


def test_the_bar_follows_sparks_tasks() -> None:
    console = terminal()
    progress = JobProgress(console)
    progress.step("counting")
    progress.watch(tracker(Stages({1: (6, 4), 2: (4, 0), 3: None})))
    progress.poll()
    progress._bar.start()
    assert "counting" in drawn(console)
    progress._bar.refresh()
    assert " 40%" in drawn(console)
    progress.step("matching")
    progress._bar.refresh()
    assert "matching" in (text := drawn(console))
    assert " 40%" not in text
    progress._bar.stop()


def test_a_step_that_counts_itself_is_believed() -> None:
    console = terminal()
    progress = JobProgress(console)
    progress._bar.start()
    progress.watch(tracker(Stages({1: (6, 4), 2: (4, 0), 3: None})))
    progress.step("replaying")
    progress.advance(30, 40)
    progress.poll()
    assert " 75%" in drawn(console)
    progress.step("next")
    progress.poll()
    assert " 40%" in drawn(console)
    progress._bar.stop()


def test_nothing_is_shown_or_asked_off_terminals() -> None:
    pipe = Console(file=io.StringIO(), width=100)
    stages = Stages({1: (10, 4)})
    with JobProgress(pipe) as progress:
        progress.watch(tracker(stages))
        progress.step("counting")
        progress.advance(1, 2)
    assert drawn(pipe) == ""
    assert not stages.asked.is_set()
