"""`hub spark`: jobs on archives, run by Apache Spark.

Here are the options and the output of the jobs; what they do is in `peers.spark`. Invariant: whatever can be checked is
checked before Spark is loaded and Java started, which takes seconds.
"""

from __future__ import annotations

from cyclopts import App

from peers.cli.texts import examples

__all__ = ["app"]

app = App(
    name="spark",
    help="Process archives with Apache Spark, here or on a cluster.",
    help_epilogue=examples(
        "hub spark archive --url tcp://127.0.0.1:7400 --to archive", "hub spark report archive --html report.html"
    ),
)
app.command("peers.cli.spark.archive:archive", name="archive", help="Archive what a hub records, each record once.")
app.command("peers.cli.spark.replay:replay", name="replay", help="Publish an archive to a hub, in order and at a pace.")
app.command(
    "peers.cli.spark.package:package",
    name="package",
    help="Write this project's code as a zip for spark-submit --py-files.",
)
app.command(
    "peers.cli.spark.report:report",
    name="report",
    help="Tell what an archive holds: who sent how much and when, gaps, absent offsets.",
)
app.command(
    "peers.cli.spark.route:route",
    name="route",
    help="Tell which subscriber would get which message of an archive, by the hub's own matching.",
)
