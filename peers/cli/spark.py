"""`hub spark`: jobs on archives, run by Apache Spark: their options and output; the jobs are in `peers.spark`.

Everything that can be checked is checked before Spark is loaded and Java started, which takes seconds.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Group, Parameter

from hub.errors import UsageError
from hub.topics import check_prefix
from peers.cli.contexts import DEFAULT_URL, ContextName, HubUrl, TlsFiles, TokenFile, text_or_path
from peers.cli.output import write_file
from peers.cli.texts import FlagError, check_count, check_positive, escaped, examples, show
from peers.spark.archiving.folders import EVERYTHING, Selection
from peers.spark.archiving.state import ArchiveOrder
from peers.spark.connector.options import Access
from peers.spark.findings import (
    TRAFFIC_HEADS,
    Figure,
    Findings,
    amount,
    figures_of,
    page,
    rate,
    remarks,
    span,
    traffic_row,
)
from peers.spark.progress import JobProgress
from peers.spark.session import Job, SessionSettings, check_packages, running_job, stop_event, write_package
from peers.transport.endpoints import Endpoint

if TYPE_CHECKING:
    from peers.spark.archiving.archive import Archived, Tally
    from peers.spark.replay import Replay
    from peers.spark.route import Matcher, Totals

MESSAGES = Group("Messages", sort_key=1)
OUTPUT = Group("Output", sort_key=2)
SPARK = Group("Spark", sort_key=3)
_HOW = Group("Archive", sort_key=2)
_PACE = Group("Pace", sort_key=2)

EXIT_INCOMPLETE = 2


def described(text: str, group: Group = OUTPUT, name: str | None = None) -> Parameter:
    return Parameter(help=text, group=group, name=name)


@Parameter(name="*")
@dataclass(kw_only=True)
class Engine:
    """Where a job runs, and with which settings of Spark."""

    master: Annotated[str, described("Master URL; spark-submit's takes precedence.", SPARK)] = SessionSettings.master
    conf: Annotated[
        list[str] | None,
        described("Setting of Spark, KEY=VALUE, such as spark.driver.memory=4g; repeatable.", SPARK),
    ] = None


def _running(engine: Engine | None, name: str) -> AbstractContextManager[Job]:
    engine, conf = engine or Engine(), {}
    for text in engine.conf or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise FlagError(f"--conf: KEY=VALUE expected, {text!r} given")
        conf[key] = value
    return running_job(SessionSettings(name=f"topichub {name}", master=engine.master, conf=conf))


def access_of(url: str, token_file: str, tls: TlsFiles | None) -> Access:
    files = tls or TlsFiles()
    token, token_path = text_or_path(token_file)
    Endpoint.parse_remote(url)
    return Access(url, token, ca=files.ca, certificate=files.certificate, key=files.key, token_file=token_path)


def prefixes_of(text: str) -> tuple[str, ...]:
    return tuple(check_prefix(prefix.strip()) for prefix in text.split(","))


def check_folder(archive: str) -> None:
    if not Path(archive).exists():
        raise UsageError(f"{archive}: there is no such archive")


def show_figures(figures: Iterable[Figure]) -> None:
    show(("", "unit", "figure"), list(figures), text_columns=(0, 1))


def package(path: Path, /) -> None:
    """Write this project's code as a zip for `spark-submit --py-files`.

    Jobs with --master make and send it by themselves. The Python of the executors needs what the project depends on.
    """
    count = write_package(path)
    show_figures([("files", "files", amount(count)), ("size", "bytes", amount(path.stat().st_size))])


_NAMED = 20
"""Most new columns that are named."""

_SHORTEST = timedelta(milliseconds=100)


def archive(  # noqa: PLR0913 -- one flag each
    *,
    url: HubUrl = DEFAULT_URL,
    context: ContextName = "",  # noqa: ARG001 -- it has become `url` and the files beside it
    token_file: TokenFile = "",
    tls: TlsFiles | None = None,
    topics: Annotated[
        str | None,
        described("Prefixes, separated by commas. Default: all. The topics of an archive cannot be changed.", MESSAGES),
    ] = None,
    start: Annotated[
        str, described("Start of a new archive: earliest, latest or an offset. Others continue.", MESSAGES, "--from")
    ] = "earliest",
    allow_loss: Annotated[
        bool, described("Continue if records were deleted from the journal before they were archived.", MESSAGES)
    ] = False,
    to: Annotated[str, described("Folder of the archive; made if it is absent.", _HOW)],
    every: Annotated[
        timedelta | None,
        described("Run until Ctrl-C, with a batch at this interval, such as 10s. Default: stop at the end.", _HOW),
    ] = None,
    format: Annotated[  # noqa: A002 -- the flag's name
        Literal["parquet", "iceberg"], described("Folders of Parquet files, or an Iceberg table.", _HOW)
    ] = "parquet",
    compact: Annotated[bool, described("Merge small files; not those of an Iceberg table.", _HOW)] = False,
    decode: Annotated[
        bool, described("Write the fields of messages as typed columns, instead of their values.", _HOW)
    ] = False,
    schema: Annotated[
        Path | None,
        described("File with types of some columns, such as query STRING, rtt DOUBLE; others are inferred.", _HOW),
    ] = None,
    event_time: Annotated[
        str, described("Field with the time of a message: its date names the folders, instead of the hub's time.", _HOW)
    ] = "",
    table_by: Annotated[
        str,
        described("A table for each topic, by its first level (root), all levels (topic) or so many levels.", _HOW),
    ] = "",
    max_offsets: Annotated[
        int | None, described("Limit of offsets of one batch. Default: 2,000,000 for Parquet, else 500,000.", _HOW)
    ] = None,
    engine: Engine | None = None,
) -> int:
    """Archive the journal of a hub: each record once, however often the job is stopped or killed and restarted.

    Reads to the end of the journal and ends; exit code 2 if it was stopped before. With --every it continues.
    Only one job at a time can write an archive.
    """
    if every is not None and every < _SHORTEST:
        least_s, given_s = _SHORTEST.total_seconds(), every.total_seconds()
        raise FlagError(f"--every: {least_s:g} s or more expected, {given_s:g} s given")
    check_count("--max-offsets", max_offsets)
    if start not in {"earliest", "latest"} and not (start.isascii() and start.isdigit()):
        raise FlagError(f"--from {start}: give earliest, latest or an offset")
    order = ArchiveOrder(
        access=access_of(url, token_file, tls),
        path=to.rstrip("/") or "/",
        topics=None if topics is None else prefixes_of(topics),
        starting=start,
        every_s=None if every is None else every.total_seconds(),
        format=format,
        compact=compact,
        max_offsets=max_offsets,
        decode=decode,
        schema="" if schema is None else _schema(schema),
        event_time=event_time,
        table_by=_table_levels(table_by),
        lossy=allow_loss,
    )
    order.check()
    _meet(order)
    with _running(engine, "archive") as job:
        from peers.spark.archiving.archive import archive as run  # noqa: PLC0415 -- Spark is loaded when a job runs

        def advance(tally: Tally) -> None:
            if tally.first is not None:
                job.progress.advance(tally.next - tally.first, max(tally.head, tally.next) - tally.first)

        job.progress.step("archiving")
        with stop_event() as stop:
            done = run(job, order, advance, stop)
    _show_archived(done)
    return EXIT_INCOMPLETE if done.stopped and order.every_s is None else 0


def _table_levels(text: str) -> int | None:
    """Return how many levels of a topic name a table, 0 for all; None without tables."""
    if not text:
        return None
    levels = {"topic": "0", "root": "1"}.get(text, text)
    if text == "0" or not re.fullmatch("0|[1-9][0-9]?", levels):
        raise FlagError(f"--table-by {text}: root, topic or 1 to 99 levels expected")
    return int(levels)


def _schema(path: Path) -> str:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    if not text.strip():
        raise UsageError(f"{path}: it is empty")
    return text


def _meet(order: ArchiveOrder) -> None:
    """Check that the hub is there before Java is started; a continuous job waits for it."""
    from peers.spark.connector.connection import ask_journal, wait_journal  # noqa: PLC0415 -- only where a job runs

    if order.every_s is None:
        ask_journal(order.access)
    else:
        wait_journal(order.access, lambda error: print(f"hub: {escaped(str(error))}; waiting for it", file=sys.stderr))


def _show_archived(done: Archived) -> None:
    tally, decoded = done.tally, done.decoded
    rows: list[Figure] = [
        ("messages", "messages", amount(tally.messages)),
        ("batches", "batches", amount(tally.batches)),
        ("from", "offset", "" if tally.first is None else amount(tally.first)),
        ("to", "offset", amount(tally.next)),
        ("left in the hub", "offsets", amount(max(0, tally.head - tally.next))),
        ("files merged", "files", amount(done.compacted.merged)),
        ("elapsed", "s", f"{done.elapsed_s:.1f}"),
        ("archived", "messages/s", rate(tally.messages, done.elapsed_s)),
    ]
    if decoded is None:
        show_figures(rows)
        return
    rows += [
        ("new columns", "columns", amount(len(decoded.added))),
        ("wider columns", "columns", amount(len(decoded.widened))),
        ("not all of it in columns, see _rest", "messages", amount(decoded.rest)),
        ("without event time", "messages", amount(decoded.undated)),
    ]
    show_figures(rows)
    for kind, columns in (("new columns", decoded.added), ("wider columns", decoded.widened)):
        if columns:
            print(escaped(f"* {kind}: {', '.join(columns[:_NAMED])}{' and more' if len(columns) > _NAMED else ''}"))


Start = Annotated[datetime | None, described("Only messages from this time on; UTC unless a zone is given.", MESSAGES)]
End = Annotated[datetime | None, described("Only messages before this time.", MESSAGES)]


def replay(  # noqa: PLR0913 -- one flag each
    archive: str,
    /,
    *,
    url: HubUrl = DEFAULT_URL,
    context: ContextName = "",  # noqa: ARG001 -- it has become `url` and the files beside it
    token_file: TokenFile = "",
    tls: TlsFiles | None = None,
    topics: Annotated[str | None, described("Prefixes, separated by commas. Default: all.", MESSAGES)] = None,
    start: Start = None,
    end: End = None,
    from_offset: Annotated[int, described("First offset, to continue a replay that was interrupted.", MESSAGES)] = 0,
    speed: Annotated[float | None, described("Multiple of the recorded pace. Default: 1.", _PACE)] = None,
    full_speed: Annotated[bool, described("As fast as the hub accepts them.", _PACE)] = False,
    rate: Annotated[float | None, described("Messages a second, evenly spaced.", _PACE)] = None,
    max_pause: Annotated[
        timedelta, described("Longest pause with --speed; longer ones are shortened.", _PACE)
    ] = timedelta(seconds=60),
) -> int:
    """Publish an archive to a hub, in the order of its offsets.

    Exit code 2 if it is interrupted; a line on standard error has the offset to continue from.
    """
    selection = Selection(() if topics is None else prefixes_of(topics), start, end).check()
    if sum((full_speed, rate is not None, speed is not None)) > 1:
        raise FlagError("--speed, --full-speed and --rate exclude each other")
    check_positive("--speed", speed, hint="1 is as recorded")
    check_positive("--rate", rate, "messages a second")
    check_positive("--max-pause", max_pause.total_seconds(), "seconds")
    access = access_of(url, token_file, tls)
    check_folder(archive)
    check_packages("numpy", "pyarrow")
    from peers.spark.replay import Pace  # noqa: PLC0415 -- an extra
    from peers.spark.replay import replay as run  # noqa: PLC0415 -- the same

    pace = Pace(speed=None if full_speed else speed or 1.0, rate=rate, max_pause_s=max_pause.total_seconds())
    with JobProgress() as progress, stop_event() as stop:
        progress.step("publishing")
        done = run(
            access,
            archive,
            selection,
            from_offset=from_offset,
            pace=pace,
            every=lambda done: _advance(progress, done),
            stop=stop,
        )
    _show_replayed(done)
    return EXIT_INCOMPLETE if done.ending else 0


def _advance(progress: JobProgress, done: Replay) -> None:
    progress.advance(done.next - done.first, done.last + 1 - done.first)


def _show_replayed(done: Replay) -> None:
    show_figures(
        [
            ("published", "messages", amount(done.messages)),
            ("published", "bytes", amount(done.bytes)),
            ("rejected by the hub", "messages", amount(done.rejected)),
            ("left out, no msgpack", "messages", amount(done.skipped)),
            ("from", "offset", amount(done.first)),
            ("to", "offset", amount(done.next)),
            ("elapsed", "s", f"{done.elapsed_s:.1f}"),
            ("published", "messages/s", rate(done.messages, done.elapsed_s)),
        ]
    )
    if done.ending:
        print(f"stopped: {done.ending}; continue with --from-offset {done.next}", file=sys.stderr)


_SHORTEST_GAP_US = 1_000

_SHOWN_ROWS = 20
_SHOWN_COLUMNS = 4
"""Of a table of topics on the terminal."""


def report(  # noqa: PLR0913 -- one flag each
    archive: str,
    /,
    *,
    prefix: Annotated[list[str] | None, described("Only topics with this prefix; repeatable.", MESSAGES)] = None,
    start: Start = None,
    end: End = None,
    html: Annotated[Path | None, described("Write a page with figures and drawings to this file.")] = None,
    gap: Annotated[timedelta, described("Report periods longer than this without a message of a root.")] = timedelta(
        minutes=1
    ),
    top: Annotated[int, described("Number of topics listed, those with the most messages, and bytes.")] = 10,
    engine: Engine | None = None,
) -> None:
    """Summarise an archive: messages by topic and time, gaps, absent offsets."""
    selection = Selection(tuple(prefix or ()), start, end).check()
    gap_us = gap // timedelta(microseconds=1)
    if gap_us < _SHORTEST_GAP_US:
        raise FlagError(f"--gap: {span(_SHORTEST_GAP_US)} or more expected, {span(gap_us)} given")
    check_count("--top", top)
    check_folder(archive)
    with _running(engine, "report") as job:
        from peers.spark.survey import Questions, survey  # noqa: PLC0415 -- Spark is loaded when a job runs

        begun = time.monotonic()
        questions = Questions(selection=selection, gap_us=gap_us, top=top)
        findings = survey(job.spark, archive, questions, job.progress)
    _show_findings(findings, time.monotonic() - begun)
    if html is not None:
        write_file(html, page(findings).encode())


def _show_findings(findings: Findings, elapsed_s: float) -> None:
    messages = findings.total.messages
    own = [("elapsed", "s", f"{elapsed_s:.1f}"), ("surveyed", "messages/s", rate(messages, elapsed_s))]
    show_figures([*figures_of(findings), *own])
    for head, found in (("root", findings.roots), ("topic", findings.by_messages)):
        print()
        rows = [traffic_row(traffic)[:_SHOWN_COLUMNS] for traffic in found]
        show((head, *TRAFFIC_HEADS)[:_SHOWN_COLUMNS], rows, most=_SHOWN_ROWS)
    for remark in remarks(findings):
        print(f"* {remark}")


def route(  # noqa: PLR0913 -- one flag each
    archive: str,
    subscriptions: Path,
    /,
    *,
    counts: Annotated[Path | None, described("Write messages and bytes of each subscriber to this CSV file.")] = None,
    deliveries: Annotated[
        str | None, described("Write offset and subscribers of each message to this new folder, as Parquet.")
    ] = None,
    top: Annotated[int, described("Number of subscribers in the table, those with the most messages.")] = 20,
    engine: Engine | None = None,
) -> None:
    """Show which subscriber would get which message of an archive, by the hub's own matching.

    SUBSCRIPTIONS is CSV with the header name,prefix or NDJSON with these fields. A subscriber may have several prefixes
    and gets each message once. In deliveries, subscribers are numbers; _subscribers in their folder has the names.
    """
    check_packages("numpy", "pyarrow")
    from peers.spark.route import Matcher, count, read_subscriptions, write_deliveries  # noqa: PLC0415 -- an extra

    matcher = Matcher(read_subscriptions(subscriptions))
    check_folder(archive)
    with _running(engine, "route") as job:
        from peers.spark.scan import Scan  # noqa: PLC0415 -- Spark is loaded when a job runs

        begun = time.monotonic()
        job.progress.step("counting")
        scan = Scan(job.spark, archive, EVERYTHING)
        totals = count(scan, matcher)
        if deliveries is not None:
            job.progress.step("writing deliveries")
            write_deliveries(scan, matcher, deliveries)
    _show_routes(matcher, totals, time.monotonic() - begun, top)
    if counts is not None:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(("number", "name", "messages", "bytes"))
        writer.writerows(zip(range(len(matcher.names)), matcher.names, totals.messages, totals.bytes, strict=True))
        write_file(counts, text.getvalue().encode())


def _show_routes(matcher: Matcher, totals: Totals, elapsed_s: float, top: int) -> None:
    messages = totals.all_messages
    show_figures(
        [
            ("messages", "messages", amount(messages)),
            ("without a subscriber", "messages", amount(messages - totals.wanted)),
            ("deliveries", "deliveries", amount(totals.delivered)),
            ("delivered", "bytes", amount(sum(totals.bytes))),
            ("subscribers", "subscribers", amount(len(matcher.names))),
            ("prefixes", "prefixes", amount(len(matcher.prefixes))),
            ("elapsed", "s", f"{elapsed_s:.1f}"),
            ("matched", "messages/s", rate(messages, elapsed_s)),
        ]
    )
    print()
    most = sorted(range(len(matcher.names)), key=lambda number: (-totals.messages[number], matcher.names[number]))
    rows = [(matcher.names[n], amount(totals.messages[n]), amount(totals.bytes[n])) for n in most[: max(0, top)]]
    show(("subscriber", "messages", "bytes"), rows)
    if len(most) > len(rows):
        print(f"and {len(most) - len(rows):,} more")


app = App(
    name="spark",
    help="Process archives with Apache Spark, here or on a cluster.",
    help_epilogue=examples(
        "hub spark archive --url tcp://127.0.0.1:7400 --to archive", "hub spark report archive --html report.html"
    ),
)
app.command(archive, name="archive", help="Archive the journal of a hub, each record once.")
app.command(replay, name="replay", help="Publish an archive to a hub, in order and at a pace.")
app.command(package, name="package", help="Write this project's code as a zip for spark-submit --py-files.")
app.command(report, name="report", help="Summarise an archive: messages by topic and time, gaps, absent offsets.")
app.command(
    route,
    name="route",
    help="Show which subscriber would get which message of an archive, by the hub's own matching.",
)
