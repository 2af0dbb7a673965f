"""Numbers and times as the jobs show them, on the terminal and in the page of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

from peers.console.line_plot import COLOURS, html_page, line_plot

Figure = tuple[str, str, str]

_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def plain(text: str) -> str:
    """Return a text with escapes for characters that do not print, as an archive must not steer a terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]


def amount(value: float) -> str:
    return f"{value:,.0f}"


def rate(count: float, elapsed_s: float) -> str:
    """Write how many a second that is; small rates with decimals."""
    value = count / elapsed_s if elapsed_s > 0 else 0
    return amount(value) if value >= 100 else f"{value:.3g}"


def second(time_us: int) -> str:
    """Write the second of µs since 1970 UTC: "2026-11-21 12:00:00"."""
    return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}"


def span(length_us: int) -> str:
    """Write a length of time in its two largest units: "3 d 4 h", "12 min 5 s", "0.25 s"."""
    seconds = length_us / 1_000_000
    for size_s, unit, part_s, part in _UNITS:
        if seconds >= size_s:
            whole, rest = divmod(int(seconds), size_s)
            return f"{whole} {unit} {rest // part_s} {part}" if rest >= part_s else f"{whole} {unit}"
    return f"{seconds:.3g} s"


OTHERS = "(others)"
"""Stands for the roots that have no rates of their own."""


class Traffic(NamedTuple):
    """The messages of a topic, of a root, or of all."""

    name: str
    messages: int
    bytes: int
    first_us: int
    last_us: int


class Rate(NamedTuple):
    """The messages of a root or a topic within a bucket of time; empty buckets are left out."""

    name: str
    start_us: int
    messages: int
    bytes: int


class Gap(NamedTuple):
    """A stretch of time without any message of a root."""

    root: str
    last_us: int
    next_us: int

    @property
    def length_us(self) -> int:
        return self.next_us - self.last_us


class Missing(NamedTuple):
    """A range of absent offsets; `next` is behind the last one."""

    first: int
    next: int


@dataclass(frozen=True)
class Offsets:
    """Which offsets are there."""

    first: int
    last: int
    absent: int
    """Offsets between the first and the last that are not there."""
    ranges: int
    repeated: int
    """Messages with the offset of another one: 0 in an archive that was written once."""
    longest: tuple[Missing, ...]


@dataclass(frozen=True)
class Findings:
    """All of it."""

    archive: str
    selected: str
    total: Traffic
    topics: int
    roots: tuple[Traffic, ...]
    by_messages: tuple[Traffic, ...]
    by_bytes: tuple[Traffic, ...]
    bucket_us: int
    root_rates: tuple[Rate, ...]
    """Of the first roots, and of all `OTHERS` together; by name and time."""
    topic_rates: tuple[Rate, ...]
    """Of the topics in `by_messages` and `by_bytes`."""
    gap_us: int
    """Longer stretches are gaps."""
    gaps: tuple[Gap, ...]
    gaps_count: int
    """With those that are not listed."""
    offsets: Offsets
    """Of all topics in that time, not only those of the selected prefixes."""
    event_time: str = ""
    """Field with the times that count; empty for the time of the hub."""


TRAFFIC_HEADS = ("messages", "bytes", "messages/s", "first, UTC", "last, UTC")
"""The heads of a `traffic_row`, behind the name."""


def named(name: str) -> str:
    return plain(name) or "(none)"


def traffic_row(traffic: Traffic) -> Sequence[str]:
    return (
        named(traffic.name),
        amount(traffic.messages),
        amount(traffic.bytes),
        rate(traffic.messages, _length_s(traffic)),
        second(traffic.first_us),
        second(traffic.last_us),
    )


def _length_s(traffic: Traffic) -> float:
    return (traffic.last_us - traffic.first_us) / 1_000_000


def figures_of(findings: Findings) -> list[Figure]:
    total, offsets = findings.total, findings.offsets
    return [
        ("messages", "messages", amount(total.messages)),
        ("values", "bytes", amount(total.bytes)),
        ("mean value", "bytes", f"{total.bytes / total.messages:,.1f}"),
        ("topics", "topics", amount(findings.topics)),
        ("first message", "UTC", second(total.first_us)),
        ("last message", "UTC", second(total.last_us)),
        ("time between them", "", span(total.last_us - total.first_us)),
        ("mean rate", "messages/s", rate(total.messages, _length_s(total))),
        (f"gaps longer than {span(findings.gap_us)}", "gaps", amount(findings.gaps_count)),
        ("first offset", "", amount(offsets.first)),
        ("last offset", "", amount(offsets.last)),
        ("absent offsets", "offsets", amount(offsets.absent)),
        ("absent offsets", "ranges", amount(offsets.ranges)),
        ("repeated offsets", "messages", amount(offsets.repeated)),
    ]


def remarks(findings: Findings) -> list[str]:
    said = []
    if findings.event_time:
        said.append(f"times are those of the field {plain(findings.event_time)}, of the hub where a message has none")
    if findings.offsets.absent:
        said.append(
            f"{findings.offsets.absent:,} offsets between the first and the last are absent, in "
            f"{findings.offsets.ranges:,} ranges: messages of prefixes that were not archived look the same as "
            "messages that were lost"
        )
    if findings.offsets.repeated:
        said.append(
            f"{findings.offsets.repeated:,} messages have the offset of another one: the archive was written twice "
            "over, or holds messages of several journals"
        )
    return said


# Most rows of a table.
_ROWS = 50

_MARKS = 7
_SECOND_US = 1_000_000
_DAY_S = 86_400
_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, _DAY_S)

