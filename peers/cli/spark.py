"""`hub spark`: jobs on archives, run by Apache Spark. Here are `archive` and what all jobs share.

Here are the options and the output of the jobs; what they do is in `peers.spark`. Invariant: whatever can be checked is
checked before Spark is loaded and Java started, which takes seconds.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Group, Parameter

from hub.consumers.terms import NAME_PATTERN
from hub.errors import UsageError
from hub.topics import check_prefix
from peers.cli.contexts import ContextName
from peers.cli.flag_values import FlagError, check_count
from peers.cli.texts import escaped, examples
from peers.cli.url import DEFAULT_URL, HubUrl, TlsFiles, TokenFile, text_or_path
from peers.spark.archiving.state import ArchiveOrder
from peers.spark.connector.options import Access
from peers.spark.package import write_package
from peers.spark.session import Job, SessionSettings, running_job
from peers.spark.stopping import signals_told
from peers.spark.summary import Figure, amount, figures, rate, show
from peers.transport.endpoints import Endpoint

if TYPE_CHECKING:
    from peers.spark.archiving.archive import Archived
    from peers.spark.archiving.watch import Tally
    from peers.spark.progress import JobProgress


MESSAGES = Group("Messages", sort_key=1)
OUTPUT = Group("Output", sort_key=2)
SPARK = Group("Spark", sort_key=3)


def described(text: str, group: Group = OUTPUT) -> Parameter:
    """Return the help of an option, in the group under which it is listed."""
    return Parameter(help=text, group=group, negative_iterable=())


@Parameter(name="*")
@dataclass(kw_only=True)
class Engine:
    """The options that say where a job runs, and with which settings of Spark."""

    master: Annotated[str, described("Master URL; spark-submit's own wins.", SPARK)] = SessionSettings.master
    driver_memory: Annotated[
        str, described("Java heap of the driver, such as 4g; with --master local[*] there is no other.", SPARK)
    ] = SessionSettings.driver_memory
    shuffle_partitions: Annotated[int, described("Tasks behind a shuffle; 0: by what there is to read.", SPARK)] = (
        SessionSettings.shuffle_partitions
    )
    conf: Annotated[list[str] | None, described("Further setting of Spark, KEY=VALUE; repeatable.", SPARK)] = None
    verbose: Annotated[
        bool, described("Where a job fails, show all that Spark said of it; else it is in a file.", SPARK)
    ] = False
    progress: Annotated[bool, described("Show a progress bar, where standard error is a terminal.")] = True

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
        return running_job(settings, shown=self.progress, verbose=self.verbose)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise FlagError(f"--conf: KEY=VALUE expected, {text!r} given")
    return key, value


def read_text(path: Path) -> str:
    """Read a text that is not empty from a file.

    Raises:
        UsageError: It cannot be read, or is empty.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    if not text.strip():
        raise UsageError(f"{path}: it is empty")
    return text


def check_folder(archive: str) -> None:
    """See to it that an archive is there before Java is started, where it is a folder of this machine.

    Raises:
        UsageError: It is not.
    """
    if "://" not in archive and not Path(archive).exists():
        raise UsageError(f"{archive}: there is no such archive")


