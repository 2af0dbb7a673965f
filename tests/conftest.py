"""The hypothesis profile of all tests, repeatable and quick, and which tests stay together where several run at a time.

`pytest --hypothesis-profile=explore` searches further.
"""

from __future__ import annotations

from collections.abc import Generator
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


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests in one worker, and all of Spark's: they share one session of Java, and are begun first."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group("spark" if _is_spark(item) else str(item.path)))
    items.sort(key=_is_spark, reverse=True)


def _is_spark(item: pytest.Item) -> bool:
    return item.path.relative_to(_TESTS).parts[0] == "spark"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Spell what has no UTF-8 form: workers send reports as UTF-8, and some tests log half of a surrogate pair."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report
