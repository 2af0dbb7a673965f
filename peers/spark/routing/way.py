"""`Way`: how messages are matched. On its own, so that the command line can name it without loading Spark."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Way"]


class Way(StrEnum):
    """How messages are matched; see `peers.spark.routing.route`."""

    AUTO = "auto"
    TOPICS = "topics"
    EXPLODE = "explode"
