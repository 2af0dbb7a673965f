"""`hub spark`: jobs on archives, run by Apache Spark. Here are `archive` and the options that all jobs share.

Everything that can be checked is checked before Spark is loaded and Java started, which takes seconds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Group, Parameter

from hub.consumers.consumer import NAME_PATTERN
from hub.errors import UsageError
from hub.topics import check_prefix
from peers.cli.contexts import ContextName
from peers.cli.flag_values import FlagError, check_count
from peers.cli.texts import escaped, examples, show
from peers.cli.url import DEFAULT_URL, HubUrl, TlsFiles, TokenFile, text_or_path
from peers.spark.archiving.state import ArchiveOrder
from peers.spark.connector.options import Access
from peers.spark.package import write_package
from peers.spark.session import Job, SessionSettings, running_job
from peers.spark.signals import stop_event
from peers.spark.summary import Figure, amount, rate
from peers.transport.endpoints import Endpoint

if TYPE_CHECKING:
    from peers.spark.archiving.archive import Archived, Tally
    from peers.spark.progress import JobProgress


MESSAGES = Group("Messages", sort_key=1)
OUTPUT = Group("Output", sort_key=2)
SPARK = Group("Spark", sort_key=3)

EXIT_INCOMPLETE = 2
"""The job ended before everything was done."""


def described(text: str, group: Group = OUTPUT, name: str | None = None) -> Parameter:
    """Return the help of an option, in the group under which it is listed."""
    return Parameter(help=text, group=group, name=name, negative=(), negative_iterable=())


@Parameter(name="*")
@dataclass(kw_only=True)
class Engine:
    """Where a job runs, and with which settings of Spark."""

    master: Annotated[str, described("Master URL; spark-submit's takes precedence.", SPARK)] = SessionSettings.master
    conf: Annotated[
        list[str] | None,
        described("Setting of Spark, KEY=VALUE, such as spark.driver.memory=4g; repeatable.", SPARK),
    ] = None

    def running(self, name: str) -> AbstractContextManager[Job]:
        """Return the context of a job; see `running_job`."""
        conf = dict(map(_setting, self.conf or ()))
        return running_job(SessionSettings(name=f"topichub {name}", master=self.master, conf=conf))


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise FlagError(f"--conf: KEY=VALUE expected, {text!r} given")
    return key, value


def access_of(url: str, token_file: str, tls: TlsFiles | None) -> Access:
    """Return how a job reaches its hub."""
    files = tls or TlsFiles()
    token, token_path = text_or_path(token_file)
    Endpoint.parse_remote(url)
    return Access(url, token, ca=files.ca, certificate=files.certificate, key=files.key, token_file=token_path)


def prefixes_of(text: str) -> tuple[str, ...]:
    """Return the prefixes in a list with commas."""
    return tuple(check_prefix(prefix.strip()) for prefix in text.split(","))


def check_folder(archive: str) -> None:
    """Check that there is an archive."""
    if not Path(archive).exists():
        raise UsageError(f"{archive}: there is no such archive")


def show_figures(figures: Iterable[Figure]) -> None:
    """Print figures with their units."""
    show(("", "unit", "figure"), list(figures), text_columns=(0, 1))


def package(path: Path, /) -> None:
    """Write this project's code as a zip for `spark-submit --py-files`.

    Jobs with --master make and send it by themselves. The Python of the executors needs what the project depends on.
    """
    count = write_package(path)
    show_figures([("files", "files", amount(count)), ("size", "bytes", amount(path.stat().st_size))])


_HOW = Group("Archive", sort_key=2)

# Most new columns that are named.
_NAMED = 20

_SHORTEST = timedelta(milliseconds=100)


@Parameter(name="*")
@dataclass(kw_only=True)
class What:
    """Which messages are archived."""

    topics: Annotated[
        str | None,
        described("Prefixes, separated by commas. Default: all. The topics of an archive cannot be changed.", MESSAGES),
    ] = None
    start: Annotated[
        str, described("Start of a new archive: earliest, latest or an offset. Others continue.", MESSAGES, "--from")
    ] = "earliest"
    allow_loss: Annotated[
        bool, described("Continue if records were deleted from the journal before they were archived.", MESSAGES)
    ] = False

    def check(self) -> None:
        """Check the options."""
        if self.start not in {"earliest", "latest"} and not (self.start.isascii() and self.start.isdigit()):
            raise FlagError(f"--from {self.start}: give earliest, latest or an offset")


@Parameter(name="*")
@dataclass(kw_only=True)
class How:
    """How messages are archived."""

    every: Annotated[
        timedelta | None,
        described("Run until Ctrl-C, with a batch at this interval, such as 10s. Default: stop at the end.", _HOW),
    ] = None
    format: Annotated[
        Literal["parquet", "iceberg"], described("Folders of Parquet files, or an Iceberg table.", _HOW)
    ] = "parquet"
    compact: Annotated[bool, described("Merge small files; not those of an Iceberg table.", _HOW)] = False
    decode: Annotated[
        bool, described("Write the fields of messages as typed columns, instead of their values.", _HOW)
    ] = False
    schema: Annotated[
        Path | None,
        described("File with types of some columns, such as query STRING, rtt DOUBLE; others are inferred.", _HOW),
    ] = None
    event_time: Annotated[
        str, described("Field with the time of a message: its date names the folders, instead of the hub's time.", _HOW)
    ] = ""
    table_by: Annotated[
        str,
        described("A table for each topic, by its first level (root), all levels (topic) or so many levels.", _HOW),
    ] = ""
    max_offsets: Annotated[
        int | None, described("Limit of offsets of one batch. Default: 2,000,000 for Parquet, else 500,000.", _HOW)
    ] = None
    consumer: Annotated[
        str,
        described("Report the position to the hub under this name; `hub journal consumers` shows it.", _HOW),
    ] = ""

    def check(self) -> None:
        """Check the options."""
        if not self.decode and (self.schema is not None or self.event_time):
            raise FlagError("--schema, --event-time: --decode is needed, too")
        if self.compact and self.format == "iceberg":
            raise FlagError("--compact: PyIceberg cannot merge the files of a table")
        if self.consumer and not re.fullmatch(NAME_PATTERN, self.consumer):
            raise FlagError(f"--consumer {self.consumer}: 1 to 128 letters, digits, and of _ . : - all but the first")
        if self.every is not None and self.every < _SHORTEST:
            least_s, given_s = _SHORTEST.total_seconds(), self.every.total_seconds()
            raise FlagError(f"--every: {least_s:g} s or more expected, {given_s:g} s given")
        check_count("--max-offsets", self.max_offsets)

    def table_levels(self) -> int | None:
        """Return how many levels of a topic name a table, 0 for all; None without tables."""
        if not self.table_by:
            return None
        levels = {"topic": "0", "root": "1"}.get(self.table_by, self.table_by)
        if self.table_by == "0" or not re.fullmatch("0|[1-9][0-9]?", levels):
            raise FlagError(f"--table-by {self.table_by}: root, topic or 1 to 99 levels expected")
        return int(levels)

    def columns(self) -> str:
        """Return the text of the file with the columns, empty without one."""
        if self.schema is None:
            return ""
        try:
            text = self.schema.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.schema}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
        if not text.strip():
            raise UsageError(f"{self.schema}: it is empty")
        return text


def archive(  # noqa: PLR0913 -- one group of flags each
    *,
    url: HubUrl = DEFAULT_URL,
    context: ContextName = "",  # noqa: ARG001 -- it has become `url` and what is shown there
    to: Annotated[str, described("Folder of the archive; made if it is absent.", _HOW)],
    what: What | None = None,
    how: How | None = None,
    engine: Engine | None = None,
    token_file: TokenFile = "",
    tls: TlsFiles | None = None,
) -> int:
    """Archive the journal of a hub: each record once, however often the job is stopped or killed and restarted.

    Reads to the end of the journal and ends; exit code 2 if it was stopped before. With --every it continues.
    Only one job at a time can write an archive.
    """
    what, how = what or What(), how or How()
    how.check()
    what.check()
    order = ArchiveOrder(
        access=access_of(url, token_file, tls),
        path=to.rstrip("/") or "/",
        topics=None if what.topics is None else prefixes_of(what.topics),
        starting=what.start,
        every_s=None if how.every is None else how.every.total_seconds(),
        format=how.format,
        compact=how.compact,
        max_offsets=how.max_offsets,
        decode=how.decode,
        schema=how.columns(),
        event_time=how.event_time,
        table_by=how.table_levels(),
        lossy=what.allow_loss,
        consumer=how.consumer,
    )
    _meet(order)
    with (engine or Engine()).running("archive") as job:
        from peers.spark.archiving.archive import archive as run  # noqa: PLC0415 -- Spark is loaded when a job runs

        job.progress.step("archiving")
        with stop_event() as stop:
            done = run(job, order, lambda tally: _advance(job.progress, tally), stop)
    _show(done)
    return EXIT_INCOMPLETE if done.stopped and order.every_s is None else 0


def _meet(order: ArchiveOrder) -> None:
    """Check that the hub is there before Java is started; a continuous job waits for it."""
    from peers.spark.connector.connection import ask_journal, wait_journal  # noqa: PLC0415 -- only where a job runs

    if order.every_s is None:
        ask_journal(order.access)
    else:
        wait_journal(order.access, lambda error: print(f"hub: {escaped(str(error))}; waiting for it", file=sys.stderr))


def _advance(progress: JobProgress, tally: Tally) -> None:
    if tally.first is not None:
        progress.advance(tally.next - tally.first, max(tally.head, tally.next) - tally.first)


def _show(done: Archived) -> None:
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
    for what, columns in (("new columns", decoded.added), ("wider columns", decoded.widened)):
        if columns:
            print(escaped(f"* {what}: {', '.join(columns[:_NAMED])}{' and more' if len(columns) > _NAMED else ''}"))


app = App(
    name="spark",
    help="Process archives with Apache Spark, here or on a cluster.",
    help_epilogue=examples(
        "hub spark archive --url tcp://127.0.0.1:7400 --to archive", "hub spark report archive --html report.html"
    ),
)
app.command(archive, name="archive", help="Archive the journal of a hub, each record once.")
app.command("peers.cli.spark_jobs:replay", name="replay", help="Publish an archive to a hub, in order and at a pace.")
app.command(
    package,
    name="package",
    help="Write this project's code as a zip for spark-submit --py-files.",
)
app.command(
    "peers.cli.spark_jobs:report",
    name="report",
    help="Summarise an archive: messages by topic and time, gaps, absent offsets.",
)
app.command(
    "peers.cli.spark_jobs:route",
    name="route",
    help="Show which subscriber would get which message of an archive, by the hub's own matching.",
)
