"""A Spark session with the settings that the jobs need, and the context that a command runs in.

Under `spark-submit`, and where a session exists already, its master, memory and logs stay as they are; only the
settings of `_SQL` are set. A local session takes 3 to 6 s to start.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, NamedTuple

from hub.errors import HubError, UsageError
from peers.spark.progress import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def held_back() -> Iterator[None]:
    """Delay signals until the end of the block; handlers that the block sets do not stay."""
    if not _is_main_thread():
        yield
        return
    received: list[int] = []
    before = [(number, signal.signal(number, lambda number, _: received.append(number))) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        if received:  # also where the block failed, for it may have failed by the signal
            signal.raise_signal(received[0])


@contextmanager
def orderly_ends() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, with all cleaning up; py4j logs no stacks."""
    if not _is_main_thread():
        yield
        return
    silent = logging.NullHandler()  # py4j logs to the root, which without any handler writes to standard error
    logging.getLogger().addHandler(silent)
    terminated = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt  # the only exception after which py4j leaves no call behind that waits for an answer

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if terminated:
            sys.exit(128 + signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        logging.getLogger().removeHandler(silent)


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets, for jobs that end by themselves; the second one ends them at once."""
    stop = threading.Event()
    if not _is_main_thread():
        yield stop
        return

    def on_signal(number: int, _: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_PACKAGES = ("hub", "peers", "pyspark_hub")

# The oldest date that a zip can hold: the bytes do not depend on when it was made.
_DATE = (1980, 1, 1, 0, 0, 0)


def write_package(path: Path) -> int:
    """Write the zip; return how many files it has."""
    count = 0
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
            for found in filter(None, map(importlib.util.find_spec, _PACKAGES)):
                for root in map(Path, found.submodule_search_locations or ()):
                    for source in sorted(root.rglob("*.py")):
                        name = zipfile.ZipInfo(f"{found.name}/{source.relative_to(root)}", _DATE)
                        package.writestr(name, source.read_bytes(), zipfile.ZIP_DEFLATED)
                        count += 1
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return count


_LOOPBACK = "127.0.0.1"
_PY_FILES = "spark.submit.pyFiles"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_LOCAL = re.compile(r"local(?:\[(\*|[0-9]+)\])?")
_ANY_LOCAL = re.compile(r"local(?:\[.*\])?")

# How often a task is tried before its job fails: as on clusters; a plain `local[N]` tries once.
_TRIES = 4

# The jobs rely on these; they can be set on a running session.
_SQL = {
    "spark.sql.session.timeZone": "UTC",  # else the dates of partitions follow the zone of the machine
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # else INT96, which other tools refuse
}

_QUIET = {
    "spark.ui.showConsoleProgress": "false",  # it would draw into our own bar
    "spark.log.level": "ERROR",
}

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

# For checkpoints on a local disk, where archives are. Spark's own choice, by way of Hadoop's FileContext, takes 30 to
# 45 ms more for each of the two files of a micro-batch, to refuse a file that exists; the archive's lock does that.
_CHEAP_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
}

_LOOPBACK_ONLY = {
    "spark.driver.bindAddress": _LOOPBACK,  # else it listens on the address of the network
    "spark.driver.host": _LOOPBACK,
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """Where a job runs, and its settings."""

    name: str = "topichub"
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Spark; they win."""


class Job(NamedTuple):
    """The session and the progress bar of a job."""

    spark: SparkSession
    progress: JobProgress


def resolved_master(master: str) -> str:
    """Return a master URL under which tasks are tried again in local mode, too."""
    found = _LOCAL.fullmatch(master)
    return master if found is None else f"local[{found[1] or 1},{_TRIES}]"


def session_conf(settings: SessionSettings, cores: int) -> dict[str, str]:
    """Return the settings of Spark for a new session on a machine with so many CPUs."""
    master = resolved_master(settings.master)
    conf = {"spark.master": master, "spark.app.name": settings.name} | _SQL | _QUIET | _CHEAP_CHECKPOINTS
    if _is_local(master):
        found = re.match(r"local\[(\d+)", master)
        cores = int(found[1]) if found else cores
        conf |= _LOOPBACK_ONLY
        conf[_SHUFFLE_PARTITIONS] = str(2 * cores)  # else 200
        conf["spark.sql.files.minPartitionNum"] = str(4 * cores)  # else one a core, and all wait for the slowest
    return conf | dict(settings.conf)


def _is_local(master: str) -> bool:
    return _ANY_LOCAL.fullmatch(master) is not None


def open_session(settings: SessionSettings | None = None, log: IO[bytes] | None = None) -> SparkSession:
    """Start a session, or take the running one; `log` receives the standard error of Java and of the workers.

    Raises:
        SparkUnavailableError: pyspark, pyarrow, pandas or Java are missing or too old.
        JobFailedError: It does not start.
    """
    spark = _running() or _started(settings or SessionSettings(), log)
    for key, value in _SQL.items():
        spark.conf.set(key, value)
    return spark


def check_packages(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise SparkUnavailableError(f"hub spark needs {name}: pip install 'topichub[spark]'")


def _running() -> SparkSession | None:
    check_packages("pyspark", "pyarrow", "pandas")
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- heavy, and an extra

    return SparkSession.getActiveSession()


def _is_submitted() -> bool:
    """Whether spark-submit has started Java, so that its flags rule."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _started(settings: SessionSettings, log: IO[bytes] | None) -> SparkSession:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 -- heavy, and an extra
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 -- the same
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- the same

    if _is_submitted():
        return SparkSession.builder.config(map={"spark.app.name": settings.name, **settings.conf}).getOrCreate()
    check_java()
    if _is_local(settings.master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the workers run `python3`
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
def running_job(settings: SessionSettings) -> Iterator[Job]:
    """Run the block with a session and a progress bar; stop the session at its end, unless it ran before.

    On a cluster, the executors receive this project's code. The standard error of Java and the workers goes to a file,
    which is deleted unless the job fails. Raises as `open_session`, or `JobFailedError` if Spark gave up.
    """
    before = _running()
    with (
        orderly_ends(),
        JobProgress() as progress,
        tempfile.TemporaryDirectory(prefix="topichub-") as folder,
    ):
        progress.step("starting Spark")
        with _log_of_failures() as log:
            # Jobs have no tables; but Spark makes a folder for them in the working directory, and leaves it there.
            made = {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
            if not (_is_local(settings.master) or _PY_FILES in settings.conf or _is_submitted()):
                made[_PY_FILES] = f"{folder}/topichub.zip"  # executors on other machines need this project's code
                write_package(Path(made[_PY_FILES]))
            spark = open_session(replace(settings, conf=made | dict(settings.conf)), log)
            progress.watch(spark.sparkContext.statusTracker())
            try:
                yield Job(spark, progress)
            finally:
                progress.watch(None)
                if before is None:
                    spark.stop()


@contextmanager
def _log_of_failures() -> Iterator[IO[bytes]]:
    """Yield a file that is deleted unless Spark fails; its errors become a `JobFailedError` that names the file."""
    failures: tuple[type[Exception], ...] = (JobFailedError, *spark_errors())
    with tempfile.NamedTemporaryFile(prefix="topichub-spark-", suffix=".log", delete=False) as log:
        keep = False
        try:
            yield log
        except failures as error:
            if _is_interrupted(error):
                raise KeyboardInterrupt from error
            keep = True
            said = str(error) if isinstance(error, JobFailedError) else cause_of(error)
            raise JobFailedError(f"{said} (Spark's output is in {log.name})") from error
        finally:
            if not keep:
                Path(log.name).unlink()


def _is_interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt became this failure: on the way out of a broken call, pyspark calls Java."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


# Errors of Spark, in one line: without Java's stack and the tracebacks of workers.

_TRACEBACK = "Traceback (most recent call last):"
_CLASS = re.compile(r'^(?:Exception in thread "\w+" )?(?:[\w$]+\.)+[\w$]+: ')
_CAUSED_BY = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_NOISE = re.compile(r"WARNING|Using Spark|Setting |To adjust|\s+at |[0-9/]+ [0-9:]+ (?:WARN|INFO)")


class JobFailedError(HubError):
    """Spark gave up on a job; the text is the cause."""


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the errors of Spark; pyspark must be installed."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 -- part of the extra
    from pyspark.errors import PySparkException  # noqa: PLC0415 -- the same

    return (PySparkException, Py4JError)


def cause_of(error: Exception) -> str:
    """Return the cause in one line: the error of a worker, else Java's first error and its last cause."""
    text = str(error)
    if _TRACEBACK in text:
        # The last line of the last traceback names the exception.
        *_, traceback = text.split(_TRACEBACK)
        lines = [line for line in traceback.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
        return _CLASS.sub("", lines[0]) if lines else "a Python worker failed"
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]  # py4j's own words
    first = _plain(lines[0].removeprefix(": ")) if lines else type(error).__name__
    causes = _CAUSED_BY.findall(text)
    last = _plain(causes[-1]) if causes else first
    return first if last in first else f"{first.rstrip('.')}: {last}"


def _plain(line: str) -> str:
    line = _CLASS.sub("", line.strip())
    return _SQLSTATE.sub("", _CONDITION.sub("", line))


def last_words(log: str) -> str:
    """Return why Java did not start, from its log; empty if the log does not say."""
    return next((_plain(line) for line in log.splitlines() if line.strip() and not _NOISE.match(line)), "")


# Java: Spark looks for it in JAVA_HOME, then in PATH, and says little where there is none or an old one.

_JAVA_LEAST = 17
_JAVA_S = 60.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_REMEDY = f"install one (Debian, Ubuntu: apt-get install openjdk-{_JAVA_LEAST}-jre-headless) or point JAVA_HOME at one"


class SparkUnavailableError(UsageError):
    """Spark lacks a package or Java; the text says which, and how to get it."""


def check_java(environment: Mapping[str, str] = os.environ) -> int:
    """Return the major version of the Java that Spark would start."""
    java = java_path(environment)
    try:
        done = subprocess.run(  # noqa: S603 -- the program that Spark will start, without input
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        text = f"Spark needs Java {_JAVA_LEAST} or newer, {java} does not run: {_REMEDY}"
        raise SparkUnavailableError(text) from error
    found = java_version(done.stderr)
    if found < _JAVA_LEAST:
        shown = f"is Java {found}" if found else "has an unknown version"
        raise SparkUnavailableError(f"Spark needs Java {_JAVA_LEAST} or newer, {java} {shown}: {_REMEDY}")
    return found


def java_version(text: str) -> int:
    found = _VERSION.search(text)
    return int(found[1]) if found else 0


def java_path(environment: Mapping[str, str]) -> str:
    """Return the path of the Java that Spark would start."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    if java is None:
        raise SparkUnavailableError(f"Spark needs Java {_JAVA_LEAST} or newer, there is no Java here: {_REMEDY}")
    return java
