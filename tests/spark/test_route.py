"""Which subscriber would get which message: both ways against a naive loop, the file of subscriptions, the command."""

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
from peers.spark.archive_files import read_archive
from peers.spark.routing import by_topic, matcher, route
from peers.spark.routing.matcher import Matcher, Way
from peers.spark.routing.subscriptions import BadSubscriptionError, Subscriptions, read_subscriptions
from tests.spark.archives import archived, write_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from peers.spark.routing.route import Routes

ROUND_TRIPS = 6
"""Examples of the tests that run Spark: each takes a second."""

components = st.text(st.sampled_from("ab/é𝄞"), max_size=6)
topics = st.builds("/{}".format, components)
prefixes = st.one_of(st.just(""), components, topics)
subscriptions = st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), prefixes), min_size=1, max_size=12)


def naive(given_topics: list[str], pairs: list[tuple[str, str]]) -> dict[int, set[str]]:
    """Offsets, and who gets them."""
    found = {
        offset: {name for name, prefix in pairs if topic.startswith(prefix)}
        for offset, topic in enumerate(given_topics)
    }
    return {offset: names for offset, names in found.items() if names}


def listed(routes: Routes) -> dict[int, set[str]]:
    """The same of a job; that no subscriber stands twice in a list is checked on the way."""
    found = {}
    for offset, subscribers in routes.lists().collect():
        assert offset not in found
        assert subscribers == sorted(set(subscribers))
        found[offset] = {routes.matcher.names[number] for number in subscribers}
    return found


def paired(routes: Routes) -> dict[int, set[str]]:
    """The same of pairs."""
    rows = [tuple(row) for row in routes.pairs().collect()]
    assert len(rows) == len(set(rows))
    found: dict[int, set[str]] = {}
    for offset, subscriber in rows:
        found.setdefault(offset, set()).add(routes.matcher.names[subscriber])
    return found


def check(spark: SparkSession, folder: Path, given_topics: list[str], pairs: list[tuple[str, str]], way: Way) -> None:
    """Lists, pairs and totals are what the naive loop says."""
    messages = archived(given_topics)
    frame = read_archive(spark, str(write_archive(folder, messages)))
    routes = route.route(frame, Matcher(Subscriptions.of(pairs)), way)
    expected = naive(given_topics, pairs)
    assert listed(routes) == expected
    assert paired(routes) == expected
    totals, count = routes.totals()
    assert count == len(messages)
    assert totals.wanted == len(expected)
    assert totals.delivered == sum(map(len, expected.values()))
    for number, name in enumerate(routes.matcher.names):
        mine = [messages[offset] for offset, names in expected.items() if name in names]
        assert totals.messages[number] == len(mine)
        assert totals.bytes[number] == sum(len(message.value) for message in mine)


@pytest.mark.parametrize("way", [Way.TOPICS, Way.EXPLODE])
def test_both_ways_are_the_naive_loop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, way: Way) -> None:
    """For any topics and prefixes, in any script."""

    @settings(max_examples=ROUND_TRIPS)
    @given(st.lists(topics, min_size=1, max_size=20), subscriptions)
    def run(given_topics: list[str], pairs: list[tuple[str, str]]) -> None:
        check(spark, tmp_path_factory.mktemp("archive"), given_topics, pairs, way)

    run()


