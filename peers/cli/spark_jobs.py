"""`hub spark replay`, `report` and `route`: their options and output; the jobs are in `peers.spark`."""

from __future__ import annotations

import csv
import io
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from peers.cli.contexts import ContextName
from peers.cli.flag_values import FlagError, check_count, check_positive
from peers.cli.output import write_file
from peers.cli.spark import (
    EXIT_INCOMPLETE,
    MESSAGES,
    Engine,
    access_of,
    check_folder,
    described,
    prefixes_of,
    show_figures,
)
from peers.cli.texts import show
from peers.cli.url import DEFAULT_URL, HubUrl, TlsFiles, TokenFile
from peers.spark.archiving.files import EVERYTHING, Selection
from peers.spark.progress import JobProgress
from peers.spark.report.findings import TRAFFIC_HEADS, figures_of, remarks, traffic_row
from peers.spark.report.page import page
from peers.spark.session import check_packages
from peers.spark.signals import stop_event
from peers.spark.summary import amount, rate, span

if TYPE_CHECKING:
    from peers.spark.replay import Pace, Replay
    from peers.spark.report.findings import Findings
    from peers.spark.route import Matcher, Totals


_PACE = Group("Pace", sort_key=2)

Start = Annotated[datetime | None, described("Only messages from this time on; UTC unless a zone is given.", MESSAGES)]
End = Annotated[datetime | None, described("Only messages before this time.", MESSAGES)]


@Parameter(name="*")
@dataclass(kw_only=True)
class What:
    """Which messages are replayed."""

    topics: Annotated[str | None, described("Prefixes, separated by commas. Default: all.", MESSAGES)] = None
    start: Start = None
    end: End = None
    from_offset: Annotated[int, described("First offset, to continue a replay that was interrupted.", MESSAGES)] = 0


@Parameter(name="*")
@dataclass(kw_only=True)
class How:
    """How fast messages are replayed."""

    speed: Annotated[float | None, described("Multiple of the recorded pace. Default: 1.", _PACE)] = None
    full_speed: Annotated[bool, described("As fast as the hub accepts them.", _PACE)] = False
    rate: Annotated[float | None, described("Messages a second, evenly spaced.", _PACE)] = None
    max_pause: Annotated[timedelta, described("Longest pause with --speed; longer ones are shortened.", _PACE)] = (
        timedelta(seconds=60)
    )

    def check(self) -> None:
        """Check the options."""
        if sum((self.full_speed, self.rate is not None, self.speed is not None)) > 1:
            raise FlagError("--speed, --full-speed and --rate exclude each other")
        check_positive("--speed", self.speed, hint="1 is as recorded")
        check_positive("--rate", self.rate, "messages a second")
        check_positive("--max-pause", self.max_pause.total_seconds(), "seconds")

    def pace(self) -> Pace:
        """Return the pace."""
        from peers.spark.replay import Pace  # noqa: PLC0415 -- numpy is part of an extra

        speed = None if self.full_speed else self.speed or 1.0
        return Pace(speed=speed, rate=self.rate, max_pause_s=self.max_pause.total_seconds())


def replay(  # noqa: PLR0913 -- one group of flags each
    archive: str,
    /,
    *,
    url: HubUrl = DEFAULT_URL,
    context: ContextName = "",  # noqa: ARG001 -- it has become `url` and what is shown there
    what: What | None = None,
    how: How | None = None,
    token_file: TokenFile = "",
    tls: TlsFiles | None = None,
) -> int:
    """Publish an archive to a hub, in the order of its offsets.

    Exit code 2 if it is interrupted; a line on standard error has the offset to continue from.
    """
    what, how = what or What(), how or How()
    prefixes = () if what.topics is None else prefixes_of(what.topics)
    selection = Selection(prefixes, what.start, what.end).check()
    how.check()
    access = access_of(url, token_file, tls)
    check_folder(archive)
    check_packages("numpy", "pyarrow")
    from peers.spark.replay import replay as run  # noqa: PLC0415 -- an extra

    with JobProgress() as progress, stop_event() as stop:
        progress.step("publishing")
        done = run(
            access,
            archive,
            selection,
            from_offset=what.from_offset,
            pace=how.pace(),
            every=lambda done: _advance(progress, done),
            stop=stop,
        )
    _show(done)
    return EXIT_INCOMPLETE if done.ending else 0


def _advance(progress: JobProgress, done: Replay) -> None:
    progress.advance(done.next - done.first, done.last + 1 - done.first)


def _show(done: Replay) -> None:
    show_figures(
        [
            ("published", "messages", amount(done.messages)),
            ("published", "bytes", amount(done.bytes)),
            ("refused by the hub", "messages", amount(done.rejected)),
            ("left out, no msgpack", "messages", amount(done.skipped)),
            ("from", "offset", amount(done.first)),
            ("to", "offset", amount(done.next)),
            ("elapsed", "s", f"{done.elapsed_s:.1f}"),
            ("published", "messages/s", rate(done.messages, done.elapsed_s)),
        ]
    )
    if done.ending:
        print(f"broken off: {done.ending}; go on with --from-offset {done.next}", file=sys.stderr)


_GAP = timedelta(minutes=1)
_SHORTEST_GAP_US = 1_000

# Most rows of a table on the terminal, and most columns of one of topics.
_SHOWN_ROWS = 20
_SHOWN_COLUMNS = 4


@Parameter(name="*")
@dataclass(kw_only=True)
class Selected:
    """Which messages of an archive are reported."""

    prefix: Annotated[list[str] | None, described("Only topics with this prefix; repeatable.", MESSAGES)] = None
    start: Start = None
    end: End = None


