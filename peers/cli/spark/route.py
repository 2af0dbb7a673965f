"""`hub spark route`: tell which subscriber would get which message of an archive.

Here are the options and the output; the job is `peers.spark.routing`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peers.cli.flag_values import FlagError
from peers.cli.spark.engine import SPARK, Engine, described
from peers.cli.spark.files import check_folder, write_csv
from peers.spark.routing.matcher import Way
from peers.spark.summary import Figure, amount, columns, figures, rate, show

if TYPE_CHECKING:
    from peers.spark.routing.matcher import Matcher, Totals
    from peers.spark.routing.route import Routes

__all__ = ["route"]


@Parameter(name="*")
@dataclass(kw_only=True)
class RouteOutput:
    """The options that say what `hub spark route` gives, beside the table."""

    counts: Annotated[Path | None, described("Write messages and bytes of each subscriber to this CSV file.")] = None
    deliveries: Annotated[
        str | None, described("Write who gets each message to this new folder, as Parquet: offset, subscribers.")
    ] = None
    pairs: Annotated[bool, described("Deliveries are one row each: offset, subscriber.")] = False
    top: Annotated[int, described("Subscribers in the table, those with the most messages.")] = 20


def route(
    archive: str,
    subscriptions: Path,
    /,
    output: RouteOutput | None = None,
    engine: Engine | None = None,
    *,
    way: Annotated[Way, described("Match topics, or explode messages; auto looks which is cheaper.", SPARK)] = Way.AUTO,
) -> None:
    """Tell which subscriber would get which message of an archive, by the hub's own matching.

    SUBSCRIPTIONS is CSV with the header name,prefix or NDJSON with these fields. A subscriber may have several prefixes
    and gets each message once. In deliveries, subscribers are numbers; _subscribers in their folder has the names.
    """
    from peers.spark.routing.matcher import Matcher  # noqa: PLC0415 -- Spark is loaded when a job runs
    from peers.spark.routing.subscriptions import read_subscriptions  # noqa: PLC0415 -- the same

    output = output or RouteOutput()
    if output.pairs and output.deliveries is None:
        raise FlagError("--pairs: --deliveries is needed, too")
    matcher = Matcher(read_subscriptions(subscriptions))
    check_folder(archive)
    with (engine or Engine()).running("route") as job:
        from peers.spark.archive_files import read_archive  # noqa: PLC0415 -- the same
        from peers.spark.routing.route import route as matched  # noqa: PLC0415 -- the same
        from peers.spark.routing.route import write_deliveries  # noqa: PLC0415 -- the same

        begun = time.monotonic()
        job.progress.tell("matching topics")
        read = read_archive(job.spark, archive)
        job.size_shuffles(read)
        routes = matched(read, matcher, way)
        job.progress.tell("counting")
        totals, messages = routes.totals()
        if output.deliveries is not None:
            job.progress.tell("writing deliveries")
            write_deliveries(routes, output.deliveries, pairs=output.pairs)
    _show_routes(routes, totals, messages, time.monotonic() - begun)
    _show_subscribers(matcher, totals, output.top)
    if output.counts is not None:
        numbered = zip(range(len(matcher.names)), matcher.names, totals.messages, totals.bytes, strict=True)
        write_csv(output.counts, ("number", "name", "messages", "bytes"), numbered)


def _show_routes(routes: Routes, totals: Totals, messages: int, elapsed_s: float) -> None:
    rows: list[Figure] = [
        ("messages", "messages", amount(messages)),
        ("wanted by nobody", "messages", amount(messages - totals.wanted)),
        ("deliveries", "deliveries", amount(totals.delivered)),
        ("delivered", "bytes", amount(sum(totals.bytes))),
        ("subscribers", "subscribers", amount(len(routes.matcher.names))),
        ("prefixes", "prefixes", amount(len(routes.matcher.prefixes))),
        ("way", "", routes.way),
        ("elapsed", "s", f"{elapsed_s:.1f}"),
        ("matched", "messages/s", rate(messages, elapsed_s)),
    ]
    show(figures(rows), "")


def _show_subscribers(matcher: Matcher, totals: Totals, top: int) -> None:
    most = sorted(range(len(matcher.names)), key=lambda number: (-totals.messages[number], matcher.names[number]))
    rows = [(matcher.names[n], amount(totals.messages[n]), amount(totals.bytes[n])) for n in most[: max(0, top)]]
    show(columns(("subscriber", "messages", "bytes"), rows))
    if len(most) > len(rows):
        show(f"and {len(most) - len(rows):,} more")
