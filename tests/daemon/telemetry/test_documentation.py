"""The example of docs/observability.md runs, and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.telemetry.collector import collecting
from tests.daemon.telemetry.test_telemetry import running

DOCUMENT = Path(__file__).parents[3] / "docs" / "observability.md"
SECTION = DOCUMENT.read_text().partition("## Traces\n")[2].partition("\n## ")[0]
[EXAMPLE] = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


async def test_one_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """Publisher, hub and reader tell of one trace."""
    async with collecting() as collector:
        async with running(endpoint=collector.url, every=0) as daemon:
            names: dict[str, Any] = {"__name__": "example"}
            url = daemon.endpoints[0].location
            exec(compile(EXAMPLE.replace("tcp://127.0.0.1:7400", url), str(DOCUMENT), "exec"), names)  # noqa: S102
            await names["main"]()
        assert "True\n" in capsys.readouterr().out
        assert [one.name for one in collector.spans] == ["route /orders"]
        assert all(any(one.parent_span_id) for one in collector.spans)
