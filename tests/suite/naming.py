"""Failures are named as they come, not only in the summary that a run which is broken off never reaches."""

from __future__ import annotations

import pytest


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
