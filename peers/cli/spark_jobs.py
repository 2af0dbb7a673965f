"""`hub spark replay`, `report` and `route`: their options and output; the jobs are in `peers.spark`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from hub.topics import check_prefix
from peers.cli.contexts import ContextName
from peers.cli.flag_values import FlagError, check_count, check_positive
from peers.cli.output import write_file
from peers.cli.spark import MESSAGES, SPARK, Engine, check_folder, described, write_csv
from peers.cli.url import DEFAULT_URL, HubUrl, TlsFiles, TokenFile, text_or_path
from peers.spark.connector.options import Access
from peers.spark.report.page import page
from peers.spark.report.tables import sheets
from peers.spark.report.words import TRAFFIC_HEADS, figures_of, remarks, traffic_row
from peers.spark.routing.matcher import Way
from peers.spark.selection import Selection
from peers.spark.stopping import signals_told
from peers.spark.summary import Figure, amount, columns, figures, rate, show, span
from peers.transport.endpoints import Endpoint

if TYPE_CHECKING:
    from peers.spark.progress import JobProgress
    from peers.spark.replaying.pace import Pace
    from peers.spark.replaying.replay import Replayed
    from peers.spark.replaying.windows import Extent
    from peers.spark.report.findings import Findings
    from peers.spark.routing.matcher import Matcher, Totals
    from peers.spark.routing.route import Routes


EXIT_INCOMPLETE = 2
"""The job ended before all was published."""

_WHAT = Group("Messages", sort_key=1)
_HOW = Group("Pace", sort_key=2)


def _help(text: str, group: Group, name: str | None = None) -> Parameter:
    return Parameter(help=text, group=group, name=name, negative=())


@Parameter(name="*")
@dataclass(kw_only=True)
class What:
    """The options that say which messages are replayed."""

    topics: Annotated[str | None, _help("Prefixes, separated by commas; all without it.", _WHAT)] = None
    start: Annotated[datetime | None, _help("Not before this time; UTC unless it names a zone.", _WHAT)] = None
    end: Annotated[datetime | None, _help("Before this time.", _WHAT)] = None
    from_offset: Annotated[int, _help("Not before this offset: where a replay was broken off.", _WHAT)] = 0

    def selection(self) -> Selection:
        """Return the selection that the options make, without the offset.

        Raises:
            UsageError: They cannot mean anything together.
        """
        prefixes = () if self.topics is None else tuple(prefix.strip() for prefix in self.topics.split(","))
        return Selection(tuple(map(check_prefix, prefixes)), self.start, self.end).check()


@Parameter(name="*")
@dataclass(kw_only=True)
class How:
    """The options that say how fast messages are replayed."""

    speed: Annotated[float | None, _help("As recorded, by so much faster; 1 without any of these.", _HOW)] = None
    full_speed: Annotated[bool, _help("As fast as the hub takes them.", _HOW)] = False
    rate: Annotated[float | None, _help("So many messages a second, evenly.", _HOW)] = None
    max_pause: Annotated[timedelta, _help("Longest pause with --speed: a night need not be sat through.", _HOW)] = (
        timedelta(seconds=60)
    )

    def check(self) -> None:
        """Check what can be checked before Java is started, which takes seconds.

        Raises:
            FlagError: There are two paces, or one is none.
        """
        if sum((self.full_speed, self.rate is not None, self.speed is not None)) > 1:
            raise FlagError("--speed, --full-speed and --rate exclude each other")
        check_positive("--speed", self.speed, hint="1 is as recorded")
        check_positive("--rate", self.rate, "messages a second")
        check_positive("--max-pause", self.max_pause.total_seconds(), "seconds")

    def pace(self) -> Pace:
        """Return the pace."""
        from peers.spark.replaying.pace import FullSpeed, Rate, Recorded  # noqa: PLC0415 -- numpy is part of an extra

        if self.full_speed:
            return FullSpeed()
        if self.rate is not None:
            return Rate(self.rate)
        return Recorded(self.speed or 1.0, self.max_pause.total_seconds())


def replay(  # noqa: PLR0913 -- one group of flags each
    archive: str,
    /,
    *,
    url: HubUrl = DEFAULT_URL,
    context: ContextName = "",  # noqa: ARG001 -- it has become `url` and what is shown there
    what: What | None = None,
    how: How | None = None,
    engine: Engine | None = None,
    token_file: TokenFile = "",
    tls: TlsFiles | None = None,
) -> int:
    """Publish an archive to a hub, in the order of its offsets.

    Exit code 2 if it is broken off; it tells from which offset to go on.
    """
    what, how, files = what or What(), how or How(), tls or TlsFiles()
    selection = what.selection()
    how.check()
    token, token_path = text_or_path(token_file)
    Endpoint.parse_remote(url)
    check_folder(archive)
    _meet(Access(url, token, ca=files.ca, certificate=files.certificate, key=files.key, token_file=token_path))
    with (engine or Engine()).running("replay") as job:
        from peers.spark.replaying.replay import ReplayOrder  # noqa: PLC0415 -- Spark is loaded when a job runs
        from peers.spark.replaying.replay import replay as run  # noqa: PLC0415 -- the same

        order = ReplayOrder(
            url=url,
            path=archive,
            selection=selection,
            from_offset=what.from_offset,
            pace=how.pace(),
            token=token,
            token_file=token_path,
            ca=files.ca,
            certificate=files.certificate,
            key=files.key,
        )
        with signals_told() as stop:
            done = run(job, order, lambda published, extent: _advance(job.progress, published.next, extent), stop)
    _show(done)
    return EXIT_INCOMPLETE if done.ending else 0


def _meet(access: Access) -> None:
    """See to it that the hub is there before Java is started."""
    from peers.spark.presence import check_connection  # noqa: PLC0415 -- a client; only where a job runs

    check_connection(access)


def _advance(progress: JobProgress, offset: int, extent: Extent) -> None:
    progress.advance(offset - extent.first, extent.last + 1 - extent.first)


def _show(done: Replayed) -> None:
    published = done.published
    rows: list[Figure] = [
        ("published", "messages", amount(published.messages)),
        ("published", "bytes", amount(published.bytes)),
        ("refused by the hub", "messages", amount(published.refused + done.rejected)),
        ("left out, no msgpack", "messages", amount(published.left_out)),
        ("from", "offset", amount(done.extent.first)),
        ("to", "offset", amount(published.next)),
        ("elapsed", "s", f"{done.elapsed_s:.1f}"),
        ("published", "messages/s", rate(published.messages, done.elapsed_s)),
    ]
    show(figures(rows))
    if done.ending:
        print(f"broken off: {done.ending}; go on with --from-offset {published.next}", file=sys.stderr)


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
        write_file(output.html, page(findings).encode())
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


@Parameter(name="*")
@dataclass(kw_only=True)
class RouteOutput:
    """The options that say what `hub spark route` gives, beside the table."""

    counts: Annotated[Path | None, described("Write messages and bytes of each subscriber to this CSV file.")] = None
    deliveries: Annotated[
        str | None, described("Write who gets each message to this new folder, as Parquet: offset, subscribers.")
    ] = None
    pairs: Annotated[bool, described("Deliveries are one row each: offset, subscriber.")] = False
    top: Annotated[int, described("Subscribers in the table, those with the most messages.")] = 20


def route(
    archive: str,
    subscriptions: Path,
    /,
    output: RouteOutput | None = None,
    engine: Engine | None = None,
    *,
    way: Annotated[Way, described("Match topics, or explode messages; auto looks which is cheaper.", SPARK)] = Way.AUTO,
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
    check_folder(archive)
    with (engine or Engine()).running("route") as job:
        from peers.spark.archive_files import read_archive  # noqa: PLC0415 -- the same
        from peers.spark.routing.route import route as matched  # noqa: PLC0415 -- the same
        from peers.spark.routing.route import write_deliveries  # noqa: PLC0415 -- the same

        begun = time.monotonic()
        job.progress.tell("matching topics")
        read = read_archive(job.spark, archive)
        job.size_shuffles(read)
        routes = matched(read, matcher, way)
        job.progress.tell("counting")
        totals, messages = routes.totals()
        if output.deliveries is not None:
            job.progress.tell("writing deliveries")
            write_deliveries(routes, output.deliveries, pairs=output.pairs)
    _show_routes(routes, totals, messages, time.monotonic() - begun)
    _show_subscribers(matcher, totals, output.top)
    if output.counts is not None:
        numbered = zip(range(len(matcher.names)), matcher.names, totals.messages, totals.bytes, strict=True)
        write_csv(output.counts, ("number", "name", "messages", "bytes"), numbered)


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
