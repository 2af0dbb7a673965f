"""What `hub sub --format count` writes, in its order."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from peers.cli import display
from peers.cli import output as output_module
from peers.cli.display import Stop, count
from peers.cli.output import Output
from peers.client import MessageStream

PATIENCE_S = 60


class OneAtATime:
    """A stream that brings a message each time."""

    async def batch(self) -> list[Any]:
        """Bring it."""
        return ["message"]


async def test_the_total_is_the_last_line_however_late_the_others_are_written(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the thread that writes gets no CPU."""
    written, write_all = threading.Event(), output_module._write_all

    def write_late(descriptor: int, text: bytes) -> None:
        assert written.wait(PATIENCE_S)
        write_all(descriptor, text)

    monkeypatch.setattr(output_module, "_write_all", write_late)
    monkeypatch.setattr(display, "_TELL_S", 0)
    output = Output(1)
    asyncio.get_running_loop().call_later(0.01, written.set)
    stream = cast("MessageStream", OneAtATime())
    assert await count(stream, lambda messages: messages, Stop(limit_messages=1, timeout_s=None), output) == 0
    await output.flush()
    first, last = capfd.readouterr().out.splitlines()
    assert first.startswith("0 messages  ")
    assert last.startswith("1 message in ")