def test_workers_match_as_the_driver_does(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more topics than the driver collects."""
    monkeypatch.setattr(route, "COLLECTED_LIMIT", 3)
    used = []
    monkeypatch.setattr(
        by_topic, "match_distributed", lambda *given: used.append(1) or DISTRIBUTED(*given), raising=True
    )
    given_topics = [f"/{root}/{number}" for number in range(10) for root in "abc"] * 20
    check(spark, tmp_path, given_topics, [("one", "/a"), ("two", "/b/1"), ("two", "/b"), ("three", "")], Way.AUTO)
    assert used


DISTRIBUTED = by_topic.match_distributed


@given(st.lists(topics, max_size=20), subscriptions)
def test_a_chain_holds_everyone_once(given_topics: list[str], pairs: list[tuple[str, str]]) -> None:
    """The longest prefix of a topic tells all its subscribers."""
    made = Matcher(Subscriptions.of(pairs))
    lists = made.lists()
    for topic in given_topics:
        longest = made.longest.of(topic)
        found = [] if longest is None else [made.names[number] for number in lists[longest]]
        assert len(found) == len(set(found))
        assert set(found) == {name for name, prefix in pairs if topic.startswith(prefix)}


@pytest.mark.parametrize(
    ("given_topics", "way"),
    [
        (["/a"] * 200, Way.TOPICS),
        ([f"/a/{number}" for number in range(200)], Way.EXPLODE),
        ([f"/a/{number % 20}" for number in range(400)], Way.TOPICS),
    ],
)
def test_the_way_is_chosen_by_the_topics(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_topics: list[str], way: Way
) -> None:
    """By topics while they repeat, exploding when hardly any does."""
    monkeypatch.setattr(route, "COLLECTED_LIMIT", 10)
    frame = read_archive(spark, str(write_archive(tmp_path, archived(given_topics))))
    assert route.route(frame, Matcher(Subscriptions.of([("one", "/a")]))).way is way


def test_topics_that_hardly_repeat_are_not_fetched(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first messages give them away."""
    monkeypatch.setattr(route, "_HINT_MESSAGES", 50)
    monkeypatch.setattr(by_topic, "sum_topics", lambda *_, **__: pytest.fail("topics were fetched"))
    frame = read_archive(spark, str(write_archive(tmp_path, archived(f"/a/{number}" for number in range(100)))))
    assert route.route(frame, Matcher(Subscriptions.of([("one", "/a")]))).way is Way.EXPLODE


def test_lists_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any memory is taken for them."""
    monkeypatch.setattr(matcher, "LISTED_LIMIT", 5)
    made = Matcher(Subscriptions.of([("one", ""), ("two", "/a"), ("three", "/a/b")]))
    with pytest.raises(UsageError, match="all 3 prefixes have more than 5 entries"):
        made.lists()


def test_subscriptions_as_csv(tmp_path: Path) -> None:
    """With a spreadsheet's mark, quotes, empty lines, other columns, and the same line twice."""
    path = tmp_path / "subscriptions.csv"
    path.write_bytes(b'\xef\xbb\xbfprefix,note,name\r\n"/a,b",x,one\r\n\r\n,y,two\r\n"/a,b",z,one\r\n/c,,one\r\n')
    assert read_subscriptions(path) == Subscriptions(("one", "two"), (("/a,b", 0), ("", 1), ("/c", 0)))


def test_subscriptions_as_ndjson(tmp_path: Path) -> None:
    """One object a line."""
    path = tmp_path / "subscriptions.ndjson"
    path.write_text('{"name": "one", "prefix": "/a"}\n\n{"prefix": "", "name": "two", "since": 2020}\n')
    assert read_subscriptions(path) == Subscriptions(("one", "two"), (("/a", 0), ("", 1)))


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
    """File and line, in one error."""
    path = tmp_path / "subscriptions"
    path.write_bytes(content)
    with pytest.raises(BadSubscriptionError) as raised:
        read_subscriptions(path)
    assert str(raised.value).startswith(f"{path}: {said}")


def test_no_file_of_subscriptions(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(BadSubscriptionError, match="nothing: No such file"):
        read_subscriptions(tmp_path / "nothing")


def hub_spark(*arguments: object) -> None:
    """Run a command in this process, with its session."""
    app([str(argument) for argument in arguments], exit_on_error=False, result_action="return_value")


@pytest.fixture
def zeeks(tmp_path: Path) -> tuple[Path, Path]:
    """An archive of 3 + 2 + 1 messages, and a file of subscriptions."""
    topics = ["/zeek/dns", "/zeek/dns", "/app/x", "/zeek/dns", "/zeek/conn", "/zeek/conn"]
    archive = write_archive(tmp_path / "archive", archived(topics))
    wanted = tmp_path / "subscriptions.csv"
    wanted.write_text("name,prefix\ndns,/zeek/dns\nzeeks,/zeek/\nzeeks,/zeek/conn\nnobody,/other\n")
    return archive, wanted


@pytest.mark.usefixtures("spark")
def test_the_command_counts(tmp_path: Path, zeeks: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A summary, the subscribers that get most, and all of them as CSV."""
    hub_spark("route", *zeeks, "--counts", tmp_path / "counts.csv", "--top", "2")
    told = capsys.readouterr().out
    lines = [line.split() for line in told.splitlines()]
    assert ["wanted", "by", "nobody", "messages", "1"] in lines
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
@pytest.mark.parametrize("way", Way)
def test_the_command_writes_deliveries(tmp_path: Path, zeeks: tuple[Path, Path], way: Way) -> None:
    """Lists or pairs, with the names beside them; never over something."""
    listed, paired = tmp_path / "lists", tmp_path / "pairs"
    hub_spark("route", *zeeks, "--deliveries", listed, "--way", way)
    hub_spark("route", *zeeks, "--deliveries", paired, "--pairs", "--way", way)
    lists = pq.read_table(listed).sort_by("offset").to_pydict()
    assert lists == {"offset": [0, 1, 3, 4, 5], "subscribers": [[0, 1], [0, 1], [0, 1], [1], [1]]}
    pairs = pq.read_table(paired).to_pylist()
    assert sorted((row["offset"], row["subscriber"]) for row in pairs) == [
        (offset, subscriber) for offset, subscribers in zip(*lists.values(), strict=True) for subscriber in subscribers
    ]
    (names,) = (listed / "_subscribers").glob("*.csv")
    assert names.read_text() == "number,name\n0,dns\n1,zeeks\n2,nobody\n"
    with pytest.raises(UsageError, match="lists: it exists already"):
        hub_spark("route", *zeeks, "--deliveries", listed)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["@archive", "@nothing.csv"], "nothing.csv: No such file"),
        (["@nothing", "@subscriptions.csv"], "nothing: there is no such archive"),
        (["@archive", "@subscriptions.csv", "--pairs"], "--pairs: --deliveries is needed"),
        (["@archive", "@subscriptions.csv", "--conf", "x"], "--conf: KEY=VALUE expected, 'x' given"),
        (["@archive", "@subscriptions.csv", "--counts", "@archive/_hub/state/x.csv"], "x.csv: File exists"),
    ],
)
@pytest.mark.usefixtures("spark", "zeeks")
def test_what_is_wrong_is_said(tmp_path: Path, arguments: list[str], said: str) -> None:
    """One error that names the option or the file."""
    with pytest.raises(UsageError, match=said):
        hub_spark("route", *(argument.replace("@", f"{tmp_path}/") for argument in arguments))
