"""Which columns a query may read."""

from __future__ import annotations

import pytest

from peers.spark.connector.columns import checked_schema, default_schema, fields_schema
from peers.spark.connector.options import ColumnError, Decode
from tests.spark.connector.blocks import schema_of

pytestmark = pytest.mark.usefixtures("spark")  # types are read by Java


@pytest.mark.parametrize(
    ("decode", "schema"),
    [
        ("raw", "offset BIGINT, timestamp TIMESTAMP, topic STRING, value BINARY"),
        ("json", "offset BIGINT, timestamp TIMESTAMP, topic STRING, value STRING"),
    ],
)
def test_defaults(decode: Decode, schema: str) -> None:
    assert default_schema(decode) == schema_of(schema)


@pytest.mark.parametrize(
    ("decode", "schema"),
    [
        ("raw", "topic STRING, offset BIGINT"),
        ("json", "value STRING"),
        ("schema", "query STRING, `id.orig_h` STRING, timestamp TIMESTAMP, value BINARY"),
        ("json", "query STRING, value STRING"),
    ],
)
def test_users_choose(decode: Decode, schema: str) -> None:
    given = schema_of(schema)
    assert checked_schema(given, decode) == given


@pytest.mark.parametrize(
    ("decode", "schema", "said"),
    [
        ("raw", "value STRING", "column value is BINARY, not STRING; option decode=json gives its JSON text"),
        ("json", "value BINARY", "column value is STRING, not BINARY"),
        ("raw", "offset INT", "column offset is BIGINT, not INT"),
        ("schema", "timestamp DOUBLE", "column timestamp is TIMESTAMP, not DOUBLE"),
        ("raw", "offsets BIGINT", "there is no column offsets: did you mean offset?"),
        ("raw", "query STRING", "with option decode=schema, other columns are fields of the messages"),
        ("schema", "query STRING NOT NULL", "a message may lack the field"),
    ],
)
def test_refusals(decode: Decode, schema: str, said: str) -> None:
    with pytest.raises(ColumnError) as caught:
        checked_schema(schema_of(schema), decode)
    assert said in str(caught.value)


def test_fields_that_were_looked_up() -> None:
    kinds = {
        "query": "STRING",
        "qtype": "BIGINT",
        "topic": "STRING",
        "Query": "BIGINT",
        "": "BIGINT",
        "ttls": "ARRAY<DOUBLE>",
    }
    expected = "offset BIGINT, timestamp TIMESTAMP, topic STRING, query STRING, qtype BIGINT, ttls ARRAY<DOUBLE>"
    assert fields_schema(kinds) == schema_of(expected)
