"""`Column`: what of a record can be asked for by itself; see `hub.journal.excerpt`."""

from __future__ import annotations

from typing import Final, Literal, get_args

__all__ = ["COLUMNS", "Column"]

Column = Literal["offset", "time", "topic", "value"]

COLUMNS: Final[tuple[Column, ...]] = get_args(Column)
