"""Constants that are typed again in compiled twins are those of Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hub import frame, runs
from hub.journal import layout, packing

HUB = Path(__file__).parents[2] / "hub"

RUNS = {
    "HEADER_BYTES": frame.HEADER_BYTES,
    "BATCH_COUNT_BYTES": frame.BATCH_COUNT.size,
    "BATCH_LIMIT_MESSAGES": frame.BATCH_LIMIT_MESSAGES,
    "RUNS_LIMIT": runs.RUNS_LIMIT,
    "FLAG_BATCH": frame.FLAG_BATCH,
}

PACKING = {
    "HEADER_BYTES": layout.BLOCK_HEADER.size,
    "CHECKED_FROM": layout.CHECKED_FROM,
    "SPARSE": layout.SPARSE,
    "ENCODINGS": layout.ENCODINGS,
    "RECORDS_LIMIT": layout.RECORDS_LIMIT,
    "TOPIC_LIMIT_BYTES": layout.TOPIC_LIMIT_BYTES,
    "SECTION_LIMIT_BYTES": layout.SECTION_LIMIT_BYTES,
    "OFFSET_LIMIT": layout.OFFSET_LIMIT,
    "FRAME_HEADER_BYTES": frame.HEADER_BYTES,
    "BATCH_COUNT_BYTES": frame.BATCH_COUNT.size,
    "BATCH_LIMIT_MESSAGES": frame.BATCH_LIMIT_MESSAGES,
    "KIND_MESSAGES": frame.KIND_MESSAGES,
    "FLAG_BATCH": frame.FLAG_BATCH,
    "FLAG_TAGGED": frame.FLAG_TAGGED,
    "TOPIC_LENGTH_BYTES": frame._TOPIC_LENGTH.size,
    "KEY_BYTES_IMPOSSIBLE": 1 << 8 * frame._TOPIC_LENGTH.size,  # more than a length can say
    "BLOCK_RECORDS": packing.BLOCK_RECORDS,
    "BLOCK_BYTES": packing.BLOCK_BYTES,
    "BLOCK_BYTES_LIMIT": packing.BLOCK_BYTES_LIMIT,
    "FRAME_MESSAGES": packing.FRAME_MESSAGES,
    "FRAME_BYTES": packing.FRAME_BYTES,
    "FRAMES_BYTES": packing.FRAMES_BYTES,
    "KNOWN_TOPICS": 256,  # a size of the twin's alone: it asks no dictionary for those
}


def constants_of(source: str) -> dict[str, int]:
    found = re.findall(r"^(?:cdef \w+|   ) ([A-Z][A-Z0-9_]+) = (\w+)", (HUB / source).read_text(), re.MULTILINE)
    return {name: int(value, 0) for name, value in found}


@pytest.mark.parametrize(("source", "expected"), [("_runs.pyx", RUNS), ("journal/_packing.pyx", PACKING)])
def test_constants_are_those_of_python(source: str, expected: dict[str, int]) -> None:
    assert constants_of(source) == expected


@pytest.mark.parametrize("name", ["LENGTH_BYTES", "FIXED_BYTES"])
def test_tables_of_msgpack_are_those_of_python(name: str) -> None:
    source = (HUB / "journal/_values.pxi").read_text()
    found = re.search(rf"{name} = \[([^]]*)\]", source)
    assert found is not None
    table = [-1 if number == "255" else int(number) for number in re.findall(r"\d+", found[1])]
    assert table == getattr(packing, f"_{name}")[0xC0:0xE0]
