"""When to come back, in the text of a close."""

from __future__ import annotations

import pytest

from peers.wire.reasons import RETRY_LIMIT_S, retry_after_s, with_retry


@pytest.mark.parametrize("seconds", [0.0, 0.1, 2.5, 3600.0])
def test_what_is_said_is_read(seconds: float) -> None:
    text = with_retry("the hub stops", seconds)
    assert text.startswith("the hub stops; ")
    assert retry_after_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the hub stops", None),
        ("", None),
        ("retry after 5 s", None),
        ("x; retry after 5 s later", None),
        ("x; retry after -5 s", None),
        ("x; retry after inf s", None),
        ("x; retry after 1e9 s", None),
        ("x; retry after 1234567 s", None),
        ("x; retry after \u0665 s", None),
        ("x; retry after 5 s", 5.0),
        ("x; retry after 999999.999 s", RETRY_LIMIT_S),
        ("x; retry after 1 s; retry after 2 s", 2.0),
    ],
)
def test_other_texts(text: str, expected: float | None) -> None:
    assert retry_after_s(text) == expected