@Parameter(name="*")
@dataclass(kw_only=True)
class ReportOutput:
    """What `hub spark report` writes, beside the tables."""

    html: Annotated[Path | None, described("Write a page with figures and drawings to this file.")] = None
    gap: Annotated[timedelta, described("Report periods longer than this without a message of a root.")] = _GAP
    top: Annotated[int, described("Number of topics listed, those with the most messages, and bytes.")] = 10


def report(
    archive: str,
    /,
    selected: Selected | None = None,
    output: ReportOutput | None = None,
    engine: Engine | None = None,
) -> None:
    """Summarise an archive: messages by topic and time, gaps, absent offsets."""
    output, selected = output or ReportOutput(), selected or Selected()
    selection = Selection(tuple(selected.prefix or ()), selected.start, selected.end).check()
    gap_us = output.gap // timedelta(microseconds=1)
    if gap_us < _SHORTEST_GAP_US:
        raise FlagError(f"--gap: {span(_SHORTEST_GAP_US)} or more expected, {span(gap_us)} given")
    check_count("--top", output.top)
    check_folder(archive)
    with (engine or Engine()).running("report") as job:
        from peers.spark.report.survey import Questions, survey  # noqa: PLC0415 -- Spark is loaded when a job runs

        begun = time.monotonic()
        questions = Questions(selection=selection, gap_us=gap_us, top=output.top)
        findings = survey(job.spark, archive, questions, job.progress)
    _show_findings(findings, time.monotonic() - begun)
    if output.html is not None:
        write_file(output.html, page(findings).encode())


def _show_findings(findings: Findings, elapsed_s: float) -> None:
    messages = findings.total.messages
    own = [("elapsed", "s", f"{elapsed_s:.1f}"), ("surveyed", "messages/s", rate(messages, elapsed_s))]
    show_figures([*figures_of(findings), *own])
    for head, found in (("root", findings.roots), ("topic", findings.by_messages)):
        print()
        rows = [traffic_row(traffic)[:_SHOWN_COLUMNS] for traffic in found[:_SHOWN_ROWS]]
        show((head, *TRAFFIC_HEADS)[:_SHOWN_COLUMNS], rows)
        if len(found) > _SHOWN_ROWS:
            print(f"and {len(found) - _SHOWN_ROWS:,} more")
    for remark in remarks(findings):
        print(f"* {remark}")


@Parameter(name="*")
@dataclass(kw_only=True)
class RouteOutput:
    """What `hub spark route` writes, beside the table."""

    counts: Annotated[Path | None, described("Write messages and bytes of each subscriber to this CSV file.")] = None
    deliveries: Annotated[
        str | None, described("Write offset and subscribers of each message to this new folder, as Parquet.")
    ] = None
    top: Annotated[int, described("Number of subscribers in the table, those with the most messages.")] = 20


def route(
    archive: str,
    subscriptions: Path,
    /,
    output: RouteOutput | None = None,
    engine: Engine | None = None,
) -> None:
    """Show which subscriber would get which message of an archive, by the hub's own matching.

    SUBSCRIPTIONS is CSV with the header name,prefix or NDJSON with these fields. A subscriber may have several prefixes
    and gets each message once. In deliveries, subscribers are numbers; _subscribers in their folder has the names.
    """
    check_packages("numpy", "pyarrow")
    from peers.spark.route import Matcher, count, read_subscriptions, write_deliveries  # noqa: PLC0415 -- an extra

    output = output or RouteOutput()
    matcher = Matcher(read_subscriptions(subscriptions))
    check_folder(archive)
    with (engine or Engine()).running("route") as job:
        from peers.spark.scan import Scan  # noqa: PLC0415 -- Spark is loaded when a job runs

        begun = time.monotonic()
        job.progress.step("counting")
        scan = Scan(job.spark, archive, EVERYTHING)
        totals = count(scan, matcher)
        if output.deliveries is not None:
            job.progress.step("writing deliveries")
            write_deliveries(scan, matcher, output.deliveries)
    _show_routes(matcher, totals, time.monotonic() - begun)
    _show_subscribers(matcher, totals, output.top)
    if output.counts is not None:
        _write_counts(output.counts, matcher, totals)


def _show_routes(matcher: Matcher, totals: Totals, elapsed_s: float) -> None:
    messages = totals.all_messages
    show_figures(
        [
            ("messages", "messages", amount(messages)),
            ("wanted by nobody", "messages", amount(messages - totals.wanted)),
            ("deliveries", "deliveries", amount(totals.delivered)),
            ("delivered", "bytes", amount(sum(totals.bytes))),
            ("subscribers", "subscribers", amount(len(matcher.names))),
            ("prefixes", "prefixes", amount(len(matcher.prefixes))),
            ("elapsed", "s", f"{elapsed_s:.1f}"),
            ("matched", "messages/s", rate(messages, elapsed_s)),
        ]
    )
    print()


def _write_counts(path: Path, matcher: Matcher, totals: Totals) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("number", "name", "messages", "bytes"))
    writer.writerows(zip(range(len(matcher.names)), matcher.names, totals.messages, totals.bytes, strict=True))
    write_file(path, text.getvalue().encode())


def _show_subscribers(matcher: Matcher, totals: Totals, top: int) -> None:
    most = sorted(range(len(matcher.names)), key=lambda number: (-totals.messages[number], matcher.names[number]))
    rows = [(matcher.names[n], amount(totals.messages[n]), amount(totals.bytes[n])) for n in most[: max(0, top)]]
    show(("subscriber", "messages", "bytes"), rows)
    if len(most) > len(rows):
        print(f"and {len(most) - len(rows):,} more")
