"""`hub spark`: jobs on archives, run by Apache Spark.

Here are the options and the output of the jobs; what they do is in `peers.spark`. Invariant: whatever can be checked is
checked before Spark is loaded and Java started, which takes seconds.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Group, Parameter

from hub.errors import UsageError
from peers.cli.errors import FlagError
from peers.cli.ranges import check_count
from peers.spark.package import write_package
from peers.spark.report.page import page
from peers.spark.report.tables import sheets
from peers.spark.report.words import TRAFFIC_HEADS, figures_of, remarks, traffic_row
from peers.spark.routing.matcher import Way
from peers.spark.selection import Selection
from peers.spark.session import Job, SessionSettings, running_job
from peers.spark.summary import Figure, amount, columns, figures, rate, show, span

if TYPE_CHECKING:
    from peers.spark.report.findings import Findings
    from peers.spark.routing.matcher import Matcher, Totals
    from peers.spark.routing.route import Routes

__all__ = ["Engine", "app"]

_MESSAGES = Group("Messages", sort_key=1)
_OUTPUT = Group("Output", sort_key=2)
_SPARK = Group("Spark", sort_key=3)

_GAP = timedelta(minutes=1)

_SHORTEST_US = 1_000
"""The shortest bucket, and the shortest gap, that may be asked for."""

_SHOWN_ROWS = 20
"""Most rows of a table on the terminal."""

_SHOWN_COLUMNS = 4
"""Most columns of a table of topics: times are in the page and the CSV, a terminal is not as wide."""

app = App(name="spark", help="Process archives with Apache Spark, here or on a cluster.")
app.command("peers.cli.spark_archive:archive", name="archive", help="Archive what a hub records, each record once.")
app.command("peers.cli.spark_replay:replay", name="replay", help="Publish an archive to a hub, in order and at a pace.")


def _help(text: str, group: Group = _OUTPUT) -> Parameter:
    return Parameter(help=text, group=group, negative_iterable=())


@Parameter(name="*")
@dataclass(kw_only=True)
class Engine:
    """The options that say where a job runs, and with which settings of Spark."""

    master: Annotated[str, _help("Master URL; spark-submit's own wins.", _SPARK)] = SessionSettings.master
    driver_memory: Annotated[
        str, _help("Java heap of the driver, such as 4g; with --master local[*] there is no other.", _SPARK)
    ] = SessionSettings.driver_memory
    shuffle_partitions: Annotated[
        int, _help("Tasks behind a shuffle; 0: twice the cores here, Spark's default on a cluster.", _SPARK)
    ] = SessionSettings.shuffle_partitions
    conf: Annotated[list[str] | None, _help("Further setting of Spark, KEY=VALUE; repeatable.", _SPARK)] = None
    progress: Annotated[bool, _help("Show a progress bar, where standard error is a terminal.")] = True

    def running(self, name: str) -> AbstractContextManager[Job]:
        """Return the context of a job; see `running_job`.

        Raises:
            UsageError: A setting cannot be understood.
        """
        settings = SessionSettings(
            name=f"topichub {name}",
            master=self.master,
            driver_memory=self.driver_memory,
            shuffle_partitions=self.shuffle_partitions,
            conf=dict(map(_setting, self.conf or ())),
        )
        return running_job(settings, shown=self.progress)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise FlagError(f"--conf: KEY=VALUE expected, {text!r} given")
    return key, value


@app.command
def package(path: Path, /) -> None:
    """Write this project's code as a zip for `spark-submit --py-files`.

    Jobs with --master make and send it by themselves. The Python of the executors needs what the project depends on.
    """
    count = write_package(path)
    show(figures([("files", "files", amount(count)), ("size", "bytes", amount(path.stat().st_size))]))


@Parameter(name="*")
@dataclass(kw_only=True)
class Selected:
    """The options that say which messages of an archive are meant."""

    prefix: Annotated[list[str] | None, _help("Only topics with this prefix; repeatable.", _MESSAGES)] = None
    start: Annotated[datetime | None, _help("Not before this time; UTC unless it names a zone.", _MESSAGES)] = None
    end: Annotated[datetime | None, _help("Before this time.", _MESSAGES)] = None

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

    html: Annotated[Path | None, _help("Write a page with figures and drawings to this file.")] = None
    csv: Annotated[Path | None, _help("Write CSV files to this folder: topics, roots, rates, gaps, offsets.")] = None
    bucket: Annotated[
        timedelta | None, _help("Width of the buckets of rates, such as 1m; chosen by the time without it.")
    ] = None
    gap: Annotated[timedelta, _help("Report stretches longer than this without any message of a root.")] = _GAP
    top: Annotated[int, _help("Topics that are named as those with the most messages, and bytes.")] = 10


@app.command
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
    with (engine or Engine()).running("report") as job:
        from peers.spark.report.survey import Questions, survey  # noqa: PLC0415 -- Spark is loaded when a job runs

        begun = time.monotonic()
        questions = Questions(
            selection=selection,
            bucket_us=bucket_us,
            gap_us=gap_us,
            top=output.top,
            all_topics=output.csv is not None,
        )
        findings = survey(job.spark, archive, questions, job.progress)
    _show_findings(findings, time.monotonic() - begun)
    if output.html is not None:
        _write(output.html, page(findings))
    if output.csv is not None:
        for name, sheet in sheets(findings).items():
            _write_csv(output.csv / name, sheet.heads, sheet.rows)


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


@Parameter(name="*")
@dataclass(kw_only=True)
class RouteOutput:
    """The options that say what `hub spark route` gives, beside the table."""

    counts: Annotated[Path | None, _help("Write messages and bytes of each subscriber to this CSV file.")] = None
    deliveries: Annotated[
        str | None, _help("Write who gets each message to this new folder, as Parquet: offset, subscribers.")
    ] = None
    pairs: Annotated[bool, _help("Deliveries are one row each: offset, subscriber.")] = False
    top: Annotated[int, _help("Subscribers in the table, those with the most messages.")] = 20


@app.command
def route(
    archive: str,
    subscriptions: Path,
    /,
    output: RouteOutput | None = None,
    engine: Engine | None = None,
    *,
    way: Annotated[Way, _help("Match topics, or explode messages; auto looks which is cheaper.", _SPARK)] = Way.AUTO,
) -> None:
    """Tell which subscriber would get which message of an archive, by the hub's own matching.

    SUBSCRIPTIONS is CSV with the header name,prefix or NDJSON with these fields. A subscriber may have several prefixes
    and gets each message once. In deliveries, subscribers are numbers; _subscribers in their folder has the names.
    """
    from peers.spark.routing.matcher import Matcher  # noqa: PLC0415 -- Spark is loaded when a job runs
    from peers.spark.routing.subscriptions import read_subscriptions  # noqa: PLC0415 -- the same

    output = output or RouteOutput()
    if output.pairs and output.deliveries is None:
        raise FlagError("--pairs: --deliveries is needed, too")
    matcher = Matcher(read_subscriptions(subscriptions))
    with (engine or Engine()).running("route") as job:
        from peers.spark.archive_files import read_archive  # noqa: PLC0415 -- the same
        from peers.spark.routing.route import route as matched  # noqa: PLC0415 -- the same
        from peers.spark.routing.route import write_deliveries  # noqa: PLC0415 -- the same

        begun = time.monotonic()
        job.progress.tell("matching topics")
        routes = matched(read_archive(job.spark, archive), matcher, way)
        job.progress.tell("counting")
        totals, messages = routes.totals()
        if output.deliveries is not None:
            job.progress.tell("writing deliveries")
            write_deliveries(routes, output.deliveries, pairs=output.pairs)
    _show_routes(routes, totals, messages, time.monotonic() - begun)
    _show_subscribers(matcher, totals, output.top)
    if output.counts is not None:
        numbered = zip(range(len(matcher.names)), matcher.names, totals.messages, totals.bytes, strict=True)
        _write_csv(output.counts, ("number", "name", "messages", "bytes"), numbered)


def _show_routes(routes: Routes, totals: Totals, messages: int, elapsed_s: float) -> None:
    rows: list[Figure] = [
        ("messages", "messages", amount(messages)),
        ("wanted by nobody", "messages", amount(messages - totals.wanted)),
        ("deliveries", "deliveries", amount(totals.delivered)),
        ("delivered", "bytes", amount(sum(totals.bytes))),
        ("subscribers", "subscribers", amount(len(routes.matcher.names))),
        ("prefixes", "prefixes", amount(len(routes.matcher.prefixes))),
        ("way", "", routes.way),
        ("elapsed", "s", f"{elapsed_s:.1f}"),
        ("matched", "messages/s", rate(messages, elapsed_s)),
    ]
    show(figures(rows), "")


def _show_subscribers(matcher: Matcher, totals: Totals, top: int) -> None:
    most = sorted(range(len(matcher.names)), key=lambda number: (-totals.messages[number], matcher.names[number]))
    rows = [(matcher.names[n], amount(totals.messages[n]), amount(totals.bytes[n])) for n in most[: max(0, top)]]
    show(columns(("subscriber", "messages", "bytes"), rows))
    if len(most) > len(rows):
        show(f"and {len(most) - len(rows):,} more")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _write_csv(path: Path, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(heads)
            writer.writerows(rows)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
