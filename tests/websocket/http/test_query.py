"""What a URL asks for."""

from __future__ import annotations

import pytest

from hub.errors import RejectedError
from hub.overflow import Overflow
from peers.websocket.http.query import is_served, target_of, wanted_of
from peers.wire.hello import QueueWish


@pytest.mark.parametrize(
    ("path", "query", "key"),
    [
        ("/v1/publish/a/b", "", b"/a/b"),
        ("/v1/publish/a%20b/%C3%A9", "", "/a b/é".encode()),
        ("/v1/publish", "topic=a/b", b"a/b"),
        ("/v1/publish//a", "confirm=1", b"//a"),
    ],
)
def test_topics(path: str, query: str, key: bytes) -> None:
    target = target_of(path, query)
    assert (target.key, target.flags, target.confirm) == (key, 0, "confirm" in query)


def test_labels_and_names() -> None:
    target = target_of("/v1/publish/a", "label=x&label=y&sender=org.example.Me&to=org.example.You")
    assert target.flags
    assert target.publication([b"\x01"], 1).messages == 1


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v1/publish", ""),
        ("/v1/publish/a", "topic=b"),
        ("/v1/publish/a", "confirm=2"),
        ("/v1/publish/a", "confirm=1&confirm=1"),
        ("/v1/publish/a", "confrim=1"),
        ("/v1/publish/%00", ""),
        ("/v1/publish/%ff", ""),
        ("/v1/publish/a", "label=%ff"),
        ("/v1/publish/" + "x" * 1100, ""),
        ("/v1/publish/a", "label="),
    ],
)
def test_no_target(path: str, query: str) -> None:
    with pytest.raises(RejectedError):
        target_of(path, query)


def test_paths() -> None:
    assert all(map(is_served, ("/v1/publish", "/v1/publish/a", "/v1/events")))
    assert not any(map(is_served, ("/v1/publisher", "/v1/events/", "/v1/hub", "/")))


@pytest.mark.parametrize(
    ("query", "last_ids", "start", "time_us"),
    [
        ("prefix=/a", [], None, None),
        ("prefix=/a&from=7", [], 7, None),
        ("prefix=/a&from=7", ["41"], 42, None),
        ("prefix=/a", [""], None, None),
        ("prefix=/a&from=1970-01-01T00:00:01.5Z", [], None, 1_500_000),
        ("prefix=/a&from=1970-01-01T02:00:00%2B01:00", [], None, 3_600_000_000),
        ("prefix=/a&from=1960-01-01", [], None, 0),
    ],
)
def test_where_to_begin(query: str, last_ids: list[str], start: int | None, time_us: int | None) -> None:
    wanted = wanted_of(query, last_ids)
    assert (wanted.start, wanted.time_us, wanted.has_start) == (start, time_us, (start, time_us) != (None, None))


def test_a_queue() -> None:
    wanted = wanted_of("prefix=/a&prefix=&overflow=disconnect&messages=10&name=x", [])
    assert (wanted.prefixes, wanted.name) == (["/a", ""], "x")
    assert wanted.queue == QueueWish(messages=10, overflow=Overflow.DISCONNECT)


@pytest.mark.parametrize(
    ("query", "last_ids"),
    [
        ("", []),
        ("from=1", []),
        ("prefix=%00", []),
        ("prefix=/a&from=x", []),
        ("prefix=/a&from=-1", []),
        ("prefix=/a&from=" + "9" * 30, []),
        ("prefix=/a", ["x"]),
        ("prefix=/a", ["1", "2"]),
        ("prefix=/a&overflow=drop", []),
        ("prefix=/a&messages=0", []),
        ("prefix=/a&bytes=x", []),
        ("prefix=/a&from=1&overflow=disconnect", []),
        ("prefix=/a&since=1", []),
        ("&".join(["prefix=a"] * 10_001), []),
    ],
)
def test_no_stream(query: str, last_ids: list[str]) -> None:
    with pytest.raises(RejectedError):
        wanted_of(query, last_ids)
