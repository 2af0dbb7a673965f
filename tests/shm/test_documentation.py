"""The examples of docs/shared-memory.md run as they stand, and its limits are those of the settings."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from hub.settings.sections import SharedMemorySettings
from peers.client import connect
from peers.client.settings import ClientSettings
from peers.shm.ring import BLOCKS_LIMIT
from tests.shm.hubs import SharingHub

TEXT = (Path(__file__).parents[2] / "docs" / "shared-memory.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", PYTHON, ids=range(len(PYTHON)))
async def test_python(hub: SharingHub, block: str) -> None:
    text = block.replace("unix:///run/hub.sock", hub.endpoint.location)
    code = compile(text, "docs/shared-memory.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {"connect": connect}
    made = eval(code, names)  # noqa: S307 -- our own page
    if inspect.isawaitable(made):
        await made
    assert hub.node.shared.messages_total > 0


def test_limits() -> None:
    shm, client = SharedMemorySettings(), ClientSettings()
    assert (shm.over_bytes, shm.client_descriptors, shm.descriptors) == (64 << 10, 64, 1024)
    assert (shm.client_bytes, shm.segments, shm.segment_bytes) == (64 << 20, 4, 256 << 20)
    assert (client.ring_bytes, client.lease_s, BLOCKS_LIMIT) == (64 << 20, 1.0, 4096)
