"""Options of `format("hub")`: from texts to values; and ranges of offsets, cut into the shares of tasks."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import HubError
from peers.spark.connector.fields import default_schema
from peers.spark.connector.options import (
    EARLIEST,
    LATEST,
    OptionError,
    Position,
    read_sink_options,
    read_source_options,
)
from peers.spark.connector.shares import PARTITION_LEAST_ROWS, PARTITION_MOST_ROWS, OffsetRange, split
from peers.spark.connector.source import StreamReader
from pyspark_hub import DefaultSource

URL = {"url": "tcp://127.0.0.1:7400"}
OFFSETS = st.integers(0, 10**9)


def refusal(options: dict[str, str], *, streaming: bool = False) -> str:
    with pytest.raises(OptionError) as caught:
        read_source_options(options, streaming=streaming)
    return str(caught.value)


def test_defaults() -> None:
    options = read_source_options(URL, streaming=False)
    assert (options.topics, options.starting, options.ending) == (("",), None, LATEST)
    assert (options.max_offsets, options.fail_on_data_loss, options.decode) == (500_000, True, "raw")
    assert 2 <= options.partitions <= 4
    access = options.access
    assert (access.num_retries, access.retry_interval_s, access.timeout_s) == (3, 0.5, 30)


def test_values() -> None:
    given = {
        "URL": "unix:///run/hub.sock",
        "Topics": "/zeek/, /app/",
        "startingoffsets": " Earliest ",
        "ENDINGOFFSETS": "7",
        "maxOffsetsPerTrigger": "10",
        "minPartitions": "3",
        "failOnDataLoss": "FALSE",
        "numRetries": "0",
        "retryIntervalMs": "0",
        "timeoutMs": "1500",
        "token": "hush",
        "hub": "Site-B",
        "decode": "JSON",
    }
    options = read_source_options(given, streaming=False)
    assert (options.topics, options.decode) == (("/zeek/", "/app/"), "json")
    assert (options.starting, options.ending) == (EARLIEST, Position("offset", 7))
    assert (options.max_offsets, options.partitions, options.fail_on_data_loss) == (10, 3, False)
    assert (options.access.num_retries, options.access.retry_interval_s, options.access.timeout_s) == (0, 0.0, 1.5)
    assert (options.access.token, options.access.hub) == ("hush", "Site-B")


@pytest.mark.parametrize(
    ("options", "starting", "ending"),
    [
        ({"startingOffsets": '{"offset": 3, "journal": "00"}', "endingOffsets": '{"offset": 5}'}, ("offset", 3), 5),
        ({"startingTimestamp": "5", "endingTimestamp": "9"}, ("time", 5), 9),
    ],
    ids=["as checkpoints show them", "times"],
)
def test_positions(options: dict[str, str], starting: tuple[str, int], ending: int) -> None:
    found = read_source_options(URL | options, streaming=False)
    assert (found.starting, found.ending) == (Position(*starting), Position(starting[0], ending))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option url is missing"),
        ({"url": "http://x"}, "'http://x' is not the URL of a hub"),
        (URL | {"urls": "x"}, "there is no option urls: did you mean url?"),
        (URL | {"maxoffsets": "1"}, "did you mean maxOffsetsPerTrigger?"),
        (URL | {"includeHeaders": "x"}, "there are url, token, "),
        (URL | {"startingOffsets": '{"offset": "x"}'}, "is not earliest, latest or an offset"),
        (URL | {"startingOffsets": "{1}"}, "is not earliest, latest or an offset"),
        (URL | {"path": "x"}, "load(), save() and start() take no path"),
        (URL | {"encode": "x"}, "option encode is for writing"),
        (URL | {"startingOffsets": "-1"}, "'-1' is not earliest, latest or an offset"),
        (URL | {"endingOffsets": "earliest"}, "'earliest' is not latest or an offset"),
        (URL | {"startingOffsets": "1", "startingTimestamp": "1"}, "exclude each other"),
        (URL | {"startingTimestamp": "2026-11-21"}, "is not a whole number from 0 on"),
        (URL | {"minPartitions": "0"}, "'0' is not a whole number from 1 on"),
        (URL | {"maxOffsetsPerTrigger": str(2**63)}, "is not a whole number from 1 on"),
        (URL | {"failOnDataLoss": "yes"}, "'yes' is not true or false"),
        (URL | {"topics": "/a\x00"}, "comma list of topic prefixes"),
        (URL | {"decode": "avro"}, "'avro' is none of raw, json, schema"),
    ],
)
def test_refusals(options: dict[str, str], said: str) -> None:
    assert said in refusal(options)


def test_streams() -> None:
    assert "a stream has no end" in refusal(URL | {"endingTimestamp": "1"}, streaming=True)
    read_source_options(URL | {"checkpointLocation": "/x", "queryName": "q"}, streaming=True)


def test_the_token_is_nowhere() -> None:
    secret = URL | {"token": "hush"}
    assert "hush" not in repr(read_source_options(secret, streaming=False))
    assert "hush" not in repr(read_sink_options(secret))
    assert "hush" not in refusal(secret | {"tokens": "hush"})


def test_errors_come_without_the_calls_below() -> None:
    with pytest.raises(OptionError) as misspelled:
        DefaultSource({"urls": "x"}).schema()
    away = read_source_options({"url": "tcp://127.0.0.1:1", "numRetries": "0"}, streaming=True)
    stream = StreamReader(default_schema("raw"), away)
    with pytest.raises(HubError) as unreachable:
        stream.initialOffset()
    with pytest.raises(HubError) as unread:
        list(stream.read(OffsetRange(0, 1, "00" * 8)))
    for caught in (misspelled, unreachable, unread):
        shown = "".join(traceback.format_exception(caught.value))
        assert shown.count("Traceback") == 1
        assert "read_source_options" not in shown
        assert "connection.py" not in shown


def test_sink() -> None:
    options = read_sink_options(URL)
    assert (options.topic, options.encode, options.application, options.version) == (None, None, "", 0)
    options = read_sink_options(URL | {"topic": "/a", "encode": "Text", "txnAppId": "n", "txnVersion": "3"})
    assert (options.topic, options.encode, options.application, options.version) == ("/a", "text", "n", 3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": ""}, "'' is not a topic"),
        ({"encode": "avro"}, "'avro' is none of raw, json, text"),
        ({"txnVersion": "1"}, "txnAppId and txnVersion go together"),
        ({"txnAppId": "x"}, "txnAppId and txnVersion go together"),
        ({"txnAppId": "", "txnVersion": "1"}, "is not a name of 1 to 255 bytes"),
        ({"startingOffsets": "1"}, "option startingOffsets is for reading"),
        ({"hub": "b"}, "option hub is for reading"),
    ],
)
def test_refusals_of_a_sink(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_sink_options(URL | options)
    assert said in str(caught.value)


@given(start=OFFSETS, rows=OFFSETS, partitions=st.integers(1, 100))
def test_shares_cover_the_range_evenly(start: int, rows: int, partitions: int) -> None:
    """Each offset is in one share, in order; shares differ by one at most and are neither too small nor too large."""
    shares = split(start, start + rows, partitions, "ab")
    assert [share.start for share in shares[1:]] == [share.end for share in shares[:-1]]
    assert [shares[0].start, shares[-1].end] == [start, start + rows] if rows else not shares
    sizes = [share.end - share.start for share in shares]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert not sizes or max(sizes) <= PARTITION_MOST_ROWS
    assert len(shares) <= 1 or min(sizes) >= PARTITION_LEAST_ROWS
    assert split(start + rows + 2, start, partitions, "ab") == []
