"""`hub bench scenario mesh`: hubs in a row, and what each hop takes.

The options become a plan, and what was found a table and JSON. Not here: what is measured (`peers.bench.mesh`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from peers.bench.mesh import MeshPlan, run_mesh
from peers.cli.bench.options import HUB, TRAFFIC, described, flags_checked
from peers.cli.bench.output import EXIT_FLAWED, Output, shown_progress

__all__ = ["mesh"]

_DEFAULT = MeshPlan()


@Parameter(name="*")
@dataclass(kw_only=True)
class Row:
    """The options that say which hubs there are, and what is sent through them."""

    hubs: Annotated[int, described("Hubs in a row, each a process.", HUB)] = _DEFAULT.hubs
    rate: Annotated[float, described("Messages a second, for latencies.", TRAFFIC)] = _DEFAULT.rate
    seconds: Annotated[float, described("At the rate; and with filters that change.", TRAFFIC)] = _DEFAULT.seconds
    messages: Annotated[int, described("At full speed.", TRAFFIC)] = _DEFAULT.messages
    size: Annotated[int, described("Bytes of a value, 16 or more.", TRAFFIC)] = _DEFAULT.size
    topics: Annotated[int, described("Topics, published to in turn.", TRAFFIC)] = _DEFAULT.topics
    changes: Annotated[float, described("Filters that change a second; 0: none.", TRAFFIC)] = _DEFAULT.changes
    hub_flag: Annotated[list[str] | None, described("Further flag of each `hub run`.", HUB)] = None

    def plan(self) -> MeshPlan:
        """Return the plan that the options make."""
        own = {name: getattr(self, name) for name in MeshPlan.__struct_fields__ if hasattr(self, name)}
        return MeshPlan(**own, hub_flags=tuple(self.hub_flag or ())).check()


def mesh(row: Row | None = None, output: Output | None = None) -> None:
    """Send messages through hubs in a row, and measure what each hop takes.

    For a subscriber at each hub: messages a second at full speed, latency at a rate; CPU of each hub for a message to
    the last one, and for a filter that changes there. Exit code 0 if every message arrived once and in order, 3 if not.
    """
    output = output or Output()
    output.check()
    with flags_checked():
        plan = (row or Row()).plan()
    with shown_progress(shown=output.progress) as tell:
        report = run_mesh(plan, tell)
    output.write(report)
    if not report.flawless:
        sys.exit(EXIT_FLAWED)
