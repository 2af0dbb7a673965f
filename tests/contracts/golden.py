"""Goldens: sorted lines in a file beside the tests, compared with what the code says."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

__all__ = ["REWRITE", "check", "fields_of"]

REWRITE = "REWRITE_CONTRACTS"  # Environment variable; where it is set, goldens are written instead of compared

_FOLDER = Path(__file__).parent


def check(name: str, lines: Iterable[str]) -> None:
    patterns = _dropped(name)
    found = sorted({line for line in lines if not any(fnmatchcase(line, pattern) for pattern in patterns)})
    path = _FOLDER / name
    if REWRITE in os.environ:
        path.write_text("".join(f"{line}\n" for line in found))
    expected = path.read_text().splitlines()
    difference = difflib.unified_diff(expected, found, f"tests/contracts/{name}", "the code", n=0, lineterm="")
    assert found == expected, "a contract has changed; if it should: python -m tests.contracts.rewrite\n" + "\n".join(
        difference
    )


def _dropped(name: str) -> list[str]:
    patterns: list[str] = []
    section = ""
    for line in (_FOLDER / "dropped.txt").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif section == name and line and not line.startswith("#"):
            patterns.append(line)
    return patterns


def fields_of(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        if path and not path.endswith("[]"):
            yield path
        for name, inner in value.items():
            yield from fields_of(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        path = path.removesuffix("[]") + "[]"
        yield path
        for inner in value:
            yield from fields_of(inner, path)
    else:
        yield path or "value"
