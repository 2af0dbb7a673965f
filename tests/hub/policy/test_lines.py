"""In which line a value stands."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from hub.policy.lines import LONGEST_KEY, Keys, line_of, long_key

AWKWARD = r'''a = 1 # b = 7
"quoted \" = key" = 2
'in line' = { b = 3, c.d = [3, { e = 3 }], "f,]" = "}]" }

[ table . "with.dots" ]
array = [ 6, # ] not yet
   7,
  [ 8, """[
,""", 9], 'x]', ]
last.of.it = 10
text = """
several = 1
"" quotes "\""""
b = [14, """a""""", 14, @@@'x' @@@, 14]
[table]
c = 16
[other] # [no]
empty = []
also = {}
d = -20
e = [ [ 21 ], [ ], [ 21, [
  22 ] ],
]
'''
"""Each number is that of its line; `@@@` stands for three of the quotes that surround this."""


def numbers(value: Any, keys: Keys = ()) -> Iterator[tuple[Keys, int]]:
    """All numbers in tables and arrays, with what leads to each."""
    match value:
        case int():
            yield keys, abs(value)
        case dict():
            for key, each in value.items():
                yield from numbers(each, (*keys, key))
        case list():
            for number, each in enumerate(value):
                yield from numbers(each, (*keys, number))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_where_values_stand(end: str) -> None:
    """The line is right for every kind of key, table, array, text and comment."""
    text = AWKWARD.replace("@@@", "'" * 3).replace("\n", end)
    found = dict(numbers(tomllib.loads(text)))
    assert len(found) == 18
    assert {keys: line_of(text, keys) for keys in found} == found


def test_what_is_not_there() -> None:
    """It has no line."""
    assert line_of("a = [1]\n", ("a", 1)) is None
    assert line_of("a = 1\n", ("b",)) is None
    assert line_of("", ("a",)) is None


def test_long_keys() -> None:
    """They are found, whether they lead to a value or a table; what looks like one in a text is none."""
    dots = ".a" * LONGEST_KEY
    assert long_key(f"x = 1\n[a{dots}]") == 2
    assert long_key(f"a {dots.replace('.', ' . ')} = 1") == 1
    assert long_key(f"x = '''\n'''\n\"a\"{dots} = 1") == 3
    for harmless in (
        f"x = 'a{dots}'",
        f"# a{dots}",
        f'x = """\na{dots}"""',
        f"a{dots[2:]} = 1",
        "x = [1.5, 2.5]\n" * 99,
    ):
        assert long_key(harmless) is None, harmless


@pytest.mark.parametrize(
    "piece", ['"\\"', '"""\\', "'", "'''", '"', '"""', "\\", "[", "{", "a.", "=", "#", "\n", "[[", "a=", '"\\\n', "'\n"]
)
def test_each_character_is_looked_at_once(piece: str) -> None:
    """Whatever stands there: were it not so, a text of this length would take hours."""
    found = long_key(piece * (200_000 // len(piece)))
    assert found == (1 if piece == "a." else None)
