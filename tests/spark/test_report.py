"""The report: what a survey finds against a naive count, how it is drawn and written, the command."""

from __future__ import annotations

from collections import Counter, defaultdict
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import UsageError
from peers.cli.spark import app
from peers.spark import survey
from peers.spark.archiving.folders import EVERYTHING, Selection
from peers.spark.findings import (
    OTHERS,
    Findings,
    Gap,
    Missing,
    Offsets,
    Rate,
    Traffic,
    drawn_names,
    page,
    round_width_s,
    step_line,
    time_ticks,
)
from peers.spark.progress import JobProgress
from peers.spark.scan import Scan
from peers.spark.survey import BUCKETS, Questions, find_offsets
from tests.spark.archives import NOON_US, Archived, archived, root_of, write_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND_US = 1_000_000


def found(spark: SparkSession, path: Path, **questions: object) -> Findings:
    return survey.survey(spark, str(path), Questions(**questions), JobProgress())  # type: ignore[arg-type]


def naive_traffic(name: str, messages: list[Archived]) -> Traffic:
    times = [message.time_us for message in messages]
    return Traffic(name, len(messages), sum(len(message.value) for message in messages), min(times), max(times))


def naive_rates(name_of: dict[str, str], messages: list[Archived], bucket_us: int) -> list[Rate]:
    buckets: dict[tuple[str, int], list[Archived]] = defaultdict(list)
    for message in messages:
        if message.topic in name_of:
            buckets[name_of[message.topic], message.time_us // bucket_us * bucket_us].append(message)
    return sorted(Rate(*key, len(part), sum(len(one.value) for one in part)) for key, part in buckets.items())


def naive_gaps(messages: list[Archived], gap_us: int) -> set[Gap]:
    times: dict[str, list[int]] = defaultdict(list)
    for message in messages:
        times[root_of(message.topic)].append(message.time_us)
    pairs = {Gap(root, *pair) for root, found_times in times.items() for pair in pairwise(sorted(found_times))}
    return {gap for gap in pairs if gap.length_us > gap_us}


messages_of_archives = st.lists(
    st.builds(
        Archived,
        st.just(0),
        st.integers(NOON_US - 90 * SECOND_US, NOON_US + 90 * SECOND_US)
        | st.integers(NOON_US // SECOND_US - 90, NOON_US // SECOND_US + 90).map(SECOND_US.__mul__),
        st.sampled_from(["/a/1", "/a/2", "/b", "c/d", "/", "/é/𝄞"]),
        st.binary(max_size=9),
    ),
    min_size=20,
    max_size=60,
).map(lambda messages: [message._replace(offset=offset) for offset, message in enumerate(messages)])


@settings(max_examples=2)  # each takes a dozen jobs of Spark
@given(
    messages=messages_of_archives, gap_us=st.sampled_from([1_000, 999_999, SECOND_US, 5 * SECOND_US, 61 * SECOND_US])
)
def test_a_survey_is_the_naive_count(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, messages: list[Archived], gap_us: int
) -> None:
    path = write_archive(tmp_path_factory.mktemp("archive"), messages)
    findings = found(spark, path, gap_us=gap_us)
    bucket_us = findings.bucket_us
    topics = Counter(message.topic for message in messages)
    roots = Counter(root_of(message.topic) for message in messages)
    assert findings.total == naive_traffic("", messages)
    assert findings.topics == len(topics)
    by_topic = [naive_traffic(topic, [one for one in messages if one.topic == topic]) for topic in topics]
    by_root = [naive_traffic(root, [one for one in messages if root_of(one.topic) == root]) for root in roots]
    assert list(findings.by_messages) == sorted(by_topic, key=lambda one: (-one.messages, one.name.encode()))
    assert list(findings.by_bytes) == sorted(by_topic, key=lambda one: (-one.bytes, one.name.encode()))
    assert list(findings.roots) == sorted(by_root, key=lambda one: (-one.messages, one.name.encode()))
    assert sorted(findings.root_rates) == naive_rates({topic: root_of(topic) for topic in topics}, messages, bucket_us)
    assert sorted(findings.topic_rates) == naive_rates({topic: topic for topic in topics}, messages, bucket_us)
    assert set(findings.gaps) == naive_gaps(messages, gap_us)
    assert findings.gaps_count == len(findings.gaps)
    assert [gap.length_us for gap in findings.gaps] == sorted((gap.length_us for gap in findings.gaps), reverse=True)


@settings(max_examples=3)  # each takes a job of Spark
@given(st.lists(st.integers(0, 40) | st.integers(100, 105), min_size=1, max_size=60))
def test_absent_offsets_are_found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, there: list[int]
) -> None:
    path = tmp_path_factory.mktemp("archive")
    for batch, offset in enumerate(there):
        write_archive(path, archived(["/a"], first=offset), batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survey, "BLOCK_OFFSETS", 8)
        told = find_offsets(Scan(spark, str(path), EVERYTHING), limit=100)
    distinct = sorted(set(there))
    ranges = [Missing(before + 1, after) for before, after in pairwise(distinct) if after > before + 1]
    absent = sum(one.next - one.first for one in ranges)
    assert told == Offsets(distinct[0], distinct[-1], absent, len(ranges), len(there) - len(distinct), tuple(ranges))


def test_many_and_few_offsets_of_a_block(spark: SparkSession, tmp_path: Path) -> None:
    count = 6_000
    write_archive(tmp_path, archived(["/a"] * count, step_us=1))
    write_archive(tmp_path, archived(["/a"] * 4_096, first=70_000, step_us=1), 1)
    write_archive(tmp_path, archived(["/a"] * 3, first=count + 1, step_us=1), 2)
    write_archive(tmp_path, archived(["/a"] * 2, first=count + 3, step_us=1), 3)
    told = find_offsets(Scan(spark, str(tmp_path), EVERYTHING), limit=1)
    holes = (Missing(count + 5, 70_000), Missing(count, count + 1))
    absent = sum(hole.next - hole.first for hole in holes)
    assert told == Offsets(0, 74_095, absent, 2, 1, holes[:1])


def test_only_the_longest_are_listed(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of gaps, of absent offsets, of topics and roots; all are counted, and roots without rates are taken together."""
    for name in ("GAPS_LIMIT", "RANGES_LIMIT", "ROOTS_RATED"):
        monkeypatch.setattr(survey, name, 1)
    monkeypatch.setattr(survey, "ROOTS_LIMIT", 2)
    at = [(0, 0, "/a"), (2, 10, "/a"), (5, 40, "/a"), (6, 40, "/b"), (7, 41, "/c")]
    path = write_archive(tmp_path, [Archived(n, NOON_US + s * SECOND_US, topic, b"x") for n, s, topic in at])
    findings = found(spark, path, gap_us=SECOND_US, top=1)
    assert findings.gaps == (Gap("a", NOON_US + 10 * SECOND_US, NOON_US + 40 * SECOND_US),)
    assert findings.gaps_count == 2
    assert findings.offsets == Offsets(0, 7, 3, 2, 0, (Missing(3, 5),))
    assert [root.name for root in findings.roots] == ["a", "b"]
    assert [topic.name for topic in findings.by_messages] == ["/a"]
    assert [(rate.name, rate.messages) for rate in findings.root_rates] == [(OTHERS, 1), (OTHERS, 1), *[("a", 1)] * 3]


def test_what_is_selected(spark: SparkSession, tmp_path: Path) -> None:
    """Prefixes and times; absent offsets are those of all prefixes, so that the others are not taken for lost."""
    path = write_archive(tmp_path, archived(["/a", "/b", "/a", "/b", "/a"]))
    findings = found(spark, path, selection=Selection(["/a"]))
    assert findings.total.messages == 3
    assert findings.offsets == Offsets(0, 4, 0, 0, 0, ())
    assert findings.selected == "topics that begin with '/a'"
    with pytest.raises(UsageError, match="there are no messages: topics that begin with '/c'"):
        found(spark, path, selection=Selection(["/c"]))


@pytest.mark.parametrize(
    ("length_s", "bucket_s"),
    [(0, 1), (240, 1), (241, 2), (3_600, 15), (86_400, 600), (86_400 * 240, 86_400), (86_400 * 365, 2 * 86_400)],
)
def test_buckets_have_round_widths(length_s: int, bucket_s: int) -> None:
    assert round_width_s(length_s * SECOND_US, BUCKETS) == bucket_s


def test_marks_on_the_axis_of_time() -> None:
    assert time_ticks(NOON_US - SECOND_US, NOON_US + 10 * SECOND_US) == [
        (1.0, "12:00:00"),
        (3.0, "12:00:02"),
        (5.0, "12:00:04"),
        (7.0, "12:00:06"),
        (9.0, "12:00:08"),
        (11.0, "12:00:10"),
    ]
    hours = time_ticks(NOON_US - 60 * SECOND_US, NOON_US + 7_200 * SECOND_US)
    assert hours == [(60.0 + 1_800 * n, label) for n, label in enumerate(["12:00", "12:30", "13:00", "13:30", "14:00"])]
    days = time_ticks(NOON_US, NOON_US + 5 * 86_400 * SECOND_US)
    assert days[0] == (43_200.0, "2026-11-22")
    assert len(days) == 5


def test_a_line_has_a_step_for_each_bucket() -> None:
    assert step_line({0: 10, 1: 10, 3: 4}, 4, 2.0) == [(0, 5), (4, 5), (4, 0), (6, 0), (6, 2), (8, 2)]


def traffic(name: str, messages: int = 1) -> Traffic:
    return Traffic(name, messages, messages * 10, NOON_US, NOON_US + SECOND_US)


def findings_of(**other: object) -> Findings:
    given_fields = {
        "archive": "/archive<script>",
        "selected": "everything",
        "total": traffic("", 100),
        "topics": 2,
        "roots": (traffic("<b>a"), traffic("")),
        "by_messages": (traffic("/<b>a/x"), traffic("/")),
        "by_bytes": (traffic("/<b>a/x"),),
        "bucket_us": SECOND_US,
        "root_rates": (Rate("", NOON_US, 1, 10), Rate("<b>a", NOON_US, 99, 990)),
        "topic_rates": (Rate("/<b>a/x", NOON_US, 99, 990),),
        "gap_us": 60 * SECOND_US,
        "gaps": tuple(Gap("<b>a", NOON_US, NOON_US + n * SECOND_US) for n in range(80, 20, -1)),
        "gaps_count": 70,
        "offsets": Offsets(0, 9, 3, 1, 2, (Missing(3, 6),)),
    }
    return Findings(**(given_fields | other))  # type: ignore[arg-type]


class Text(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        assert not {name for name, _ in attrs} & {"src", "href"}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_stands_alone() -> None:
    made = Text(page(findings_of()))
    assert made.tags["svg"] == 2
    assert not made.tags.keys() & {"b", "script", "link", "img"}
    text = " ".join(made.text)
    assert "hub spark report: /archive<script>" in text
    assert "3 offsets between the first and the last are absent, in 1 ranges: messages of prefixes that were" in text
    assert "2 messages have the offset of another one" in text
    assert "and 20 more" in text
    assert "(none)" in text


def test_a_page_of_nothing_special() -> None:
    made = Text(page(findings_of(gaps=(), gaps_count=0, offsets=Offsets(0, 9, 0, 0, 0, ()))))
    assert made.text.count("none") == 2
    assert not made.tags["ul"]


def test_what_is_drawn() -> None:
    rates = [Rate(name, NOON_US, 1, 1) for name in "abcdefgh"] + [Rate(OTHERS, NOON_US, 1, 1)]
    assert drawn_names(rates, list("hgfedcba")) == list("hgfedc")
    assert drawn_names(rates[-1:], ["a"]) == [OTHERS]


def hub_spark(*arguments: object) -> None:
    app([str(argument) for argument in arguments], exit_on_error=False, result_action="return_value")


@pytest.mark.usefixtures("spark")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    archive = write_archive(tmp_path / "archive", archived(["/a/x", "/b", "/a/y", "/a/x"]))
    hub_spark("report", archive, "--html", tmp_path / "report.html")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["messages", "messages", "4"] in lines
    assert ["gaps", "longer", "than", "1", "min", "gaps", "0"] in lines
    assert [line[:2] for line in lines if line[:1] == ["a"]] == [["a", "3"]]
    assert [line[:2] for line in lines if line[:1] == ["/a/x"]] == [["/a/x", "2"]]
    assert "<svg" in (tmp_path / "report.html").read_text()
    for arguments, said in (
        (["nothing"], "nothing: there is no such archive"),
        (["archive", "--gap", "0.0001s"], "--gap: 0.001 s or more expected, 0.0001 s given"),
        (["archive", "--top", "0"], "--top 0: give 1 or more"),
        (["archive", "--start", "2027-01-01"], "there are no messages: from 2027-01-01T00:00:00 on"),
        (["archive", "--start", "2027-01-01", "--end", "2026-01-01"], "--start, --end: .* is not before"),
    ):
        with pytest.raises(UsageError, match=said):
            hub_spark("report", tmp_path / arguments[0], *arguments[1:])
    monkeypatch.setattr(survey, "survey", lambda *_: findings_of())
    with pytest.raises(UsageError, match=r"no/report\.html: No such file"):
        hub_spark("report", archive, "--html", tmp_path / "no" / "report.html")
