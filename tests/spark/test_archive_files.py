"""An archive as a DataFrame: its columns, what is selected of it, which folders are read for that."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own name for it

from hub.errors import InvalidTopicError, UsageError
from peers.spark import archive_files
from peers.spark.archive_files import ROOT_LIMIT_CHARACTERS, read_archive, root_column, root_of
from peers.spark.archiving.folders import root_folder
from peers.spark.selection import Selection, microseconds
from tests.spark.archives import NOON_US, Archived, archived, write_archive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

TOPICS = ["/zeek/dns", "/zeek/conn", "/zebra", "zeek/dns", "007", "/", "//x", "/zeek", "/été/a=b%2f"]


def offsets(frame: DataFrame) -> list[int]:
    """Which messages."""
    return sorted(row.offset for row in frame.select("offset").collect())


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """One message for each topic, a second apart, in two batches."""
    messages = archived(TOPICS)
    write_archive(tmp_path, messages[:4], 0)
    return write_archive(tmp_path, messages[4:], 1)


def test_everything_in_it(spark: SparkSession, archive: Path) -> None:
    """With the columns of files and folders; the job's state is not part of it."""
    frame = read_archive(spark, str(archive))
    assert frame.dtypes == [
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("topic", "string"),
        ("value", "binary"),
        ("date", "date"),
        ("root", "string"),
        ("batch", "bigint"),
        ("size", "int"),
    ]
    rows = frame.withColumn("time_us", F.unix_micros("timestamp")).orderBy("offset").collect()
    assert [row.topic for row in rows] == TOPICS
    assert [row.time_us for row in rows] == [NOON_US + number * 1_000_000 for number in range(len(TOPICS))]
    assert [row.root for row in rows[:8]] == ["zeek", "zeek", "zebra", "zeek", "007", "", "", "zeek"]
    assert {(row.date, row.batch) for row in rows} == {(date(2026, 11, 21), 0), (date(2026, 11, 21), 1)}
    assert bytes(rows[3].value) == archived(TOPICS)[3].value


@pytest.mark.parametrize(
    "prefix", ["", "/", "/z", "/ze", "/zeek", "/zeek/", "/zeek/d", "z", "zeek/", "//", "/é", "0", "x"]
)
def test_prefixes_are_the_hubs(spark: SparkSession, archive: Path, prefix: str) -> None:
    """Plain beginnings of topics, in whatever folder these are."""
    expected = [offset for offset, topic in enumerate(TOPICS) if topic.startswith(prefix)]
    assert offsets(read_archive(spark, str(archive), Selection([prefix]))) == expected


def test_several_prefixes(spark: SparkSession, archive: Path) -> None:
    """Each message once."""
    assert offsets(read_archive(spark, str(archive), Selection(["/zeek/", "/zeek/dns", "007"]))) == [0, 1, 4]


@pytest.mark.parametrize(
    ("topic", "levels", "table"),
    [
        ("/zeek/conn/x", 2, "zeek_conn"),
        ("/zeek", 2, "zeek"),
        ("plain/été.1", 0, "plain_été_1"),
        ("/a//b", 2, "a_"),
        ("/", 1, "_"),
        (f"/{'𝄞x' * 40}", 1, "_x" * 30),
    ],
)
def test_names_of_tables(topic: str, levels: int, table: str) -> None:
    """The first levels of a topic, or all; what is no letter or digit is an underscore."""
    assert archive_files.table_of(topic, levels) == table


def test_folders_that_cannot_match_are_not_read(spark: SparkSession, archive: Path) -> None:
    """By root and date: broken files in them go unnoticed."""
    for folder in ("date=2026-11-21/root=other", "date=2026-11-20/root=zeek", "date=2026-11-22/root=zeek"):
        (archive / folder / "batch=0").mkdir(parents=True)
        (archive / folder / "batch=0" / "part-0.parquet").write_text("nonsense")
    selection = Selection(["/zeek/"], NOON, NOON + timedelta(seconds=1.5))
    assert offsets(read_archive(spark, str(archive), selection)) == [0, 1]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), {"21:zeek", "21:zebra", "21:", "22:zeek"}),
        (Selection(["/zeek/"]), {"21:zeek", "22:zeek"}),
        (Selection(["/ze"]), {"21:zeek", "21:zebra", "22:zeek"}),
        (Selection(["//"]), {"21:zeek", "21:zebra", "21:", "22:zeek"}),
        (Selection(["/"], NOON, NOON + timedelta(hours=12)), {"21:zeek", "21:zebra", "21:"}),
        (Selection(["zebra/x", "/zeek"], NOON + timedelta(hours=12)), {"22:zeek"}),
    ],
)
def test_folders_of_a_selection(tmp_path: Path, selection: Selection, expected: set[str]) -> None:
    """By root and date."""
    write_archive(tmp_path, archived(["/zeek/dns", "/zebra/x", "/"]))
    write_archive(tmp_path, archived(["/zeek/dns"], step_us=0), 1)
    (tmp_path / "date=2026-11-21/root=zeek/batch=1").rename(tmp_path / "moved")
    (tmp_path / "date=2026-11-22/root=zeek").mkdir(parents=True)
    (tmp_path / "moved").rename(tmp_path / "date=2026-11-22/root=zeek/batch=1")
    files = archive_files.local_files(str(tmp_path), selection) or []
    named = [re.search(r"date=2026-11-(\d+)/root=([^/]*)/", file) for file in files]
    found = {f"{match[1]}:{match[2].replace('__HIVE_DEFAULT_PARTITION__', '')}" for match in named if match}
    assert found == expected


