"""A Spark session with the settings that the hub's jobs need, and the context that a command runs in.

```
with running_job(SessionSettings(master="local[*]")) as job:      a bar from the first moment on, and errors that
    frame = read_archive(job.spark, path)                          people can read; the session is stopped at the end
    job.progress.tell("counting")
```

What is set, and why, stands at `session_conf`. Under `spark-submit`, and where a session exists already, its master,
memory and logs are its owner's; only what the jobs rely on (UTC, microseconds) is set.

Owner of the state: Spark keeps one session a process. Cost: a local session takes 3 to 6 s to start, most of it Java's.
Not here: what is done with the session.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from peers.spark.ending import held_back, orderly_ends
from peers.spark.failure import JobFailedError, cause_of, last_words, spark_errors
from peers.spark.java import SparkUnavailableError, check_java
from peers.spark.package import write_package
from peers.spark.progress import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "SHUFFLE_BYTES",
    "SHUFFLE_LIMIT",
    "Job",
    "SessionSettings",
    "open_session",
    "resolved_master",
    "running_job",
    "session_conf",
    "shuffle_partitions",
]

_LOOPBACK = "127.0.0.1"

_TRIES = 4
"""How often a task is tried before its job fails: what Spark does on clusters; a plain `local[N]` tries once."""

SHUFFLE_BYTES = 32 * 1024 * 1024
"""Of Parquet that is read, for each task behind a shuffle. The jobs shuffle sums, which are smaller by far; each task
costs some ms, on a cluster some ten."""

SHUFFLE_LIMIT = 10_000
"""Tasks: 320 GB of Parquet. Beyond it, tasks are larger."""

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

_LOCAL = re.compile(r"local(?:\[(\*|[0-9]+)\])?")
_ANY_LOCAL = re.compile(r"local(?:\[.*\])?")

_SQL = {
    "spark.sql.session.timeZone": "UTC",  # else the dates of partitions follow the zone of the machine
    "spark.sql.python.filterPushdown.enabled": "true",  # else the hub sends what a filter then throws away
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # else INT96, which other tools refuse
}
"""What the jobs rely on; can be set on a session that runs."""

_QUIET = {
    "spark.ui.showConsoleProgress": "false",  # it would draw into our own bar
    "spark.log.level": "ERROR",
}

_LOOPBACK_ONLY = {
    "spark.driver.bindAddress": _LOOPBACK,  # else it listens on the address of the network
    "spark.driver.host": _LOOPBACK,
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """Where a job runs, and with what."""

    name: str = "topichub"
    """How it is called on a cluster's pages."""
    master: str = "local[*]"
    """A master URL of Spark."""
    driver_memory: str = "1g"
    """Java heap of the driver, which in local mode is all there is; in Java's notation."""
    shuffle_partitions: int = 0
    """Tasks behind a shuffle; with 0, jobs that know what they read size it by that (`Job.size_shuffles`), others have
    twice the cores in local mode and Spark's own default on a cluster."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Spark; they win."""


class Job(NamedTuple):
    """What a command works with."""

    spark: SparkSession
    progress: JobProgress
    sizes: bool = False
    """Whether it may say how many tasks a shuffle has: the session is its own, and nobody else has said it."""

    def size_shuffles(self, frame: DataFrame) -> None:
        """Have as many tasks behind a shuffle as what is to be read asks for."""
        if self.sizes:
            self.spark.conf.set(_SHUFFLE_PARTITIONS, str(shuffle_partitions(_size_bytes(frame))))


