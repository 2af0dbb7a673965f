"""`columns`: a table as plain lines, for commands that end: a line of headings, then one for each row.

Columns with numbers stand to the right, texts to the left, and `-` for nothing; what a far side has said cannot steer
a terminal. No state, no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from peers.cli.texts import escaped

__all__ = ["columns"]

Cell = str | int | float | None


def columns(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines of a table; none if there are no rows."""
    if not rows:
        return []
    shown = [[_shown(cell) for cell in row] for row in rows]
    is_number = [any(isinstance(cell, int | float) for cell in column) for column in zip(*rows, strict=True)]
    widths = [max(map(len, column)) for column in zip(headings, *shown, strict=True)]
    lines = []
    for row in (headings, *shown):
        cells = zip(row, widths, is_number, strict=True)
        lines.append("  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells))
    return [line.rstrip() for line in lines]


def _shown(cell: Cell) -> str:
    match cell:
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.2f}"
    return escaped(cell or "") or "-"
