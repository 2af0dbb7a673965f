"""Prints figures: tables for people, with units in their heads, and JSON for programs.

Invariant: what stands in a journal cannot steer the terminal.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import msgspec

from peers.cli.texts import escaped

__all__ = ["amount", "kib", "print_json", "show"]

_PIPE_COLUMNS = 200
"""How wide a table is that goes into a pipe, which has no edge to wrap at."""

_KIB = 1024


def show(heads: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: Container[int] = (0,)) -> None:
    """Print a table.

    Args:
        heads: The heads of its columns.
        rows: Each row has as many texts as there are heads.
        text_columns: Numbers of the columns that hold no figures.
    """
    from rich.console import Console  # noqa: PLC0415 -- programs that ask for JSON need not wait 50 ms
    from rich.table import Table  # noqa: PLC0415 -- the same
    from rich.text import Text  # noqa: PLC0415 -- the same

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number in text_columns else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(escaped(cell)) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = _PIPE_COLUMNS
    console.print(table)


def print_json(*objects: dict[str, Any]) -> None:
    """Print one object a line."""
    for one in objects:
        print(escaped(msgspec.json.encode(one).decode()))


def amount(count: int) -> str:
    """Write a number with its thousands apart."""
    return f"{count:,}"


def kib(size_bytes: int) -> str:
    """Write a size in KiB."""
    return f"{size_bytes / _KIB:,.1f}"