def shuffle_partitions(size_bytes: int) -> int:
    """Return how many tasks there should be behind a shuffle of what so many bytes of Parquet hold."""
    return max(1, min(-(-size_bytes // SHUFFLE_BYTES), SHUFFLE_LIMIT))


def _size_bytes(frame: DataFrame) -> int:
    """Return how large Spark takes what is to be read for: the sizes of its files."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))  # noqa: SLF001 -- no other door


def resolved_master(master: str) -> str:
    """Return a master URL under which tasks are tried again in local mode, too."""
    found = _LOCAL.fullmatch(master)
    return master if found is None else f"local[{found[1] or 1},{_TRIES}]"


def session_conf(settings: SessionSettings, cores: int) -> dict[str, str]:
    """Return the settings of Spark for a session that is to be started.

    Args:
        settings: What was asked for.
        cores: CPUs of this machine.
    """
    master = resolved_master(settings.master)
    conf = {"spark.master": master, "spark.app.name": settings.name, "spark.driver.memory": settings.driver_memory}
    conf |= _SQL | _QUIET
    if _is_local(master):
        conf |= _LOOPBACK_ONLY | _of_cores(_cores_of(master, cores))
    if settings.shuffle_partitions:
        conf[_SHUFFLE_PARTITIONS] = str(settings.shuffle_partitions)
    return conf | dict(settings.conf)


def _of_cores(cores: int) -> dict[str, str]:
    """Return what Spark's defaults make too large and too small for one machine."""
    return {
        _SHUFFLE_PARTITIONS: str(2 * cores),  # else 200
        "spark.sql.files.minPartitionNum": str(4 * cores),  # else one a core, and the slowest keeps the others waiting
    }


def _is_local(master: str) -> bool:
    return _ANY_LOCAL.fullmatch(master) is not None


def _cores_of(master: str, cores: int) -> int:
    found = re.match(r"local\[(\d+)", master)
    return int(found[1]) if found else cores


def open_session(settings: SessionSettings | None = None, log: IO[bytes] | None = None) -> SparkSession:
    """Start a session, or take the one that runs.

    Args:
        settings: Of a session that is to be started; one that runs is only given `_SQL`.
        log: Where Java's standard error goes, and that of the Python workers; to ours without it.

    Raises:
        SparkUnavailableError: pyspark, pyarrow, pandas or Java are missing or too old.
        JobFailedError: It does not start.
    """
    spark = _running() or _opened(settings or SessionSettings(), log)
    for key, value in _SQL.items():
        spark.conf.set(key, value)
    return spark


def _running() -> SparkSession | None:
    """Return the session that runs, if there is one.

    Raises:
        SparkUnavailableError: A package is missing.
    """
    try:
        import pandas  # noqa: F401, ICN001, PLC0415 -- an extra
        import pyarrow  # noqa: F401, ICN001, PLC0415 -- the same
        from pyspark.sql import SparkSession  # noqa: PLC0415 -- the same
    except ImportError as error:
        raise SparkUnavailableError(
            f"hub spark needs {error.name}, which is not installed: pip install '.[spark]'"
        ) from error
    return SparkSession.getActiveSession()


def _submitted() -> bool:
    """Whether spark-submit has started Java, so that its flags rule."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _opened(settings: SessionSettings, log: IO[bytes] | None) -> SparkSession:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 -- heavy, and an extra
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 -- the same
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- the same

    if _submitted():
        return SparkSession.builder.config(map={"spark.app.name": settings.name, **settings.conf}).getOrCreate()
    check_java()
    if _is_local(settings.master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the workers are whatever `python3` is
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    conf = SparkConf(loadDefaults=False).setAll(list(session_conf(settings, os.cpu_count() or 1).items()))
    try:
        with held_back():
            gateway = launch_gateway(conf, {} if log is None else {"stderr": log})  # type: ignore[no-untyped-call]
            SparkContext(conf=conf, gateway=gateway)
        return SparkSession.builder.getOrCreate()
    except spark_errors() as error:
        said = last_words(Path(log.name).read_text(errors="replace")) if log is not None else ""
        raise JobFailedError(f"Spark does not start: {said or cause_of(error)}") from error


@contextmanager
def running_job(settings: SessionSettings, *, shown: bool = True, verbose: bool = False) -> Iterator[Job]:
    """Run the block with a session and a bar; stop the session at its end, unless it was there before.

    On a cluster, the executors are sent this project's code. What Java and the workers write to standard error goes to
    a file, which is deleted unless the job fails.

    Args:
        settings: Of the session.
        verbose: Whether to show that file on standard error in place of keeping it.
        shown: Whether to show a bar, where standard error is a terminal.

    Raises:
        SparkUnavailableError: pyspark, pyarrow, pandas or Java are missing or too old.
        JobFailedError: The session does not start, or Spark gave up on the block's work.
    """
    before = _running()
    with (
        orderly_ends(),
        JobProgress(shown=shown) as progress,
        tempfile.TemporaryDirectory(prefix="topichub-") as folder,
    ):
        progress.tell("starting Spark")
        with _kept_on_failure(verbose=verbose) as log:
            spark = open_session(_shipped(_housed(settings, Path(folder)), Path(folder)), log)
            progress.watch(spark.sparkContext.statusTracker())
            try:
                yield Job(spark, progress, sizes=before is None and not _says_shuffles(settings))
            finally:
                progress.watch(None)
                if before is None:
                    spark.stop()


def _says_shuffles(settings: SessionSettings) -> bool:
    return bool(settings.shuffle_partitions) or _SHUFFLE_PARTITIONS in settings.conf


def _housed(settings: SessionSettings, folder: Path) -> SessionSettings:
    """Return the settings with a folder for the tables of this Spark.

    Jobs have none; but Spark makes one where the user stands, and leaves it there.
    """
    return replace(settings, conf={"spark.sql.warehouse.dir": str(folder / "warehouse"), **settings.conf})


def _shipped(settings: SessionSettings, folder: Path) -> SessionSettings:
    """Return the settings with this project's code for the executors, where these are other machines."""
    key = "spark.submit.pyFiles"
    if _is_local(settings.master) or key in settings.conf or _submitted():
        return settings
    package = folder / "topichub.zip"
    write_package(package)
    return replace(settings, conf={key: str(package), **settings.conf})


def _is_interrupted(error: BaseException | None) -> bool:
    """Whether a failure is what an interrupt became: on the way out of a call that it broke, pyspark calls Java."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def _kept_on_failure(*, verbose: bool) -> Iterator[IO[bytes]]:
    """Yield a file that is deleted unless Spark fails; its failures become errors of ours that name the file.

    Args:
        verbose: Whether it is shown in place of being kept, with what Spark raised.
    """
    failures: tuple[type[Exception], ...] = (JobFailedError, *spark_errors())
    with tempfile.NamedTemporaryFile(prefix="topichub-spark-", suffix=".log", delete=False) as log:
        path = Path(log.name)
        keep = False
        try:
            yield log
        except failures as error:
            if _is_interrupted(error):
                raise KeyboardInterrupt from error
            said = str(error) if isinstance(error, JobFailedError) else cause_of(error)
            if verbose:
                sys.stderr.write(f"{path.read_text(errors='replace')}\n{error}\n")
                raise JobFailedError(said) from error
            keep = True
            raise JobFailedError(f"{said} (what Spark said is in {path})") from error
        finally:
            if not keep:
                path.unlink()
