"""What commands read, line by line, and what they write."""

from __future__ import annotations

import asyncio
import gzip
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.cli import lines as lines_module
from peers.cli.lines import Inflater, Input, InputError, LineSplitter
from peers.cli.output import Output

CHUNKS = st.lists(st.binary(max_size=8))


def split(chunks: list[bytes]) -> list[bytes]:
    splitter = LineSplitter()
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    return found + splitter.finish()


def inflate(chunks: list[bytes]) -> bytes:
    inflater = Inflater()
    return b"".join(piece for chunk in chunks for piece in inflater.feed(chunk)) + inflater.finish()


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"bc"])))
def test_lines_do_not_depend_on_how_they_are_cut(chunks: list[bytes]) -> None:
    expected = [line.removesuffix(b"\r") for line in b"".join(chunks).split(b"\n")]
    if not b"".join(chunks).endswith(b"\n") and b"".join(chunks):
        expected[-1] = b"".join(chunks).split(b"\n")[-1]
    else:
        expected.pop()
    assert split(chunks) == expected


def test_a_line_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LINE_LIMIT_BYTES", 10)
    splitter = LineSplitter()
    splitter.feed(b"12345\n1234567890")
    with pytest.raises(InputError, match="a line is longer"):
        splitter.feed(b"1")


@given(CHUNKS)
def test_what_is_not_gzip_stays_as_it_is(chunks: list[bytes]) -> None:
    chunks = [b"x", *chunks]
    assert inflate(chunks) == b"".join(chunks)


@given(st.lists(st.binary(), min_size=1, max_size=4), st.integers(1, 40))
def test_gzip_is_undone_however_it_is_cut(members: list[bytes], size: int) -> None:
    packed = b"".join(gzip.compress(member) for member in members) + bytes(5)
    assert inflate([packed[at : at + size] for at in range(0, len(packed), size)]) == b"".join(members)


def test_pieces_are_bounded() -> None:
    pieces = list(Inflater().feed(gzip.compress(bytes(64 * 2**20))))
    assert sum(map(len, pieces)) == 64 * 2**20
    assert max(map(len, pieces)) <= 256 * 1024


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda packed: packed[:-9], "it ends too early"),
        (lambda packed: packed[:-8] + b"wrongsum", "incorrect data check"),
        (lambda packed: packed[:10] + b"\xff" * 20, "damaged gzip"),
        (lambda packed: packed + b"more", "incorrect header check"),
    ],
)
def test_damaged_gzip_is_an_error(damage: object, reason: str) -> None:
    """Cut off, changed, or with something else behind it: never silently half of the content."""
    with pytest.raises(InputError, match=reason):
        inflate([damage(gzip.compress(b"some content that is compressed"))])  # type: ignore[operator]


async def test_the_progress_of_a_file_is_known(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(zlib.compress(b"x") + b"\n" + bytes(1000))
    with Input(str(file)) as source:
        assert (source.read_bytes, source.size_bytes) == (0, file.stat().st_size)
        async for _ in source.lines():
            pass
        assert source.read_bytes == source.size_bytes


async def test_a_pipe_is_read_as_it_is_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)  # opened for both, so that opening does not wait
    with Input(str(pipe)) as source:
        assert source.size_bytes is None
        lines = source.lines()
        first = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)
        assert not first.done()
        os.write(writer, b"one\ntw")
        assert await first == [b"one"]
        os.write(writer, b"o\nthree\n")
        assert await anext(lines) == [b"two", b"three"]
        await lines.aclose()  # type: ignore[attr-defined]
    os.close(writer)


async def read_all(reader: int, size: int) -> None:
    while size > 0:
        size -= len(await asyncio.to_thread(os.read, reader, 1 << 16))
    assert not size


async def test_a_stalled_reader_does_not_stall_the_loop() -> None:
    reader, writer = os.pipe()
    output = Output(writer)
    text = b"x" * 1_000_000  # more than a pipe holds
    await output.write(text)
    second = asyncio.ensure_future(output.write(text))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not second.done()
    await read_all(reader, 2 * len(text))
    await second
    await output.flush()
    os.close(reader)
    os.close(writer)


async def test_a_wait_that_is_cancelled_loses_nothing_of_what_was_given() -> None:
    reader, writer = os.pipe()
    output = Output(writer)
    await output.write(b"x" * 1_000_000)
    waiting = asyncio.ensure_future(output.flush())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await read_all(reader, 1_000_000)
    await output.write(b"more")
    await output.flush()
    assert os.read(reader, 10) == b"more"
    os.close(reader)
    os.close(writer)
