"""One HTML page with what a survey found, in the look of `hub bench`'s: figures, drawings of rates, tables.

It needs nothing but itself: style and drawings are inline, there are no scripts. Invariant: every text of the archive
is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from peers.console.line_plot import html_page
from peers.spark.report.drawing import COLOURS, drawn_names, rates_drawing
from peers.spark.report.findings import Findings, Rate, Traffic
from peers.spark.report.words import TRAFFIC_HEADS, figures_of, named, remarks, traffic_row
from peers.spark.summary import amount, plain, second, span

__all__ = ["page"]

_ROWS = 50
"""Of a table in the page; the CSV files have them all."""

_OWN_STYLE = """
body { max-width: 900px; }
.figures td:nth-child(2), .figures th:nth-child(2) { text-align: right; }
.figures td { white-space: nowrap; }
.figures td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 11em; }
section { overflow-x: auto; }
"""


def page(findings: Findings) -> str:
    """Return the page."""
    title = f"hub spark report: {plain(findings.archive)}"
    talk, said = findings.talk, "".join(f"<li>{escape(remark)}</li>" for remark in remarks(findings))
    sections = {
        "Messages over time, by root": _rates(findings, findings.root_rates, talk.roots),
        "Messages over time, by topic": _rates(findings, findings.topic_rates, talk.by_messages),
        "Roots": _traffic("root", talk.roots),
        "Topics with the most messages": _traffic("topic", talk.by_messages),
        "Topics with the most bytes": _traffic("topic", talk.by_bytes),
        f"Longer than {span(findings.gap_us)} without any message of a root": _gaps(findings),
        "Absent offsets": _offsets(findings),
    }
    parts = [
        f"<h1>{escape(title)}</h1>\n<p>{escape(plain(findings.selected))}</p>",
        f"<ul>{said}</ul>" if said else "",
        _table("", ("", "unit", "figure"), figures_of(findings)),
        *(f"<h2>{escape(head)}</h2>\n<section>{content}</section>" for head, content in sections.items()),
    ]
    return html_page(title, parts, _OWN_STYLE)


def _rates(findings: Findings, rates: Sequence[Rate], order: Iterable[Traffic]) -> str:
    names = drawn_names(rates, [traffic.name for traffic in order])
    legend = " &nbsp; ".join(
        f'<span style="color: {colour}">■</span> {escape(named(name))}'
        for name, colour in zip(names, COLOURS, strict=False)
    )
    since = f"In buckets of {span(findings.bucket_us)}, from {second(findings.total.first_us)} UTC on."
    return f"{rates_drawing(findings, rates, names)}\n<p>{legend}</p>\n<p>{escape(since)}</p>"


def _traffic(head: str, found: Sequence[Traffic]) -> str:
    return _listed((head, *TRAFFIC_HEADS), [traffic_row(traffic) for traffic in found[:_ROWS]], len(found))


def _gaps(findings: Findings) -> str:
    rows = [(named(gap.root), span(gap.length_us), second(gap.last_us), second(gap.next_us)) for gap in findings.gaps]
    return _listed(("root", "length", "last before it, UTC", "first behind it, UTC"), rows, findings.gaps_count)


def _offsets(findings: Findings) -> str:
    rows = [(amount(one.first), amount(one.next - 1), amount(one.next - one.first)) for one in findings.offsets.longest]
    return _listed(("first", "last", "offsets"), rows, findings.offsets.ranges)


def _listed(heads: Sequence[str], rows: Sequence[Sequence[str]], count: int) -> str:
    """Return a table of the first rows, and how many there are besides."""
    shown = rows[:_ROWS]
    more = f"\n<p>and {count - len(shown):,} more</p>" if count > len(shown) else ""
    return f"{_table('figures', heads, shown)}{more}" if shown else "<p>none</p>"


def _table(kind: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(plain(cell))}</td>' for cell in row)}</tr>\n" for row in rows)
    return f'<table class="{kind}"><tr>{head}</tr>\n{body}</table>'
