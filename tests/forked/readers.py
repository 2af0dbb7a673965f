"""Readers of journals that are forked, as `program` forks commands, for tests that are not about their processes.

A hub in the test's own process starts a reader for the first request for history: 0.11 to 0.25 s of work as a new
interpreter, nearly all of it imports. In `tests/journal`, and where hubs are processes of their own, readers are what
users have.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from peers.journal import readers
from tests.forked.program import Program

__all__ = ["forked_readers"]


@pytest.fixture(autouse=True)
def forked_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """All readers of a test are forked."""
    monkeypatch.setattr(readers, "_start", _start)


def _start(path: str, tier: str, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    return Program(
        *(path, tier, *map(str, descriptors)),
        module="peers.journal.reader",
        cwd=Path.cwd(),
        pass_fds=tuple(descriptors),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
