"""Which subscriber would get which message: against a naive loop, the file of subscriptions, the command."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import UsageError
from peers.cli.spark import app
from peers.spark.archiving.folders import EVERYTHING
from peers.spark.route import Matcher, SubscriptionError, count, read_subscriptions, write_deliveries
from peers.spark.scan import Scan
from tests.spark.archives import archived, write_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

components = st.text(st.sampled_from("ab/é𝄞"), max_size=6)
topics = st.builds("/{}".format, components)
prefixes = st.one_of(st.just(""), components, topics)
subscriptions = st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), prefixes), min_size=1, max_size=12)


def naive(given_topics: list[str], pairs: list[tuple[str, str]]) -> dict[int, set[str]]:
    found = {
        offset: {name for name, prefix in pairs if topic.startswith(prefix)}
        for offset, topic in enumerate(given_topics)
    }
    return {offset: names for offset, names in found.items() if names}


@settings(max_examples=2)  # each takes a second of Spark
@given(st.lists(topics, min_size=10, max_size=40), subscriptions)
def test_a_job_is_the_naive_loop(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, given_topics: list[str], pairs: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    messages = archived(given_topics)
    scan = Scan(spark, str(write_archive(folder, messages)), EVERYTHING)
    matcher = Matcher(pairs)
    expected = naive(given_topics, pairs)
    write_deliveries(scan, matcher, str(folder / "deliveries"))
    rows = pq.read_table(folder / "deliveries").to_pylist()
    assert all(row["subscribers"] == sorted(set(row["subscribers"])) for row in rows)
    assert {row["offset"]: {matcher.names[number] for number in row["subscribers"]} for row in rows} == expected
    assert len(rows) == len(expected)
    totals = count(scan, matcher)
    assert totals.all_messages == len(messages)
    assert totals.wanted == len(expected)
    assert totals.delivered == sum(map(len, expected.values()))
    for number, name in enumerate(matcher.names):
        mine = [messages[offset] for offset, names in expected.items() if name in names]
        assert totals.messages[number] == len(mine)
        assert totals.bytes[number] == sum(len(message.value) for message in mine)


@given(st.lists(topics, max_size=20), subscriptions)
def test_each_subscriber_is_found_once(given_topics: list[str], pairs: list[tuple[str, str]]) -> None:
    made = Matcher(pairs)
    for topic in given_topics:
        found = [made.names[number] for number in made.subscribers(topic)]
        assert len(found) == len(set(found))
        assert set(found) == {name for name, prefix in pairs if topic.startswith(prefix)}


def test_subscriptions_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.csv"
    path.write_bytes(b'\xef\xbb\xbfprefix,note,name\r\n"/a,b",x,one\r\n\r\n,y,two\r\n"/a,b",z,one\r\n/c,,one\r\n')
    assert read_subscriptions(path) == [("one", "/a,b"), ("two", ""), ("one", "/a,b"), ("one", "/c")]


def test_subscriptions_as_ndjson(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.ndjson"
    path.write_text('{"name": "one", "prefix": "/a"}\n\n{"prefix": "", "name": "two", "since": 2020}\n')
    assert read_subscriptions(path) == [("one", "/a"), ("two", "")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "line 1: the header name,prefix expected, found ''"),
        (b"name,prefix\n", "there is no subscription in it"),
        (b"alerts,/zeek\n", "line 1: the header name,prefix expected, found 'alerts,/zeek'"),
        (b"name,prefix\na,/b\nc\n", "line 3: 2 fields expected, found 1"),
        (b"name,prefix\na,/b\nc,/d,/e\n", "line 3: 2 fields expected, found 3"),
        (b"name,prefix\n,/b\n", "line 2: the name is empty"),
        (b'name,prefix\na,"/b\n', "line 2: unexpected end of data"),
        (b"name,prefix\na,/b\x07\n", "line 2: prefix '/b\\x07' has the control character U+0007"),
        (b"name,prefix\na,/b\n\nc,\xff\n", "line 4: not UTF-8"),
        (b"name,prefix\na," + b"x" * 1025 + b"\n", "line 2: prefix"),
        (b'{"name": "a", "prefix": "/b"}\n{"name": "a"}\n', "line 2: {"),
        (b'{"name": "a", "prefix": 7}\n', "line 1: {"),
        (b'{"name": "a", \n', "line 1: {"),
    ],
)
def test_bad_subscriptions_are_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "subscriptions"
    path.write_bytes(content)
    with pytest.raises(SubscriptionError) as raised:
        read_subscriptions(path)
    assert str(raised.value).startswith(f"{path}: {said}")


def hub_spark(*arguments: object) -> None:
    app([str(argument) for argument in arguments], exit_on_error=False, result_action="return_value")


@pytest.fixture
def zeeks(tmp_path: Path) -> tuple[Path, Path]:
    topics = ["/zeek/dns", "/zeek/dns", "/app/x", "/zeek/dns", "/zeek/conn", "/zeek/conn"]
    archive = write_archive(tmp_path / "archive", archived(topics))
    wanted = tmp_path / "subscriptions.csv"
    wanted.write_text("name,prefix\ndns,/zeek/dns\nzeeks,/zeek/\nzeeks,/zeek/conn\nnobody,/other\n")
    return archive, wanted


@pytest.mark.usefixtures("spark")
def test_the_command_counts(tmp_path: Path, zeeks: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    hub_spark("route", *zeeks, "--counts", tmp_path / "counts.csv", "--top", "2")
    told = capsys.readouterr().out
    lines = [line.split() for line in told.splitlines()]
    assert ["without", "a", "subscriber", "messages", "1"] in lines
    assert ["deliveries", "deliveries", "8"] in lines
    assert lines[-3][:2] == ["zeeks", "5"]
    assert lines[-2][:2] == ["dns", "3"]
    assert lines[-1] == ["and", "1", "more"]
    rows = list(csv.DictReader((tmp_path / "counts.csv").open()))
    size = len(archived(["/"])[0].value)
    assert [(row["number"], row["name"], row["messages"], row["bytes"]) for row in rows] == [
        ("0", "dns", "3", str(3 * size)),
        ("1", "zeeks", "5", str(5 * size)),
        ("2", "nobody", "0", "0"),
    ]


@pytest.mark.usefixtures("spark")
def test_the_command_writes_deliveries(tmp_path: Path, zeeks: tuple[Path, Path]) -> None:
    listed = tmp_path / "lists"
    hub_spark("route", *zeeks, "--deliveries", listed)
    lists = pq.read_table(listed).sort_by("offset").to_pydict()
    assert lists == {"offset": [0, 1, 3, 4, 5], "subscribers": [[0, 1], [0, 1], [0, 1], [1], [1]]}
    (names,) = (listed / "_subscribers").glob("*.csv")
    assert names.read_text() == "number,name\n0,dns\n1,zeeks\n2,nobody\n"
    with pytest.raises(UsageError, match="lists: it exists already"):
        hub_spark("route", *zeeks, "--deliveries", listed)


@pytest.mark.usefixtures("spark", "zeeks")
def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    for arguments, said in (
        (["@archive", "@nothing.csv"], "nothing.csv: No such file"),
        (["@nothing", "@subscriptions.csv"], "nothing: there is no such archive"),
        (["@archive", "@subscriptions.csv", "--conf", "x"], "--conf: KEY=VALUE expected, 'x' given"),
        (["@archive", "@subscriptions.csv", "--counts", "@archive/_hub/state/x.csv"], "x.csv: Not a directory"),
    ):
        with pytest.raises(UsageError, match=said):
            hub_spark("route", *(argument.replace("@", f"{tmp_path}/") for argument in arguments))
