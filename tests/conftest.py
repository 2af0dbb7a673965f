"""The hypothesis profile of all tests, repeatable and quick, and which tests stay together where several run at a time.

`pytest --hypothesis-profile=explore` searches further.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_TESTS = Path(__file__).parent

settings.register_profile(
    "repeatable",
    deadline=None,  # a slow machine is no failure
    derandomize=True,
    max_examples=80,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    parent=settings.get_profile("repeatable"),
    derandomize=False,
    max_examples=2000,
    stateful_step_count=80,
)
settings.load_profile("repeatable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests in one worker, and all of Spark's: they share one session of Java."""
    for item in items:
        path = item.path.relative_to(_TESTS)
        item.add_marker(pytest.mark.xdist_group("spark" if path.parts[0] == "spark" else str(path)))
