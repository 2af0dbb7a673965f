"""`hub bench`: measure a hub.

The options become a plan, and the report a table and JSON. Not here: what is measured, and how (`peers.bench`).
"""

from __future__ import annotations

from cyclopts import App

from peers.cli.bench.throughput import bench
from peers.cli.examples import examples

__all__ = ["app"]

app = App(
    name="bench",
    help="Measure a hub: throughput, CPU time, latency, losses.",
    help_epilogue=examples("hub bench", "hub bench --rate 20000 --messages 200000 --html figures.html"),
)
app.default(bench)
scenario = App(name="scenario", help="Benchmarks of several steps.")
app.command(scenario)
scenario.command("peers.cli.bench.y:y", name="y", help="Send pairs of numbers to an adding and a multiplying service.")
scenario.command(
    "peers.cli.bench.mesh:mesh",
    name="mesh",
    help="Send messages through hubs in a row, and measure what each hop takes.",
)
scenario.command(
    "peers.cli.bench.idle_peers:idle_peers",
    name="idle-peers",
    help="Measure what idle connections cost: a stream to one subscriber beside up to 1,000 others and 20 peer hubs.",
)
