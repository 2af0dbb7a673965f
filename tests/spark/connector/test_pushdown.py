"""Filters that narrow what the hub is asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from peers.spark.connector.pushdown import Narrowing, narrowing

TOPIC, OFFSET, TIME = ("topic",), ("offset",), ("timestamp",)
MOMENT = datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], {}),
        ([IsNotNull(TOPIC), EqualTo(("query",), "x")], {}),
        ([StringStartsWith(TOPIC, "/a/b")], {"topics": ("/a/b",)}),
        ([StringStartsWith(TOPIC, "/")], {"topics": ("/a/", "/b/")}),
        ([EqualTo(TOPIC, "/b/x")], {"topics": ("/b/x",)}),
        ([In(TOPIC, ("/a/x", "/b/y", "/c"))], {"topics": ("/a/x", "/b/y")}),
        ([In(TOPIC, ("/a/x", None))], {}),
        ([StringStartsWith(TOPIC, "/c")], {"topics": ("/c",)}),
        ([StringStartsWith(TOPIC, "/a"), EqualTo(TOPIC, "/a/x")], {"topics": ("/a/x",)}),
        ([EqualTo(OFFSET, 5)], {"start": 5, "end": 6}),
        ([GreaterThan(OFFSET, 5), LessThan(OFFSET, 9)], {"start": 6, "end": 9}),
        ([GreaterThanOrEqual(OFFSET, 5), LessThanOrEqual(OFFSET, 9), LessThan(OFFSET, 8)], {"start": 5, "end": 8}),
        ([GreaterThan(OFFSET, -5)], {}),
        ([GreaterThan(TIME, MOMENT)], {"since_ms": 1000}),
        ([GreaterThanOrEqual(TIME, MOMENT), GreaterThan(TIME, MOMENT.replace(second=2))], {"since_ms": 2000}),
        ([LessThan(TIME, MOMENT)], {}),
    ],
)
def test_narrowing(filters: list[Filter], expected: dict[str, Any]) -> None:
    """What is left holds all that the filters let through."""
    assert narrowing(filters, ("/a/", "/b/")) == Narrowing(("/a/", "/b/"))._replace(**expected)
