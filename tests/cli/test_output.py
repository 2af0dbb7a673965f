"""Standard output, written by a thread."""

from __future__ import annotations

import asyncio
import os

import pytest

from peers.cli.output import Output


async def test_everything_is_written_in_order() -> None:
    reader, writer = os.pipe()
    output = Output(writer)
    for number in range(1000):
        await output.write(b"%d\n" % number)
    await output.write(b"")
    await output.flush()
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == b"".join(b"%d\n" % number for number in range(1000))


async def test_a_stalled_reader_does_not_stall_the_loop() -> None:
    reader, writer = os.pipe()
    output = Output(writer)
    text = b"x" * 1_000_000  # more than a pipe holds
    await output.write(text)
    second = asyncio.ensure_future(output.write(text))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not second.done()
    received = 0
    while received < 2 * len(text):
        received += len(await asyncio.to_thread(os.read, reader, 1 << 16))
    await second
    await output.flush()
    assert received == 2 * len(text)
    os.close(reader)
    os.close(writer)


async def test_a_reader_that_has_gone_is_told() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output = Output(writer)
    await output.write(b"x")
    with pytest.raises(BrokenPipeError):
        await output.write(b"y")
    os.close(writer)


async def test_an_error_that_nobody_asks_for_is_no_complaint() -> None:
    """A command that ends without another write leaves no future behind that asyncio would complain about."""
    reader, writer = os.pipe()
    os.close(reader)
    output = Output(writer)
    await output.write(b"x")
    under_way = output._under_way
    assert under_way is not None
    await asyncio.wait([under_way])
    assert not under_way._log_traceback
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
    received = 0
    while received < 1_000_000:
        received += len(await asyncio.to_thread(os.read, reader, 1 << 16))
    await output.write(b"more")
    await output.flush()
    assert os.read(reader, 10) == b"more"
    os.close(reader)
    os.close(writer)
