"""The reader process, here as a function and a thread: what it answers, and when it ends."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.errors import CloseCode
from hub.frame import HEADER, HEADER_BYTES, Frame, encode_frame, iterate_frames
from peers.journal import reader
from peers.journal.forms import Order
from peers.wire.control import Notice, decode_notice
from peers.wire.kinds import Kind
from peers.wire.records import Fetch, decode_records, encode_fetch
from tests.journal.files import AT_US, fill, hurt_block, opened, records


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    journal = opened(path)
    fill(journal, 10, 10, 10)
    journal.close()
    return path


class Served:
    def __init__(self, path: Path) -> None:
        self.ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, args=(path,))
        self._thread.start()

    def _serve(self, path: Path) -> None:
        with self._theirs:
            reader.serve(str(path), self._theirs)

    def ask(self, data: bytes) -> None:
        self.ours.sendall(data)

    def answer(self) -> Frame:
        header = self._exactly(HEADER_BYTES)
        body = self._exactly(HEADER.unpack(header)[0])
        (frame,) = iterate_frames(header + body)
        return frame

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.ours.recv(size - len(data))
            assert chunk, "the reader has ended"
            data += chunk
        return data

    def notice(self) -> Notice:
        frame = self.answer()
        assert frame.kind == Kind.NOTICE
        return decode_notice(frame.body)

    def end(self) -> None:
        self.ours.close()
        self._thread.join()


@pytest.fixture
def served(path: Path) -> Iterator[Served]:
    served = Served(path)
    yield served
    served.end()


def test_answers_in_order(served: Served) -> None:
    orders = b"".join(encode_fetch(Fetch(request, start=request)) for request in (1, 2, 3))
    for place in range(0, len(orders), 5):
        served.ask(orders[place : place + 5])
    for request in (1, 2, 3):
        frame = served.answer()
        assert frame.kind == Kind.RECORDS
        found = decode_records(frame.body)
        assert (found.request, found.start, found.next, found.head) == (request, request, 30, 30)
        assert [record.offset for record in records(found.blocks)] == list(range(request, 30))


def test_time(served: Served) -> None:
    served.ask(encode_fetch(Fetch(1, time=AT_US + 10_000_000, end=25)))
    found = decode_records(served.answer().body)
    assert (found.start, found.next) == (10, 25)


def test_gone(served: Served) -> None:
    served.ask(encode_fetch(Fetch(7, start=31)))
    notice = served.notice()
    assert (notice.request, notice.code, notice.offset) == (7, CloseCode.GONE, 0)
    assert notice.text == "offset 31 is behind the end of the journal, which is 30"


def test_all_must_grant(served: Served) -> None:
    mine, theirs = (("*", True),), (("/t/0", True), ("/t/1", False))
    for granted, wanted in (((mine,), 30), ((mine, mine), 30), ((mine, theirs), 10), ((theirs, mine), 10), (((),), 0)):
        served.ask(encode_fetch(Order(1, granted=granted)))
        assert len(records(decode_records(served.answer().body).blocks)) == wanted


def test_damage(path: Path, served: Served) -> None:
    for offset in (0, 10, 20):
        hurt_block(path, offset)
    served.ask(encode_fetch(Fetch(7)))
    notice = served.notice()
    assert (notice.request, notice.code) == (7, CloseCode.JOURNAL_FAILED)
    assert ": offsets 0 to 9: the block is damaged: its checksum does not match; see" in notice.text


def test_a_journal_that_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "later"
    served = Served(path)
    served.ask(encode_fetch(Fetch(1)))
    assert served.notice().code == CloseCode.TRY_AGAIN_LATER
    journal = opened(path)
    fill(journal, 3)
    served.ask(encode_fetch(Fetch(2)))
    assert decode_records(served.answer().body).head == 3
    served.end()


def test_what_is_no_fetch(served: Served) -> None:
    served.ask(encode_frame(Kind.FETCH, b"\xc1") + encode_fetch(Fetch(1)))
    assert served.notice().code == CloseCode.BAD_DATA
    assert served.answer().kind == Kind.RECORDS


def test_many_parts(tmp_path: Path) -> None:
    journal = opened(tmp_path / "many")
    fill(journal, *[1] * 120)
    journal.close()
    served = Served(tmp_path / "many")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_PARTS_PER_CALL", 7)
        served.ask(encode_fetch(Fetch(1)))
        assert len(records(decode_records(served.answer().body).blocks)) == 120
    served.end()


def test_the_program(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a path and a descriptor, gives way to the hub, and ends when the hub does."""
    ours, theirs = socket.socketpair()
    nice: list[int] = []
    monkeypatch.setattr(reader.os, "nice", nice.append)
    monkeypatch.setattr(sys, "argv", ["reader", str(path), "", str(theirs.detach())])
    ours.sendall(encode_fetch(Fetch(1)))
    ours.shutdown(socket.SHUT_WR)
    reader.main()
    assert HEADER.unpack(ours.recv(HEADER_BYTES))[1] == Kind.RECORDS
    ours.close()
    assert nice == [5]


def test_a_hub_that_dies_in_the_middle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(reader.os, "nice", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["reader", str(path), "", str(theirs.detach())])
    ours.sendall(encode_fetch(Fetch(1)))
    ours.close()
    reader.main()
