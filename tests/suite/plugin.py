"""All of this folder as one plugin: `tests/conftest.py` takes its hooks over, and a small run names it with `-p`."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator
from typing import Any

import pytest

from tests.garbage import set_aside
from tests.suite.hanging import Hanging
from tests.suite.leftovers import Leftovers
from tests.suite.naming import Naming
from tests.suite.scheduling import ScopeScheduling


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Watch for processes that tests leave behind and for tests that hang, and name failures as they come.

    A shell that starts the tests in the background lets them ignore SIGINT, and whatever they start would ignore it,
    too: tests of Ctrl-C would wait for ever.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Leftovers(config))
    config.pluginmanager.register(Hanging())
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Naming(reporter))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: all of that stays, and walks over it were a sixth of the work."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave what was collected out of all that the garbage collector does while tests run."""
    set_aside()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ScopeScheduling:
    return ScopeScheduling(config, log)
