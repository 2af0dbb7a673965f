"""The examples of docs/names-and-labels.md run to their end, and print what they say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.test_blocking import HubThread
from tests.hubs.hub import Hub

DOCUMENT = Path(__file__).parents[2] / "docs" / "names-and-labels.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
URL = "tcp://127.0.0.1:7400"


@pytest.fixture
def hub() -> Iterator[Hub]:
    thread = HubThread()
    yield thread.start()
    thread.stop()


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_document(block: str, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block.replace(URL, hub.url), str(DOCUMENT), "exec"), names)  # noqa: S102
    asyncio.run(names["main"]())
    printed = capsys.readouterr().out
    for said in re.findall(r"print\(.*\)  # (.*)$", block, re.MULTILINE):
        assert said.partition(":")[0] in printed


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 4
