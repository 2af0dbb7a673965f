"""What makes load in benchmarks is forked, for tests that run these in their own process.

Each is 0.4 s of work as a new interpreter, nearly all of it imports, and a benchmark has two to five. Where a test runs
`hub bench` itself, they are what users have.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

import pytest

from peers.bench import processes

__all__ = ["forked_load", "load_server"]


@pytest.fixture(scope="session")
def load_server() -> Iterator[ForkServerContext]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["peers.bench.stage"])
    yield context
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # it would end with this process


@pytest.fixture(autouse=True)
def forked_load(monkeypatch: pytest.MonkeyPatch, load_server: ForkServerContext) -> None:
    monkeypatch.setattr(processes, "_spawning", load_server)
