"""Journals for the tests of `hub journal`, and the command on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hub.journal.segment import Write
from hub.messages.batch import Batch
from peers.journal.store import Retention, Segmenting, Store
from tests.cli.programs import hub

AT_US = 1_700_000_000_000_000
"""When the first record came: 2023-11-14 22:13:20 UTC."""

ALL = Retention(bytes=1 << 50, age_us=1 << 60)

FULL_RECORDS = 8_192
"""Records of a full block."""


def opened(path: Path, retention: Retention = ALL, *, segment_bytes: int = 1 << 30) -> Store:
    return Store(str(path), full_sync=False, retention=retention, segmenting=Segmenting(segment_bytes, 1 << 60))


def commit(store: Store, *messages: tuple[str, Any], at_us: int = AT_US, writes: Sequence[Write] = ()) -> None:
    store.add([(at_us, b"".join(Batch.of(topic, [value]).frames for topic, value in messages))])
    store.commit(writes, now_us=at_us)


def fill(store: Store, blocks: int) -> None:
    for _ in range(blocks):
        first = store.next
        numbers = range(first, first + FULL_RECORDS)
        frames = b"".join(Batch.of(f"/t/{topic}", numbers[topic::3]).frames for topic in range(3))
        store.add([(AT_US + first // FULL_RECORDS * 1_000_000, frames)])
        store.commit(now_us=AT_US)


def run(*arguments: str | Path, code: int = 0) -> str:
    result = hub("journal", *map(str, arguments))
    assert (result.returncode, result.stderr) == (code, b""), (result.returncode, result.stderr, result.stdout)
    return result.stdout.decode()


def lines(*arguments: str | Path) -> list[Any]:
    return [json.loads(line) for line in run(*arguments).splitlines()]


def complaint(*arguments: str | Path, code: int = 1) -> str:
    """Run a command that fails, with exit code 2 if the flags make no sense; return the one line that says why."""
    result = hub("journal", *map(str, arguments))
    assert result.returncode == code, result.stderr
    assert result.stdout == b""
    assert result.stderr.startswith(b"hub: ")
    assert result.stderr.count(b"\n") == 1
    return result.stderr.decode()


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]
