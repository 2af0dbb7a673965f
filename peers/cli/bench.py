"""`hub bench`: options become a plan, which `peers.bench` measures."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter
from rich.console import Console

from peers.bench.report import Environment, Report, page, stream_report
from peers.bench.stage import Plan, Stage, Told, Transport, Watch
from peers.bench.worker import PlanError
from peers.bench.y import MODES, Mode, YPlan, YTransport, run_y
from peers.cli.flag_values import FlagError
from peers.cli.output import shown_bar, write_file
from peers.cli.texts import examples
from peers.transport.endpoints import InvalidEndpointError
from peers.wire.hello import QueueWish

TRAFFIC = Group("Traffic", sort_key=1)
_QUEUES = Group("Queues", sort_key=3)
HUB = Group("The hub", sort_key=4)
OUTPUT = Group("Output", sort_key=5)

_USUAL_S = 5.0
_USUAL_MESSAGES = 5_000_000
_USUAL_BYTES = 500_000_000
_LEAST_MESSAGES = 10_000
"""A run without `--messages`: 5 s at a rate; at full speed some seconds, whatever the size."""

_DEFAULT = Plan()
_WIDE_MESSAGES = 65_536
"""Default of `--queue-messages` at full speed. The window is as large as that queue, and with the hub's default, a
millisecond's worth, one would measure how soon processes wake each other up."""


@contextmanager
def flags_checked() -> Iterator[None]:
    """Turn errors of a plan into `FlagError`."""
    try:
        yield
    except (PlanError, InvalidEndpointError) as error:
        raise FlagError(str(error)) from error


def described(text: str, group: Group, name: str | None = None) -> Parameter:
    """Return the parameter of an option with this help."""
    return Parameter(name=name, help=text, group=group, negative_iterable=())


