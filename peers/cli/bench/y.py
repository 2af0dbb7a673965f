"""`hub bench scenario y`: two services that add and multiply pairs of numbers, and whoever asks them.

The options become a plan, and what was found a table and JSON. Not here: what is measured, and how (`peers.bench.y`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from peers.bench.y.scenario import MODES, Mode, Plan, Transport, run_y
from peers.cli.bench.options import HUB, TRAFFIC, described, flags_checked
from peers.cli.bench.output import EXIT_FLAWED, Output, shown_progress

__all__ = ["y"]

_DEFAULT = Plan()


@Parameter(name="*")
@dataclass(kw_only=True)
class Pairs:
    """The options that say what is asked, and how."""

    mode: Annotated[
        list[Mode] | None,
        described(
            "How pairs travel; repeatable. one: each asked when the one before is answered. many: so many outstanding. "
            "Default: both.",
            TRAFFIC,
        ),
    ] = None
    outstanding: Annotated[int, described("many: pairs asked and not yet answered.", TRAFFIC)] = _DEFAULT.outstanding
    transport: Annotated[Transport, described("Of all connections to the hub.", TRAFFIC)] = _DEFAULT.transport
    seconds: Annotated[float, described("Time of each run.", TRAFFIC)] = _DEFAULT.seconds
    pairs: Annotated[int, described("Pairs of each run, instead of a time.", TRAFFIC)] = _DEFAULT.pairs
    repeat: Annotated[int, described("Runs of each mode; the median counts.", TRAFFIC)] = _DEFAULT.repeat
    pin: Annotated[
        bool, described("one: all processes share one CPU, as only one at a time has something to do.", HUB)
    ] = _DEFAULT.pin
    url: Annotated[str | None, described("A running hub, tcp:// or unix://, instead of one that is started.", HUB)] = (
        None
    )
    hub_pid: Annotated[int, described("With --url: its process, for its CPU time.", HUB)] = 0
    hub_flag: Annotated[list[str] | None, described("Further flag of the started `hub run`.", HUB)] = None

    def plan(self) -> Plan:
        """Return the plan that the options make.

        Raises:
            FlagError: They make none; the text names the option.
        """
        own = {name: getattr(self, name) for name in Plan.__struct_fields__ if hasattr(self, name)}
        urls = () if self.url is None else (self.url,)
        with flags_checked():
            return Plan(**own, modes=tuple(self.mode or MODES), urls=urls, hub_flags=tuple(self.hub_flag or ())).check()


def y(pairs: Pairs | None = None, output: Output | None = None) -> None:
    """Make pairs of numbers and an operation at random, have a service add or multiply them, check every result.

    Requester, hub and the two services are processes of this machine. Shown are pairs a second, latencies, the CPU time
    of each process for a pair, and errors. Exit code 0 if every pair got its one right result, 3 if not, 1 if the
    benchmark could not be run.
    """
    plan = (pairs or Pairs()).plan()
    output = output or Output()
    output.check()
    with shown_progress(shown=output.progress) as tell:
        found = run_y(plan, tell)
    output.write(found)
    if not found.flawless:
        sys.exit(EXIT_FLAWED)
