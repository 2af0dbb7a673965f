"""docs/data-model.md is right: its example runs, its limits are those of the code, and the public names are pinned."""

from __future__ import annotations

import re
from pathlib import Path

from peers import values as data

_TEXT = (Path(__file__).parents[2] / "docs" / "data-model.md").read_text()


def test_the_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", _TEXT, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/data-model.md", "exec"), {})  # noqa: S102  our own text


def test_the_limits_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([0-9,]+) \|", _TEXT, re.MULTILINE)
    assert {name: int(number.replace(",", "")) for name, number in rows} == {
        "DEPTH_LIMIT": data.DEPTH_LIMIT,
        "ELEMENTS_LIMIT": data.ELEMENTS_LIMIT,
        "CONVERTED_ELEMENTS_LIMIT": data.CONVERTED_ELEMENTS_LIMIT,
        "CONVERTED_LIMIT_BYTES": data.CONVERTED_LIMIT_BYTES,
    }


def test_public_names() -> None:
    functions = {"check", "decode", "encode", "decode_message", "encode_json", "encode_message"}
    functions |= {"default", "ext_hook", "from_msgpack", "to_msgpack", "to_text", "value_of"}
    types = {"Count", "Enum", "Port", "Set", "Table", "Timespan", "Timestamp", "Value"}
    errors = {"InvalidDataError", "InvalidInputError"}
    limits = {"DEPTH_LIMIT", "ELEMENTS_LIMIT", "CONVERTED_ELEMENTS_LIMIT", "CONVERTED_LIMIT_BYTES"}
    assert set(data.__all__) == functions | types | errors | limits
