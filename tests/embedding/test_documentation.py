"""The examples of docs/embedding.md run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "embedding.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 4


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_document(block: str) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, "docs/embedding.md", "exec"), names)  # noqa: S102
    result = names["main"]()
    if result is not None:
        asyncio.run(result)