def test_roots_of_topics_are_those_of_the_folders(spark: SparkSession, tmp_path: Path) -> None:
    """As Spark itself writes them, also with characters that it escapes, and longer than a folder's name may be."""
    long, odd = "𝄞" * 300, " [%]{=}'?#\"^\\\x01\x1f\x7f"
    topics = [*TOPICS, f"/{long}/a", f"/{long}", "/a:b*c/", "/.hidden/x", "/..", f"/{odd}"]
    frame = spark.createDataFrame(
        [(number, topic) for number, topic in enumerate(topics)], "offset BIGINT, topic STRING"
    )
    frame = frame.selectExpr("offset", "TIMESTAMP '2026-11-21 12:00:00Z' AS timestamp", "topic", "X'c0' AS value")
    frame = frame.withColumns({"date": F.to_date("timestamp"), "root": root_column(F.col("topic")), "batch": F.lit(3)})
    frame.write.partitionBy("date", "root", "batch").parquet(str(tmp_path / "archive"))
    written = {path.name for path in (tmp_path / "archive").glob("date=*/root=*")}
    assert {root_folder(root_of(topic)) for topic in topics} == written
    for prefix in ("", f"/{long}/", f"/{long[:70]}", f"/{long[:5]}", "/a:b*c/", "/.", "/été/"):
        expected = [number for number, topic in enumerate(topics) if topic.startswith(prefix)]
        assert offsets(read_archive(spark, str(tmp_path / "archive"), Selection([prefix]))) == expected, prefix[:9]
    roots = {row.root for row in read_archive(spark, str(tmp_path / "archive")).select("root").distinct().collect()}
    assert roots == {"zeek", "zebra", "007", "", "été", long[:ROOT_LIMIT_CHARACTERS], "a:b*c", ".hidden", "..", odd}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (NOON + timedelta(seconds=3), None, [3, 4, 5, 6, 7, 8]),
        (None, NOON + timedelta(seconds=3), [0, 1, 2]),
        (NOON + timedelta(seconds=2), NOON + timedelta(seconds=2, microseconds=1), [2]),
        (datetime(2026, 11, 21, 12, 0, 7), None, [7, 8]),  # noqa: DTZ001 -- without a zone
        (datetime(2026, 11, 21, 14, 0, 7, tzinfo=timezone(timedelta(hours=2))), None, [7, 8]),
        (NOON + timedelta(days=1), None, []),
    ],
)
def test_times(
    spark: SparkSession, archive: Path, start: datetime | None, end: datetime | None, expected: list[int]
) -> None:
    """From the start on and before the end; UTC where no zone is given."""
    assert offsets(read_archive(spark, str(archive), Selection((), start, end))) == expected


def test_times_across_midnight(spark: SparkSession, tmp_path: Path) -> None:
    """Each day is a folder."""
    midnight = microseconds(datetime(2026, 11, 22, tzinfo=UTC))
    write_archive(tmp_path, [Archived(number, midnight - 2 + number, "/a", b"\xc0") for number in range(4)])
    start = datetime(2026, 11, 21, 23, 59, 59, 999_999, tzinfo=UTC)
    assert offsets(read_archive(spark, str(tmp_path), Selection((), start, None))) == [1, 2, 3]
    assert offsets(read_archive(spark, str(tmp_path), Selection((), None, datetime(2026, 11, 22, tzinfo=UTC)))) == [
        0,
        1,
    ]


def test_a_selection_that_means_nothing() -> None:
    """Is refused."""
    with pytest.raises(UsageError, match=r"--start, --end: .* is not before"):
        Selection((), NOON, NOON).check()
    with pytest.raises(InvalidTopicError):
        Selection(["/a\n"]).check()
    assert Selection(["/a"], NOON, None).check() == Selection(["/a"], NOON, None)


def test_no_archive(spark: SparkSession, tmp_path: Path) -> None:
    """It is named; an empty folder is an archive without messages."""
    with pytest.raises(UsageError, match="nothing: there is no such archive"):
        read_archive(spark, str(tmp_path / "nothing"))
    assert offsets(read_archive(spark, str(tmp_path))) == []
