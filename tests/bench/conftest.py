"""Processes that make load for benchmarks in the test's own process are forked, which saves 0.4 s of imports each."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

import pytest

from peers.bench import processes


@pytest.fixture(scope="session")
def load_server() -> Iterator[ForkServerContext]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["peers.bench.stage"])
    yield context
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # it would end with this process


@pytest.fixture(autouse=True)
def forked_load(monkeypatch: pytest.MonkeyPatch, load_server: ForkServerContext) -> None:
    monkeypatch.setattr(processes, "_spawning", load_server)
