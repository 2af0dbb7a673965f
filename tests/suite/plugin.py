"""All of this folder as one plugin: `tests/conftest.py` takes its hooks over, and a small run names it with `-p`."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.garbage import set_aside
from tests.suite.leftovers import Leftovers
from tests.suite.scheduling import ScopeScheduling


class Naming:
    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._reporter.verbosity <= 0:
            when = f" ({report.when})" if report.when in ("setup", "teardown") else ""
            self._reporter.write_line("")
            self._reporter.write_line(f"FAILED {report.nodeid}{when}: {_reason(report)}", red=True)


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    said = str(report.longrepr) if crash is None else str(crash.message)
    return said.strip().partition("\n")[0]


# So long before the end of a test's time; a test with less than twice as much is looked at in the middle of it
_AHEAD_S = 1.0


class Hanging:
    """A plugin of pytest's; each process that runs tests has one, made while standard error is still its own."""

    def __init__(self) -> None:
        self._stderr = os.dup(2)
        self._timer: threading.Timer | None = None
        # How the time of the last test was limited.
        self._settings: Any = None

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> Generator[None, object, object]:
        until_s = max(settings.timeout - _AHEAD_S, settings.timeout / 2)
        self._settings = settings
        self._timer = threading.Timer(until_s, self._tell, [item.nodeid])
        self._timer.daemon = True
        self._timer.start()
        return (yield)

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_timeout_cancel_timer(self) -> Generator[None, object, object]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        settings, config = self._settings, node.config
        if isinstance(node, pytest.Item) and settings and not (settings.func_only or config.getoption("usepdb")):
            config.hook.pytest_timeout_set_timer(item=node, settings=settings)

    def _tell(self, nodeid: str) -> None:
        tasks = [each for each in gc.get_objects() if isinstance(each, asyncio.Task) and not each.done()]
        lines = [f"\n{nodeid} hangs; {len(tasks)} tasks wait, and all threads stand here:\n"]
        lines += [f"task {task.get_name()}: {' > '.join(_waits_in(task.get_coro()))}\n" for task in tasks]
        os.write(self._stderr, "".join(lines).encode())
        faulthandler.dump_traceback(self._stderr, all_threads=True)


def _waits_in(waiting: Any) -> Iterator[str]:
    """Name the lines in which a coroutine waits, and those in which what it waits for does."""
    while waiting is not None:
        frame = next((found for kind in ("cr", "gi", "ag") if (found := getattr(waiting, f"{kind}_frame", None))), None)
        if frame is not None:
            yield f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


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
