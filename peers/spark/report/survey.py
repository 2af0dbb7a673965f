"""`survey`: ask an archive everything that a report tells."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import SparkSession

from hub.errors import UsageError
from peers.spark.progress import JobProgress
from peers.spark.report.findings import Findings, Talk, Traffic
from peers.spark.report.offsets import find_offsets
from peers.spark.report.scan import Scan
from peers.spark.report.steps import bucket_for
from peers.spark.report.timeline import Timeline
from peers.spark.report.traffic import TopicTable
from peers.spark.selection import EVERYTHING, Selection
from peers.spark.summary import span

__all__ = [
    "BUCKETS_LIMIT",
    "GAPS_LIMIT",
    "RANGES_LIMIT",
    "ROOTS_LIMIT",
    "ROOTS_RATED",
    "TOPICS_LIMIT",
    "Questions",
    "survey",
]

ROOTS_LIMIT = 1_000
"""Roots that are listed."""

ROOTS_RATED = 50
"""Roots that have rates of their own."""

TOPICS_LIMIT = 1_000_000
"""Topics in the table of all: 100 MB or so of this process."""

BUCKETS_LIMIT = 10_000
"""Buckets over the whole time: rates have a row for each, of each root and each of the top topics."""

GAPS_LIMIT = 10_000
"""Gaps that are listed."""

RANGES_LIMIT = 10_000
"""Ranges of absent offsets that are listed."""


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What is to be found out."""

    selection: Selection = EVERYTHING
    bucket_us: int | None = None
    """Width of buckets; None for a round width that suits the time."""
    gap_us: int = 60_000_000
    """Stretches longer than this are gaps."""
    top: int = 10
    """Topics that are told of as those with the most messages, and with the most bytes."""
    all_topics: bool = False
    """Whether the table of all topics is wanted."""
    event_time: str = ""
    """Field of the messages whose time counts; empty for the time of the hub."""


def survey(
    spark: SparkSession,
    archive: str,
    questions: Questions,
    progress: JobProgress,
) -> Findings:
    """Ask an archive.

    Args:
        spark: The session.
        archive: See `read_archive`.
        questions: What is to be found out.
        progress: Is told of each step.

    Raises:
        UsageError: There is no archive, it has no messages, or the buckets are too many.
    """
    selection = questions.selection
    scan = Scan(spark, archive, selection, questions.event_time)
    with ExitStack() as kept:
        progress.tell("grouping by topic")
        topics = TopicTable(scan)
        kept.callback(topics.release)
        found = topics.total()
        if found is None:
            raise UsageError(f"{archive}: there are no messages: {selection.words()}")
        talk = _talk(topics, questions)
        progress.tell("looking for rates and gaps")
        bucket_us = _bucket_us(questions.bucket_us, found[0])
        timeline = Timeline(scan, bucket_us, questions.gap_us, talk.names())
        kept.callback(timeline.release)
        roots = [root.name for root in talk.roots[:ROOTS_RATED]]
        root_rates, topic_rates = timeline.root_rates(roots), timeline.topic_rates()
        gaps, gaps_count = timeline.gaps(GAPS_LIMIT)
        progress.tell("looking for absent offsets")
        offsets = find_offsets(scan, RANGES_LIMIT)
    return Findings(
        archive=archive,
        selected=selection.words(),
        total=found[0],
        topics=found[1],
        talk=talk,
        bucket_us=bucket_us,
        root_rates=root_rates,
        topic_rates=topic_rates,
        gap_us=questions.gap_us,
        gaps=gaps,
        gaps_count=gaps_count,
        offsets=offsets,
        event_time=questions.event_time,
        undated=topics.undated,
    )


def _talk(topics: TopicTable, questions: Questions) -> Talk:
    return Talk(
        roots=topics.roots(ROOTS_LIMIT),
        by_messages=topics.topics("messages", questions.top),
        by_bytes=topics.topics("bytes", questions.top),
        all_topics=topics.all_topics(TOPICS_LIMIT) if questions.all_topics else None,
    )


def _bucket_us(wished_us: int | None, total: Traffic) -> int:
    """Return how wide buckets are.

    Raises:
        UsageError: With the width that was wished they would be too many.
    """
    length_us = total.last_us - total.first_us
    if wished_us is None:
        return bucket_for(length_us)
    if length_us // wished_us > BUCKETS_LIMIT:
        raise UsageError(
            f"--bucket: {span(length_us)} are {length_us // wished_us:,} buckets of {span(wished_us)}, the limit is "
            f"{BUCKETS_LIMIT:,}; {span(bucket_for(length_us))} would suit"
        )
    return wished_us
