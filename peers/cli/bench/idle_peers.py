"""`hub bench scenario idle-peers`: what idle connections cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from peers.bench.idle_peers import run_idle_peers
from peers.bench.plan import Plan
from peers.cli.bench.options import TRAFFIC, Place, described, flags_checked
from peers.cli.bench.output import Output, shown_progress

__all__ = ["idle_peers"]


@Parameter(name="*")
@dataclass(kw_only=True)
class Steady:
    """The options of the stream that `idle-peers` measures."""

    rate: Annotated[float, described("Messages a second.", TRAFFIC)] = 20_000
    size: Annotated[int, described("Bytes of a value, 16 or more.", TRAFFIC)] = 100
    seconds: Annotated[float, described("At each step, in each round.", TRAFFIC)] = 5
    rounds: Annotated[int, described("Times that all steps are measured, up and down in turns.", TRAFFIC)] = 4


def idle_peers(steady: Steady | None = None, place: Place | None = None, output: Output | None = None) -> None:
    """Measure what idle connections cost: a stream to one subscriber beside up to 1,000 others and 20 peer hubs.

    The others want other topics. The hub's CPU at each step is shown, and relative to the first one.
    """
    output, steady = output or Output(), steady or Steady()
    fields = (place or Place()).fields()
    output.check()
    with flags_checked(), shown_progress(shown=output.progress) as tell:
        plan = Plan(rate=steady.rate, size=steady.size, **fields).check()
        found = run_idle_peers(plan, steady.seconds, steady.rounds, tell)
    output.write(found.report())
