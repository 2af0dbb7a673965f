"""The examples of docs/consumers.md run against a hub with a journal, one after the other, as a reader would."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

from hub.settings.sections import JournalSettings
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "consumers.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


async def test_examples(tmp_path: Path, capsys: Any) -> None:
    """The first program acknowledges a message; the second one gets the next, and not that one again."""
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "journal": {"path": str(tmp_path / "journal")}}, {})
    daemon = Daemon(loaded, "hub")
    await daemon.start()
    url = daemon.endpoints[0].location
    assert len(PYTHON) == 3
    for block in PYTHON:
        names: dict[str, Any] = {}
        exec(compile(block.replace("tcp://127.0.0.1:7400", url), "docs/consumers.md", "exec"), names)  # noqa: S102 -- our own page
        if inspect.iscoroutinefunction(names["main"]):
            await names["main"]()
        else:
            await asyncio.to_thread(names["main"])
    await daemon.stop(asyncio.get_running_loop().time())
    lines = [line for line in capsys.readouterr().out.splitlines() if "{" in line and "[" not in line]
    assert lines == ["0 /app/orders {'id': 17}", "{'id': 18} 1"]


def test_limits_are_those_of_the_settings() -> None:
    settings = JournalSettings()
    for name, shown in (("consumers", "1,000"), ("consumer_messages", "10,000"), ("consumer_bytes", "8 MiB")):
        assert f"| `journal.{name}` | {shown} |" in TEXT
    assert (settings.consumers, settings.consumer_messages, settings.consumer_bytes) == (1_000, 10_000, 8 << 20)
