"""`Engine`: the options of all jobs that say where Spark runs them, and the groups in which `--help` lists options."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from peers.cli.flag_values import FlagError
from peers.spark.session import Job, SessionSettings, running_job

__all__ = ["MESSAGES", "OUTPUT", "SPARK", "Engine", "described"]

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
