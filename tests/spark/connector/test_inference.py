"""Of which types fields are, from messages that were seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from peers.spark.connector.fields import Inference, Moment, kind_of


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "BIGINT"),
        (-(2**63), "BIGINT"),
        (2**63 - 1, "BIGINT"),
        (2**63, ""),
        (1.5, "DOUBLE"),
        (True, "BOOLEAN"),
        ("x", "STRING"),
        (b"x", "BINARY"),
        (Moment("2018-03-24T17:15:20.5Z"), "TIMESTAMP"),
        ([Moment("2018-03-24T17:15:20.5Z")], "ARRAY<TIMESTAMP>"),
        (datetime(2026, 11, 21, tzinfo=UTC), "TIMESTAMP"),
        (None, ""),
        ({"a": 1}, "STRING"),
        ([], ""),
        ([None], ""),
        ([1, None], "ARRAY<BIGINT>"),
        ([1, 1.5], "ARRAY<DOUBLE>"),
        (["x"], "ARRAY<STRING>"),
        (["x", 1], "STRING"),
        ([[1]], "STRING"),
        ([{}], "STRING"),
        ([2**63], "STRING"),
        ([object], "STRING"),
    ],
)
def test_kinds(value: Any, kind: str) -> None:
    assert kind_of(value) == kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2018-03-24T17:15:20.5Z", "2018-03-24T17:15:20+01:00"], "TIMESTAMP"),
        ([datetime(2026, 11, 21, tzinfo=UTC), "2018-03-24T17:15:20Z"], "TIMESTAMP"),
        (["2018-03-24T17:15:20Z", "never"], "STRING"),
        (["2018-03-24T17:15:20Z", "-", "2018-03-24T17:15:20Z"], "STRING"),
        (["2018-03-24T17:15:20", "2018-03-24"], "STRING"),
        ([["2018-03-24T17:15:20Z"]], "ARRAY<STRING>"),
        ([1, 2**40], "BIGINT"),
        ([1, 1.5], "DOUBLE"),
        ([2**40, 1.5], "DOUBLE"),
        ([[1], [1.5]], "ARRAY<DOUBLE>"),
        ([1, "x", "y"], "STRING"),
        ([1, 1.5, "x"], "DOUBLE"),
        ([None, True], "BOOLEAN"),
    ],
)
def test_fields(values: list[Any], kind: str) -> None:
    """The least kind that holds them; where they do not go together, that of most of them; in any order."""
    for ordered in (values, values[::-1]):
        one, other = Inference(), Inference()
        one.add([{"x": ordered[0]}])
        other.add({"x": value} for value in ordered[1:])
        one.merge(other)
        assert Inference(one.seen).kinds() == {"x": kind}


def test_what_has_no_fields() -> None:
    seen = Inference()
    seen.add([1, ["x"], {1: 1}, {"x": None}, {}])
    assert seen.kinds() == {}