@Parameter(name="*")
@dataclass(kw_only=True)
class Traffic:
    """Options of what is sent to whom, and of the hub."""

    messages: Annotated[
        int | None,
        described("Messages, of all publishers together. Default: enough for some seconds.", TRAFFIC),
    ] = None
    size: Annotated[int, described("Bytes of a value, 16 or more.", TRAFFIC)] = _DEFAULT.size
    topics: Annotated[int, described("Topics, published to in turn.", TRAFFIC)] = _DEFAULT.topics
    rate: Annotated[float, described("Messages a second; 0 is full speed.", TRAFFIC)] = _DEFAULT.rate
    publishers: Annotated[int, described("Publishers, each a process.", TRAFFIC)] = _DEFAULT.publishers
    subscribers: Annotated[int, described("Subscribers; each gets every message.", TRAFFIC)] = _DEFAULT.subscribers
    batch: Annotated[int, described("Values in a frame.", TRAFFIC)] = _DEFAULT.batch
    transport: Annotated[Transport, described("Transport of subscribers.", TRAFFIC)] = "tcp"
    repeat: Annotated[int, described("Runs, on the same connections; the median counts.", TRAFFIC)] = _DEFAULT.repeat
    window: Annotated[bool, described("Publishers wait for subscribers, so that no queue overflows.", _QUEUES)] = True
    queue_messages: Annotated[
        int | None, described(f"Queue requested by subscribers; {_WIDE_MESSAGES:,} at full speed.", _QUEUES)
    ] = None
    url: Annotated[
        list[str] | None,
        described("A running hub, tcp:// or unix://; for --transport ws also its ws://. Default: start one.", HUB),
    ] = None
    hub_pid: Annotated[int, described("With --url: its process, for CPU time and memory.", HUB)] = 0
    pin: Annotated[bool, described("Bind a started hub to the first CPU, the load to the others.", HUB)] = True
    hub_flag: Annotated[
        list[str] | None, described("More flags of the started `hub run`, as --hub-flag=--limits-routes=1000.", HUB)
    ] = None

    def plan(self) -> Plan:
        """Return the plan; raise `FlagError`, which names the option, if it cannot be carried out."""
        own = {name: getattr(self, name) for name in Plan.__struct_fields__ if hasattr(self, name)}
        own["messages"] = self._usual_messages() if self.messages is None else self.messages
        wish = QueueWish(self.queue_messages or (None if self.rate else _WIDE_MESSAGES))
        with flags_checked():
            return Plan(**own, urls=tuple(self.url or ()), hub_flags=tuple(self.hub_flag or ()), wish=wish).check()

    def _usual_messages(self) -> int:
        if self.rate > 0:
            return max(1, int(self.rate * _USUAL_S))
        delivered_bytes = max(1, self.size) * max(1, self.subscribers)
        return min(_USUAL_MESSAGES, max(_LEAST_MESSAGES, _USUAL_BYTES // delivered_bytes))


EXIT_FLAWED = 3
"""The benchmark ran, but messages were lost, misrouted or out of order."""


@Parameter(name="*")
@dataclass(kw_only=True)
class Output:
    """Options of where the figures go, beside the table."""

    json: Annotated[
        Path | None,
        Parameter(
            help="Write the figures to this file as JSON; - is standard output.",
            group=OUTPUT,
            allow_leading_hyphen=True,
        ),
    ] = None
    progress: Annotated[bool, described("Show a progress bar, if standard error is a terminal.", OUTPUT)] = True

    def check(self, *others: Path | None) -> None:
        """Check before anything is measured that the files can be written; raise `FlagError` if not."""
        for path in (None if str(self.json) == "-" else self.json, *others):
            if path is None:
                continue
            folder = path.parent
            if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
                raise FlagError(f"{path}: no file can be written there")

    def write(self, report: Report) -> None:
        """Print the table (to standard error if the JSON goes to standard output), and write the JSON."""
        to_stdout = self.json is not None and str(self.json) == "-"
        console = Console(stderr=to_stdout)
        if not console.is_terminal:
            console.width = 200  # a pipe has no edge to wrap at
        console.print(str(report.environment), highlight=False, markup=False)
        console.print(report.table())
        for remark in report.remarks:
            console.print(f"* {remark}", highlight=False, markup=False)
        if to_stdout:
            sys.stdout.write(report.json().decode() + "\n")
        elif self.json is not None:
            write_file(self.json, report.json())


@contextmanager
def shown_progress(*, shown: bool) -> Iterator[Told]:
    """Show the progress while the block runs; the function that is yielded begins the next step.

    SIGTERM ends the benchmark as Ctrl-C does: with everything that it has started.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with shown_bar(visible=shown) as tell:

        def told(what: str) -> Watch:
            tell(what, None, None)
            return lambda done, total: tell(what, done, total or None)

        yield told


def bench(
    traffic: Traffic | None = None,
    output: Output | None = None,
    *,
    html: Annotated[Path | None, described("Write a page with figures and plots to this file.", OUTPUT)] = None,
) -> None:
    """Send messages through a hub, and measure rate, CPU time, latency and losses.

    Starts a hub, unless --url names one. Publishers and subscribers are separate processes. Exit code 0
    if every message arrived once and in order, 3 if not, 1 if the benchmark could not be run.
    """
    plan = (traffic or Traffic()).plan()
    output = output or Output()
    output.check(html)
    environment = Environment.here()
    with shown_progress(shown=output.progress) as tell, Stage(plan) as stage:
        runs = [
            stage.measure(rate=plan.rate, watch=tell(f"run {number} of {plan.repeat}"))
            for number in range(1, plan.repeat + 1)
        ]
    report = stream_report(plan, environment, runs)
    output.write(report)
    if html is not None:
        write_file(html, page(plan, report, runs).encode())
    if not report.flawless:
        sys.exit(EXIT_FLAWED)


_Y = YPlan()


@Parameter(name="*")
@dataclass(kw_only=True)
class Pairs:
    """Options of what is asked, and how."""

    mode: Annotated[
        list[Mode] | None,
        described(
            "How pairs are sent; repeatable. one: each after the answer to the previous. many: --outstanding at once. "
            "arrays: as bytes. shared: as arrays in shared memory. Default: one and many.",
            TRAFFIC,
        ),
    ] = None
    outstanding: Annotated[int, described("many: pairs that wait for an answer.", TRAFFIC)] = _Y.outstanding
    batch: Annotated[int, described("arrays, shared: pairs made at a time.", TRAFFIC)] = _Y.batch
    batches: Annotated[int, described("arrays, shared: batches that wait for an answer.", TRAFFIC)] = _Y.batches
    transport: Annotated[YTransport, described("Transport of all connections to the hub.", TRAFFIC)] = _Y.transport
    seconds: Annotated[float, described("Time of each run.", TRAFFIC)] = _Y.seconds
    pairs: Annotated[int, described("Pairs of each run, instead of a time.", TRAFFIC)] = _Y.pairs
    repeat: Annotated[int, described("Runs of each mode; the median counts.", TRAFFIC)] = _Y.repeat
    pin: Annotated[bool, described("one: all processes share one CPU, as only one works at a time.", HUB)] = _Y.pin
    url: Annotated[str | None, described("A running hub, tcp:// or unix://. Default: start one.", HUB)] = None
    hub_pid: Annotated[int, described("With --url: its process, for its CPU time.", HUB)] = 0
    hub_flag: Annotated[list[str] | None, described("More flags of the started `hub run`.", HUB)] = None

    def plan(self) -> YPlan:
        """Return the plan; raise `FlagError`, which names the option, if it cannot be carried out."""
        own = {name: getattr(self, name) for name in YPlan.__struct_fields__ if hasattr(self, name)}
        urls = () if self.url is None else (self.url,)
        with flags_checked():
            return YPlan(
                **own, modes=tuple(self.mode or MODES), urls=urls, hub_flags=tuple(self.hub_flag or ())
            ).check()


def y(pairs: Pairs | None = None, output: Output | None = None) -> None:
    """Make pairs of numbers and an operation at random, have a service add or multiply them, check every result.

    Requester, hub and the two services are processes of this machine. Shows pairs a second, latencies, CPU time of each
    process for a pair, and errors. Exit code 0 if every pair got one correct result, 3 if not, 1 if the benchmark could
    not be run.
    """
    plan = (pairs or Pairs()).plan()
    output = output or Output()
    output.check()
    with shown_progress(shown=output.progress) as tell:
        found = run_y(plan, tell)
    output.write(found)
    if not found.flawless:
        sys.exit(EXIT_FLAWED)


app = App(
    name="bench",
    help="Measure a hub: throughput, CPU time, latency, losses.",
    help_epilogue=examples("hub bench", "hub bench --rate 20000 --messages 200000 --html figures.html"),
)
app.default(bench)
scenario = App(name="scenario", help="Benchmarks of several steps.")
app.command(scenario)
scenario.command(y, name="y", help="Send pairs of numbers to an adding and a multiplying service.")
