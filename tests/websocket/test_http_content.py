"""What bodies mean: one value, or one a line."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, RejectedError
from hub.limits import Overflow
from peers.commands.commands import Publication
from peers.websocket.http_content import (
    FRAME_BYTES,
    RANGES_LIMIT,
    Content,
    ContentError,
    Publishing,
    Target,
    Values,
    content_of,
    target_of,
    wanted_of,
)
from peers.wire.hello import QueueWish

LIMIT = 1_000_000


def content(kind: str = "application/x-ndjson", limit: int = LIMIT) -> Content:
    found = content_of(kind, limit)
    assert found is not None
    return found


def all_of(reader: Content, *pieces: bytes) -> list[Values]:
    found = [values for piece in pieces for values in reader.take(piece)]
    return found + list(reader.finish())


def unpacked(found: list[Values]) -> list[Any]:
    return [msgspec.msgpack.decode(packed) for values in found for packed in values.packed]


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/json; charset=latin-1", "application/json, application/json", "a/b;c=d"]
)
def test_types_that_are_not(kind: str) -> None:
    assert content_of(kind, LIMIT) is None


def test_one_value() -> None:
    assert unpacked(all_of(content("application/json"), b'{"a":', b" [1.5]}\n")) == [{"a": [1.5]}]
    packed = msgspec.msgpack.encode({"a": b"\x00"})
    (found,) = all_of(content("application/msgpack"), packed[:2], packed[2:])
    assert found == Values([packed], 0)


@given(st.lists(st.recursive(st.none() | st.integers(-9, 9) | st.text(), st.lists, max_leaves=4)), st.integers(1, 50))
def test_lines_cut_anywhere(values: list[Any], step: int) -> None:
    for end in ("\n", "\r\n", "\n\n"):
        text = end.join(json.dumps(value) for value in values).encode()
        pieces = [text[at : at + step] for at in range(0, len(text), step)]
        found = all_of(content(), *pieces)
        assert unpacked(found) == values


def test_lines_go_together() -> None:
    line = json.dumps("x" * 1000).encode() + b"\n"
    found = all_of(content(), line * 200)
    assert sum(len(values.packed) for values in found) == 200
    assert len(found) == 4
    assert all(sum(map(len, values.packed)) <= FRAME_BYTES for values in found)
    assert [values.line for values in found] == [1, 1 + len(found[0].packed), found[2].line, found[3].line]


@pytest.mark.parametrize(
    ("text", "line", "before"),
    [
        (b"1\n2\nx\n4\n", 3, 2),
        (b"1\n\n\n[1,\n", 4, 1),
        (b"1 2\n", 1, 0),
        (b"1\n" + b"[" * 600 + b"]" * 600, 2, 1),
        (b"1\n18446744073709551616\n", 2, 1),
        (b'1\n"\xff"\n', 2, 1),
        (b"1\n2\n3\n{", 4, 3),
    ],
)
def test_a_line_that_is_wrong(text: bytes, line: int, before: int) -> None:
    reader = content()
    found: list[Values] = []
    with pytest.raises(ContentError) as refused:  # noqa: PT012 -- what came before the error counts
        for values in reader.take(text):
            found.append(values)  # noqa: PERF402 -- the same
        found += reader.finish()
    assert (refused.value.line, refused.value.code) == (line, CloseCode.BAD_DATA)
    assert len(unpacked(found)) == before


@pytest.mark.parametrize("kind", ["application/json", "application/msgpack", "application/x-ndjson"])
def test_what_is_too_large(kind: str) -> None:
    reader = content(kind, 1000)
    with pytest.raises(ContentError) as refused:  # noqa: PT012 -- how much is held is looked at meanwhile
        for _ in range(1001):
            list(reader.take(b"1"))
            assert reader.held_bytes <= 1000
    assert refused.value.code == CloseCode.TOO_BIG
    assert refused.value.line == (kind == "application/x-ndjson")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b""),
        ("application/json", b"{"),
        ("application/json", b"1 2"),
        ("application/json", b'"\xff"'),
        ("application/json", b"[" * 100_000),
        ("application/msgpack", b""),
        ("application/msgpack", b"\x01\x01"),
        ("application/msgpack", b"\xc1"),
        ("application/msgpack", b"\x91" * 1000),
        ("application/msgpack", b"\xdf\xff\xff\xff\xff"),
    ],
)
def test_what_is_no_value(kind: str, body: bytes) -> None:
    with pytest.raises(ContentError) as refused:
        all_of(content(kind), body)
    assert refused.value.code == CloseCode.BAD_DATA


def test_too_many_parts() -> None:
    for kind, line in (("application/json", 0), ("application/x-ndjson", 2)):
        with pytest.raises(ContentError) as refused:
            all_of(content(kind), b"\n" if line else b"", b"[" + b"0," * 200_000 + b"0]")
        assert (refused.value.code, refused.value.line) == (CloseCode.TOO_BIG, line)


class Hub:
    def __init__(self, *, confirm: bool = False) -> None:
        self.published: list[Publication] = []
        self.post = Publishing(Target(b"/a", 0, confirm), self._act)

    def _act(self, publication: Publication) -> int:
        self.published.append(publication)
        if not publication.confirm:
            self.post.confirmed(publication.request)
        return 0

    def publish(self, count: int, line: int = 1) -> None:
        self.post.publish(Values([b"\x01"] * count, line))

    def answer(self) -> tuple[int, Any]:
        self.post.is_done = True
        assert self.post.is_settled
        status, body = self.post.answer()
        return status.value, json.loads(body)


def test_nothing_behind_a_refusal() -> None:
    hub = Hub()
    hub.publish(2, 1)
    hub.post.refuse(CloseCode.BAD_DATA, "no JSON", 3)
    hub.publish(2, 4)
    assert len(hub.published) == 1
    told = {"error": {"code": 1007, "text": "no JSON", "line": 3}, "messages": 2}
    assert hub.answer() == (400, told)


def test_it_waits_for_the_journal() -> None:
    hub = Hub(confirm=True)
    for _ in range(3):
        hub.publish(2)
    hub.post.is_done = True
    for request, offset in ((1, 10), (2, 12), (3, 20)):
        assert not hub.post.is_settled
        hub.post.recorded(request, offset, 2)
    assert hub.answer() == (200, {"messages": 6, "offsets": [[10, 4], [20, 2]]})


def test_what_is_not_recorded() -> None:
    hub = Hub(confirm=True)
    hub.publish(1, 1)
    hub.publish(1, 2)
    hub.post.refused(RejectedError(CloseCode.JOURNAL_FAILED, "full"), 1)
    assert hub.post.is_refused
    assert not hub.post.is_settled
    hub.post.recorded(2, 7, 1)
    told = {"error": {"code": 4012, "text": "full", "line": 1}, "messages": 1, "offsets": [[7, 1]]}
    assert hub.answer() == (503, told)


def test_many_ranges() -> None:
    hub = Hub(confirm=True)
    for number in range(RANGES_LIMIT + 5):
        hub.publish(1)
        hub.post.recorded(number + 1, number * 2, 1)
    status, told = hub.answer()
    assert (status, len(told["offsets"]), told["untold"]) == (200, RANGES_LIMIT, 5)


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
