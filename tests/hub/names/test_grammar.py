"""What service names may look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import InvalidNameError
from hub.names.grammar import NAME_LIMIT_BYTES, check_name, decode_name

elements = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,9}", fullmatch=True)


@given(st.lists(elements, min_size=2, max_size=8).map(".".join))
def test_names(name: str) -> None:
    assert check_name(name) == name
    assert decode_name(name.encode()) == name


@pytest.mark.parametrize("name", ["a.b", "org.example.Player", "_._", "a-b.c-", "a." + "b" * (NAME_LIMIT_BYTES - 2)])
def test_names_at_the_edges(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        ".",
        "a.",
        ".a",
        "a..b",
        "1.a",
        "a.1b",
        "-a.b",
        "a.-b",
        "a b.c",
        "a.b\n",
        "a.ä",
        "a.\x00",
        "$hub.a",
        ":1.7",
    ],
)
def test_no_names(name: str) -> None:
    with pytest.raises(InvalidNameError, match="is none: it takes two or more elements"):
        check_name(name)
    with pytest.raises(InvalidNameError, match="is none"):
        decode_name(name.encode())


def test_a_name_that_is_too_long() -> None:
    with pytest.raises(InvalidNameError, match=r"is 256 characters long, the limit is 255") as caught:
        check_name("a." + "b" * (NAME_LIMIT_BYTES - 1))
    assert len(str(caught.value)) < 200


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(InvalidNameError, match="is none"):
        decode_name(b"a.\xff")
