"""docs/quotas.md is true: its examples are read, its tables and figures are those of the hub."""

from __future__ import annotations

import re
from pathlib import Path

from hub.quotas.resource import Resource
from hub.quotas.usage import Usage, Whole

DOCUMENT = (Path(__file__).parents[3] / "docs" / "quotas.md").read_text()


def test_every_resource_is_in_the_table() -> None:
    section = DOCUMENT.partition("## What is charged")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [resource.value for resource in Resource]


def test_the_promised_parts() -> None:
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) MiB \|$", DOCUMENT, re.MULTILINE)
    assert len(rows) == 4
    for users, promised_mib in rows:
        whole = Whole(Resource.QUEUED_BYTES, 1 << 30)
        parts = []
        for _ in range(int(users)):
            usage = Usage(whole, "somebody", None, lambda: None)
            usage.require(usage.room)
            parts.append(usage.held)
        assert f"{parts[-1] / (1 << 20):.4g}".startswith(promised_mib)


def test_the_texts_of_refusals() -> None:
    whole = Whole(Resource.PREFIXES, 10_000_000)
    own = Usage(whole, "sensor-7", 512, lambda: None)
    own.require(500)
    assert own.rejection(20).text in DOCUMENT
    fair = Usage(Whole(Resource.PREFIXES, 1020), "sensor-7", None, lambda: None)
    fair.require(500)
    assert fair.rejection(20).text.replace("1020", "10000000") in DOCUMENT