_OWN_STYLE = """
body { max-width: 900px; }
.figures td:nth-child(2), .figures th:nth-child(2) { text-align: right; }
.figures td { white-space: nowrap; }
.figures td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 11em; }
section { overflow-x: auto; }
"""


def page(findings: Findings) -> str:
    title = f"hub spark report: {plain(findings.archive)}"
    said = "".join(f"<li>{escape(remark)}</li>" for remark in remarks(findings))
    gaps = [(named(one.root), span(one.length_us), second(one.last_us), second(one.next_us)) for one in findings.gaps]
    absent = [
        (amount(one.first), amount(one.next - 1), amount(one.next - one.first)) for one in findings.offsets.longest
    ]
    sections = {
        "Messages over time, by root": _rates(findings, findings.root_rates, findings.roots),
        "Messages over time, by topic": _rates(findings, findings.topic_rates, findings.by_messages),
        "Roots": _traffic("root", findings.roots),
        "Topics with the most messages": _traffic("topic", findings.by_messages),
        "Topics with the most bytes": _traffic("topic", findings.by_bytes),
        f"Longer than {span(findings.gap_us)} without any message of a root": _listed(
            ("root", "length", "last before it, UTC", "first behind it, UTC"), gaps, findings.gaps_count
        ),
        "Absent offsets": _listed(("first", "last", "offsets"), absent, findings.offsets.ranges),
    }
    parts = [
        f"<h1>{escape(title)}</h1>\n<p>{escape(plain(findings.selected))}</p>",
        f"<ul>{said}</ul>" if said else "",
        _table("", ("", "unit", "figure"), figures_of(findings)),
        *(f"<h2>{escape(head)}</h2>\n<section>{content}</section>" for head, content in sections.items()),
    ]
    return html_page(title, parts, _OWN_STYLE)


def _traffic(head: str, found: Sequence[Traffic]) -> str:
    return _listed((head, *TRAFFIC_HEADS), [traffic_row(traffic) for traffic in found[:_ROWS]], len(found))


def _listed(heads: Sequence[str], rows: Sequence[Sequence[str]], count: int) -> str:
    shown = rows[:_ROWS]
    more = f"\n<p>and {count - len(shown):,} more</p>" if count > len(shown) else ""
    return f"{_table('figures', heads, shown)}{more}" if shown else "<p>none</p>"


def _table(kind: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(plain(cell))}</td>' for cell in row)}</tr>\n" for row in rows)
    return f'<table class="{kind}"><tr>{head}</tr>\n{body}</table>'


def _rates(findings: Findings, rates: Sequence[Rate], order: Iterable[Traffic]) -> str:
    names = drawn_names(rates, [traffic.name for traffic in order])
    legend = " &nbsp; ".join(
        f'<span style="color: {colour}">■</span> {escape(named(name))}'
        for name, colour in zip(names, COLOURS, strict=False)
    )
    since = f"In buckets of {span(findings.bucket_us)}, from {second(findings.total.first_us)} UTC on."
    return f"{_drawing(findings, rates, names)}\n<p>{legend}</p>\n<p>{escape(since)}</p>"


def drawn_names(rates: Iterable[Rate], order: Sequence[str]) -> list[str]:
    """Return which of the rates are drawn: as many as there are colours, in that order, `OTHERS` last."""
    there = {rate.name for rate in rates}
    return [name for name in (*order, OTHERS) if name in there][: len(COLOURS)]


def _drawing(findings: Findings, rates: Iterable[Rate], names: Sequence[str]) -> str:
    bucket_us = findings.bucket_us
    start_us = findings.total.first_us // bucket_us * bucket_us
    steps = (findings.total.last_us - start_us) // bucket_us + 1
    counts: dict[str, dict[int, int]] = {name: {} for name in names}
    for rate in rates:
        if rate.name in counts:
            counts[rate.name][(rate.start_us - start_us) // bucket_us] = rate.messages
    lines = [step_line(counts[name], steps, bucket_us / _SECOND_US) for name in names]
    return line_plot(lines, "", "messages/s", time_ticks(start_us, start_us + steps * bucket_us))


def step_line(counts: dict[int, int], steps: int, width_s: float) -> list[tuple[float, float]]:
    """Return a line of steps, 0 where nothing came; equal neighbours are one step."""
    line: list[tuple[float, float]] = []
    for step in range(steps):
        height = counts.get(step, 0) / width_s
        if line and line[-1][1] == height:
            line.pop()
        else:
            line.append((step * width_s, height))
        line.append(((step + 1) * width_s, height))
    return line


def round_width_s(length_us: int, parts: int) -> int:
    """Return the least round width with at most so many parts in a stretch of time; whole days in the end."""
    least_s = length_us / _SECOND_US / parts
    return next((width for width in _WIDTHS_S if width >= least_s), -int(-least_s // _DAY_S) * _DAY_S)


def time_ticks(start_us: int, end_us: int) -> list[tuple[float, str]]:
    """Return the marks of an axis of time: seconds after its start, and their labels."""
    width_s = round_width_s(end_us - start_us, _MARKS)
    written = "%H:%M:%S" if width_s < 60 else "%H:%M" if width_s < _DAY_S else "%Y-%m-%d"
    start_s, end_s = start_us / _SECOND_US, end_us / _SECOND_US
    first = int(-(-start_s // width_s)) * width_s
    return [
        (at - start_s, f"{datetime.fromtimestamp(at, UTC):{written}}") for at in range(first, int(end_s) + 1, width_s)
    ]