def write_csv(path: Path, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table to a file, and make the folder for it.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(heads)
            writer.writerows(rows)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def package(path: Path, /) -> None:
    """Write this project's code as a zip for `spark-submit --py-files`.

    Jobs with --master make and send it by themselves. The Python of the executors needs what the project depends on.
    """
    count = write_package(path)
    show(figures([("files", "files", amount(count)), ("size", "bytes", amount(path.stat().st_size))]))


EXIT_INCOMPLETE = 2
"""The job was stopped before the end."""

_WHAT = Group("Messages", sort_key=1)
_HOW = Group("Archive", sort_key=2)

_NAMED = 20
"""Most columns that are named when they are new."""

_SHORTEST = timedelta(milliseconds=100)


def _help(text: str, group: Group = _HOW, name: str | None = None) -> Parameter:
    return Parameter(help=text, group=group, name=name, negative=())


@Parameter(name="*")
@dataclass(kw_only=True)
class What:
    """The options that say which messages are archived."""

    topics: Annotated[
        str | None, _help("Prefixes, separated by commas; all without it. An archive keeps to its topics.", _WHAT)
    ] = None
    start: Annotated[
        str, _help("Where a new archive begins: earliest, latest or an offset. Others go on.", _WHAT, "--from")
    ] = "earliest"
    allow_loss: Annotated[
        bool, _help("Go on where records were deleted from the journal before they were archived.", _WHAT)
    ] = False

    def check(self) -> None:
        """Check what can be checked before Java is started, which takes seconds.

        Raises:
            FlagError: `--from` names no place in a journal.
        """
        if self.start not in {"earliest", "latest"} and not (self.start.isascii() and self.start.isdigit()):
            raise FlagError(f"--from {self.start}: give earliest, latest or an offset")


@Parameter(name="*")
@dataclass(kw_only=True)
class How:
    """The options that say how messages are archived."""

    every: Annotated[
        timedelta | None, _help("Go on until Ctrl-C, with a batch each so often, such as 10s; else end at the end.")
    ] = None
    format: Annotated[Literal["parquet", "iceberg"], _help("Folders of Parquet files, or an Iceberg table.")] = (
        "parquet"
    )
    compact: Annotated[bool, _help("Merge small files; not those of an Iceberg table.")] = False
    decode: Annotated[bool, _help("Make typed columns of the fields of messages, in place of their values.")] = False
    schema: Annotated[
        Path | None, _help("File with types of single columns, such as query STRING, rtt DOUBLE; others are looked up.")
    ] = None
    event_time: Annotated[
        str, _help("Field with the time of a message: its date names the folders, in place of the hub's.")
    ] = ""
    table_by: Annotated[
        str, _help("A table for each topic: by its first level (root), by all (topic), or by so many, such as 2.")
    ] = ""
    max_offsets: Annotated[
        int | None, _help("Offsets of one batch, at most; default 2,000,000 for Parquet, else 500,000.")
    ] = None
    consumer: Annotated[
        str, _help("Tell the hub under this name how far the archive is, as `hub journal consumers` shows it.")
    ] = ""

    def check(self) -> None:
        """Check what can be checked before Java is started.

        Raises:
            FlagError: A flag has no meaning beside the others.
        """
        if not self.decode and (self.schema is not None or self.event_time):
            raise FlagError("--schema, --event-time: --decode is needed, too")
        if self.compact and self.format == "iceberg":
            raise FlagError("--compact: PyIceberg cannot merge the files of a table")
        if self.consumer and not re.fullmatch(NAME_PATTERN, self.consumer):
            raise FlagError(f"--consumer {self.consumer}: 1 to 128 letters, digits, and of _ . : - all but the first")

    def table_levels(self) -> int | None:
        """Return how many levels of a topic name a table, 0 for all; None where it is not said.

        Raises:
            FlagError: It is neither a number nor one of the two words.
        """
        if not self.table_by:
            return None
        levels = {"topic": "0", "root": "1"}.get(self.table_by, self.table_by)
        if self.table_by == "0" or not re.fullmatch("0|[1-9][0-9]?", levels):
            raise FlagError(f"--table-by {self.table_by}: root, topic or 1 to 99 levels expected")
        return int(levels)

    def columns(self) -> str:
        """Return the text of the file with the columns, empty without one.

        Raises:
            UsageError: It cannot be read, or is empty.
        """
        return "" if self.schema is None else read_text(self.schema)


def archive(  # noqa: PLR0913 -- one group of flags each
    *,
    url: HubUrl = DEFAULT_URL,
    context: ContextName = "",  # noqa: ARG001 -- it has become `url` and what is shown there
    to: Annotated[str, _help("Folder of the archive; made if it is absent.")],
    what: What | None = None,
    how: How | None = None,
    engine: Engine | None = None,
    token_file: TokenFile = "",
    tls: TlsFiles | None = None,
) -> int:
    """Archive what a hub records, each record once, however often this is stopped or killed and started again.

    It reads what is there and ends, with exit code 2 if it was stopped before; with --every it goes on.
    One job at a time writes an archive.
    """
    what, how, files = what or What(), how or How(), tls or TlsFiles()
    how.check()
    topics = None if what.topics is None else _prefixes(what.topics)
    every_s = _every_s(how.every)
    what.check()
    check_count("--max-offsets", how.max_offsets)
    schema, table_by = how.columns(), how.table_levels()
    token, token_path = text_or_path(token_file)
    Endpoint.parse_remote(url)
    _meet(Access(url, token, ca=files.ca, certificate=files.certificate, key=files.key, token_file=token_path), every_s)
    with (engine or Engine()).running("archive") as job:
        from peers.spark.archiving.archive import archive as run  # noqa: PLC0415 -- Spark is loaded when a job runs

        order = ArchiveOrder(
            url=url,
            path=to.rstrip("/") or "/",
            topics=topics,
            starting=what.start,
            every_s=every_s,
            format=how.format,
            compact=how.compact,
            max_offsets=how.max_offsets,
            decode=how.decode,
            schema=schema,
            event_time=how.event_time,
            table_by=table_by,
            lossy=what.allow_loss,
            consumer=how.consumer,
            token=token,
            token_file=token_path,
            ca=files.ca,
            certificate=files.certificate,
            key=files.key,
        )
        job.progress.tell("archiving")
        with signals_told() as stop:
            done = run(job, order, lambda tally: _advance(job.progress, tally), stop)
    _show(done)
    return EXIT_INCOMPLETE if done.stopped and every_s is None else 0


def _meet(access: Access, every_s: float | None) -> None:
    """See to it that the hub is there before Java is started; a job that goes on for good waits for it."""
    from peers.spark.presence import check_journal, wait_journal  # noqa: PLC0415 -- a client; only where a job runs

    if every_s is None:
        check_journal(access)
    else:
        wait_journal(access, lambda error: print(f"hub: {escaped(str(error))}; waiting for it", file=sys.stderr))


def _prefixes(text: str) -> tuple[str, ...]:
    return tuple(check_prefix(prefix.strip()) for prefix in text.split(","))


def _every_s(every: timedelta | None) -> float | None:
    if every is None:
        return None
    if every < _SHORTEST:
        raise FlagError(f"--every: {_SHORTEST.total_seconds():g} s or more expected, {every.total_seconds():g} s given")
    return every.total_seconds()


def _advance(progress: JobProgress, tally: Tally) -> None:
    if tally.first is not None:
        progress.advance(tally.next - tally.first, max(tally.head, tally.next) - tally.first)


def _show(done: Archived) -> None:
    tally = done.tally
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
    show(figures([*rows, *_decoded(done)]))
    if done.decoded is not None:
        for what, columns in (("new columns", done.decoded.added), ("wider columns", done.decoded.widened)):
            if columns:
                show(escaped(f"* {what}: {', '.join(columns[:_NAMED])}{' and more' if len(columns) > _NAMED else ''}"))


def _decoded(done: Archived) -> list[Figure]:
    if done.decoded is None:
        return []
    return [
        ("new columns", "columns", amount(len(done.decoded.added))),
        ("wider columns", "columns", amount(len(done.decoded.widened))),
        ("not all of it in columns, see _rest", "messages", amount(done.decoded.rest)),
        ("without event time", "messages", amount(done.decoded.undated)),
    ]


app = App(
    name="spark",
    help="Process archives with Apache Spark, here or on a cluster.",
    help_epilogue=examples(
        "hub spark archive --url tcp://127.0.0.1:7400 --to archive", "hub spark report archive --html report.html"
    ),
)
app.command(archive, name="archive", help="Archive what a hub records, each record once.")
app.command("peers.cli.spark_jobs:replay", name="replay", help="Publish an archive to a hub, in order and at a pace.")
app.command(
    package,
    name="package",
    help="Write this project's code as a zip for spark-submit --py-files.",
)
app.command(
    "peers.cli.spark_jobs:report",
    name="report",
    help="Tell what an archive holds: who sent how much and when, gaps, absent offsets.",
)
app.command(
    "peers.cli.spark_jobs:route",
    name="route",
    help="Tell which subscriber would get which message of an archive, by the hub's own matching.",
)
