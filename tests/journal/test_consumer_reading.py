"""`Reading`: one piece at a time, asked for when it is wanted, and again after an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import encode_frame
from hub.journal.block import pack
from peers.journal.consumers import served as module
from peers.journal.consumers.served import Reading
from peers.journal.readers import Deliver
from peers.wire.control import Notice, encode_notice
from peers.wire.kinds import Kind
from peers.wire.records import Fetch, Records, records_parts
from tests.hubs.eventually import eventually

pytestmark = pytest.mark.usefixtures("uncaught")


class Source:
    def __init__(self) -> None:
        self.asked: list[Fetch] = []
        self.cancelled = 0
        self._deliver: Deliver | None = None
        self.news = 0
        self.reading = Reading(self._fetch, ("/a",), self._tell)

    def _fetch(self, fetch: Fetch, deliver: Deliver) -> Callable[[], None]:
        self.asked.append(fetch)
        self._deliver = deliver
        return self._cancel

    def _cancel(self) -> None:
        self.cancelled += 1

    def _tell(self) -> None:
        self.news += 1

    def answer(self, outcome: bytes | RejectedError) -> None:
        assert self._deliver is not None
        self._deliver(outcome)


def piece(first: int, *values: int, following: int, head: int) -> bytes:
    blocks = [pack([(1, Batch.of("/a", values).frames)], first)[0]] if values else []
    parts = records_parts(Records(1, first, following, 0, head, blocks))
    return encode_frame(Kind.RECORDS, b"".join(parts))


async def test_a_piece_is_taken_record_by_record() -> None:
    source = Source()
    source.reading.more(5)
    source.reading.more(5)
    assert [fetch.start for fetch in source.asked] == [5]
    source.answer(piece(5, 1, 2, following=9, head=20))
    assert source.news == 1
    records = [source.reading.next_record() for _ in range(3)]
    assert [record and record.offset for record in records] == [5, 6, None]
    assert (source.reading.finished(), source.reading.finished()) == (9, None)
    source.reading.more(9)
    assert source.asked[-1].start == 9


async def test_it_pauses_where_nothing_of_what_came_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.001)
    source = Source()
    source.reading.more(0)
    source.answer(piece(0, following=3, head=3))
    source.reading.more(3)
    assert len(source.asked) == 1
    await eventually(lambda: source.news == 2)
    source.reading.more(3)
    assert len(source.asked) == 2


async def test_what_was_deleted_is_told() -> None:
    source = Source()
    source.reading.more(3)
    source.answer(encode_notice(Notice("error", 1, code=CloseCode.GONE, text="gone", offset=10)))
    assert (source.reading.gone_before, source.news, source.reading.error) == (10, 1, "")


@pytest.mark.parametrize("by", ["frame", "refusal"])
async def test_errors_are_told_and_it_is_tried_again(monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    monkeypatch.setattr(module, "_AGAIN_S", 0.001)
    source = Source()
    source.reading.more(3)
    error = Notice("error", 1, code=CloseCode.JOURNAL_FAILED, text="damaged")
    source.answer(encode_notice(error) if by == "frame" else RejectedError(error.code, error.text))
    assert "offset 3" in source.reading.error
    assert "damaged" in source.reading.error
    await eventually(lambda: source.news == 1)
    source.reading.more(3)
    source.answer(piece(3, 1, following=4, head=4))
    assert source.reading.error == ""


async def test_stopping() -> None:
    source = Source()
    source.reading.more(0)
    source.reading.stop()
    assert source.cancelled == 1
    source.answer(piece(0, 1, following=1, head=1))
    await asyncio.sleep(0)
    assert source.news == 0
