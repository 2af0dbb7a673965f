"""The examples of docs/stores.md run against a hub with a store, one after the other, as a reader would."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from hub.settings.sections import StoresSettings
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load

TEXT = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
STORES = {"open": ["status=:memory:", "last=:memory:"], "feeds": ["last=/status/"]}
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


async def test_examples(capsys: Any) -> None:
    daemon = Daemon(load({"listen": ["tcp://127.0.0.1:0"], "stores": STORES}, {}), "hub")
    await daemon.start()
    url = daemon.endpoints[0].location
    assert len(PYTHON) == 5
    for block in PYTHON:
        names: dict[str, Any] = {}
        exec(compile(block.replace("tcp://127.0.0.1:7400", url), "docs/stores.md", "exec"), names)  # noqa: S102 -- our own page
        await (names["main"]() if "main" in names else asyncio.to_thread(names["blocking"]))
    await daemon.stop(asyncio.get_running_loop().time())
    shown = [line for line in capsys.readouterr().out.splitlines() if "[info" not in line]
    assert shown == [
        "{'state': 'up'}",
        "1 ['sensor-7']",
        "up up",
        "put sensor-8 None up True",
        "put sensor-8 up down False",
        "erase sensor-8 down None False",
        "last /status/door open",
        "live /status/door closed",
        "night True True",
    ]


def test_limits_are_those_of_the_settings() -> None:
    settings = StoresSettings()
    assert "| `stores.entries`, `stores.bytes` | 1,000,000, 512 MiB |" in TEXT
    assert "| `stores.entry_bytes` | 512 KiB |" in TEXT
    assert "| `stores.changes`, `stores.changes_bytes` | 65,536, 16 MiB |" in TEXT
    assert (settings.entries, settings.bytes, settings.entry_bytes) == (1_000_000, 512 << 20, 512 << 10)
    assert (settings.user_entries, settings.user_bytes) == (settings.entries, settings.bytes)
    assert (settings.changes, settings.changes_bytes) == (65_536, 16 << 20)
