"""What a test waits for that takes too long, said shortly before pytest-timeout ends its process.

pytest-timeout says it, too, but where the workers of pytest-xdist write for a terminal that they do not have; and of an
event loop it shows that it waits, not which of its tasks waits for what.

It also stops the clock of a test that has failed, for those who look at it with a debugger. Fixtures that end, and the
end of a loop, would then have all the time there is: so the clock is set again.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

_AHEAD_S = 1.0
"""So long before the end of a test's time; a test with less than twice as much is looked at in the middle of it."""


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
