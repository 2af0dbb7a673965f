"""A group whose members and hub are killed: nothing is left out, each key keeps its order. `make soak` does more."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults.group import Group

pytestmark = pytest.mark.slow

_MESSAGES = 10_000


async def test_members_and_hubs_are_killed(tmp_path: Path) -> None:
    """Every message is worked on at least once, those of one key in order."""
    outcome = await Group(tmp_path, _MESSAGES, Random(5)).run(2, 2)  # noqa: S311 -- to be repeated
    assert outcome.worked >= _MESSAGES


async def test_members_and_workers_are_killed(tmp_path: Path) -> None:
    """The same where members share the consumer by workers, each of which may die, and their core, too."""
    outcome = await Group(tmp_path, _MESSAGES, Random(11), workers=2).run(2, 1, 3)  # noqa: S311
    assert outcome.worked >= _MESSAGES


async def test_members_are_killed(tmp_path: Path) -> None:
    """The same, and the hub counts what it delivers again: all that members have seen of that, and what others had."""
    outcome = await Group(tmp_path, _MESSAGES, Random(7)).run(3, 0)  # noqa: S311
    assert outcome.again <= outcome.redelivered <= outcome.counted
