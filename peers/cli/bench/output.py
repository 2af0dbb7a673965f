"""`Output`: where the figures of a benchmark go; and the bar that shows how far it is."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hub.errors import UsageError
from peers.bench.report import Report
from peers.bench.stage import Told
from peers.cli.bench.options import OUTPUT, described
from peers.cli.errors import FlagError

__all__ = ["EXIT_FLAWED", "Output", "shown_progress", "write_file"]

EXIT_FLAWED = 3
"""The benchmark ran, but messages were lost, misrouted or out of order. 2 is for options that cannot be understood."""


@Parameter(name="*")
@dataclass(kw_only=True)
class Output:
    """The options that say where the figures go, beside the table."""

    json: Annotated[
        Path | None,
        Parameter(
            help="Write the figures to this file as JSON; - is standard output.",
            group=OUTPUT,
            allow_leading_hyphen=True,
        ),
    ] = None
    progress: Annotated[bool, described("Show a progress bar, where standard error is a terminal.", OUTPUT)] = True

    def check(self, *others: Path | None) -> None:
        """Look whether the files can be written, before anything is measured.

        Args:
            others: Further files; None for one that is not asked for.

        Raises:
            FlagError: One of them cannot.
        """
        for path in (None if str(self.json) == "-" else self.json, *others):
            if path is None:
                continue
            folder = path.parent
            if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
                raise FlagError(f"{path}: no file can be written there")

    def write(self, report: Report) -> None:
        """Print the table, and write the JSON.

        The table goes to standard error where standard output is taken by the JSON.
        """
        to_stdout = self.json is not None and str(self.json) == "-"
        console = Console(stderr=to_stdout)
        if not console.is_terminal:
            console.width = 200  # a pipe has no edge to wrap at
        console.print(str(report.environment), highlight=False, markup=False)
        console.print(report.table())
        for remark in report.remarks:
            console.print(f"* {remark}", highlight=False, markup=False)
        if to_stdout:
            sys.stdout.write(report.json().decode() + "\n")
        elif self.json is not None:
            write_file(self.json, report.json())


def _end_in_order() -> None:
    """Let SIGTERM end the benchmark as Ctrl-C does: with everything that it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@contextmanager
def shown_progress(*, shown: bool) -> Iterator[Told]:
    """Show how far a measurement is while the block runs; what is yielded begins the bar of a further step."""
    _end_in_order()
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not (shown and console.is_terminal), refresh_per_second=5
    ) as progress:
        task = progress.add_task("setting up", total=None)

        def tell(what: str) -> Any:
            progress.reset(task, description=what, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total or None)

        yield tell


def write_file(path: Path, content: bytes) -> None:
    """Write a file.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
