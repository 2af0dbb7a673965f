"""`hub spark report`: tell what an archive holds.

Here are the options and the output; the job is `peers.spark.report`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peers.cli.flag_values import FlagError, check_count
from peers.cli.spark.engine import MESSAGES, Engine, described
from peers.cli.spark.files import check_folder, write_csv, write_text
from peers.spark.report.page import page
from peers.spark.report.tables import sheets
from peers.spark.report.words import TRAFFIC_HEADS, figures_of, remarks, traffic_row
from peers.spark.selection import Selection
from peers.spark.summary import columns, figures, rate, show, span

if TYPE_CHECKING:
    from peers.spark.report.findings import Findings

__all__ = ["report"]

_GAP = timedelta(minutes=1)

_SHORTEST_US = 1_000
"""The shortest bucket, and the shortest gap, that may be asked for."""

_SHOWN_ROWS = 20
"""Most rows of a table on the terminal."""

_SHOWN_COLUMNS = 4
"""Most columns of a table of topics: times are in the page and the CSV, a terminal is not as wide."""


@Parameter(name="*")
@dataclass(kw_only=True)
class Selected:
    """The options that say which messages of an archive are meant."""

    prefix: Annotated[list[str] | None, described("Only topics with this prefix; repeatable.", MESSAGES)] = None
    start: Annotated[datetime | None, described("Not before this time; UTC unless it names a zone.", MESSAGES)] = None
    end: Annotated[datetime | None, described("Before this time.", MESSAGES)] = None

    def selection(self) -> Selection:
        """Return the selection that the options make.

        Raises:
            UsageError: They cannot mean anything together.
        """
        return Selection(tuple(self.prefix or ()), self.start, self.end).check()


@Parameter(name="*")
@dataclass(kw_only=True)
class ReportOutput:
    """The options that say what `hub spark report` gives, beside the tables."""

    html: Annotated[Path | None, described("Write a page with figures and drawings to this file.")] = None
    csv: Annotated[Path | None, described("Write CSV files to this folder: topics, roots, rates, gaps, offsets.")] = (
        None
    )
    bucket: Annotated[
        timedelta | None, described("Width of the buckets of rates, such as 1m; chosen by the time without it.")
    ] = None
    gap: Annotated[timedelta, described("Report stretches longer than this without any message of a root.")] = _GAP
    event_time: Annotated[
        str, described("Field with the time of a message, to go by in place of the hub's.", MESSAGES)
    ] = ""
    top: Annotated[int, described("Topics that are named as those with the most messages, and bytes.")] = 10


def report(
    archive: str,
    /,
    selected: Selected | None = None,
    output: ReportOutput | None = None,
    engine: Engine | None = None,
) -> None:
    """Tell what an archive holds: who sent how much and when, gaps, absent offsets."""
    output = output or ReportOutput()
    selection = (selected or Selected()).selection()
    bucket_us = None if output.bucket is None else _microseconds("--bucket", output.bucket)
    gap_us = _microseconds("--gap", output.gap)
    check_count("--top", output.top)
    check_folder(archive)
    with (engine or Engine()).running("report") as job:
        from peers.spark.report.survey import Questions, survey  # noqa: PLC0415 -- Spark is loaded when a job runs

        begun = time.monotonic()
        questions = Questions(
            selection=selection,
            bucket_us=bucket_us,
            gap_us=gap_us,
            top=output.top,
            all_topics=output.csv is not None,
            event_time=output.event_time,
        )
        findings = survey(job.spark, archive, questions, job.progress)
    _show_findings(findings, time.monotonic() - begun)
    if output.html is not None:
        write_text(output.html, page(findings))
    if output.csv is not None:
        for name, sheet in sheets(findings).items():
            write_csv(output.csv / name, sheet.heads, sheet.rows)


def _microseconds(option: str, length: timedelta) -> int:
    length_us = length // timedelta(microseconds=1)
    if length_us < _SHORTEST_US:
        raise FlagError(f"{option}: {span(_SHORTEST_US)} or more expected, {span(length_us)} given")
    return length_us


def _show_findings(findings: Findings, elapsed_s: float) -> None:
    messages = findings.total.messages
    own = [("elapsed", "s", f"{elapsed_s:.1f}"), ("surveyed", "messages/s", rate(messages, elapsed_s))]
    show(figures([*figures_of(findings), *own]))
    for head, found in (("root", findings.talk.roots), ("topic", findings.talk.by_messages)):
        rows = [traffic_row(traffic)[:_SHOWN_COLUMNS] for traffic in found[:_SHOWN_ROWS]]
        show("", columns((head, *TRAFFIC_HEADS)[:_SHOWN_COLUMNS], rows))
        if len(found) > _SHOWN_ROWS:
            show(f"and {len(found) - _SHOWN_ROWS:,} more")
    for remark in remarks(findings):
        show(f"* {remark}")
