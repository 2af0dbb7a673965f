"""`line_of`: in which line of a TOML text a value stands, which the parser of the standard library does not tell.

And `long_key`: whether a text, right or not, has a key that this parser had better not be given.

```
[roles.sensor]
publish = ["/zeek", "/status/{user}"]      line_of(text, ("roles", "sensor", "publish", 1)) == 2
```

For `line_of` the text must be TOML that was read already: it is cut into words, and nothing is checked again. Tables in
arrays (`[[...]]`) are not told apart, as policies have none.

Owner: nobody. Cost: about 1 µs a word, 0.1 s for 10,000 rules: whoever has a loop asks in a thread. Not here: what the
values mean (`hub.policy.language`), which place is looked for (`hub.policy.places`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Final

__all__ = ["LONGEST_KEY", "Keys", "line_of", "long_key"]

Keys = tuple[str | int, ...]
"""The keys that lead to a value, and in an array its number, from 0."""

LONGEST_KEY: Final = 128
"""Most parts of a key, as in `a.b.c`: the parser takes time and memory by the square of how many there are."""

_WORD = re.compile(
    r"(?P<space>[ \t\r]+|\#[^\n]*)"
    r"|(?P<end>\n)"
    # What is not closed ends with its line, or with the text: so each character is looked at once, whatever it is.
    r'|(?P<quoted>"{3}(?:\\.|[^\\])*?(?:"{3,5}|\\?\Z)|\'{3}.*?(?:\'{3,5}|\Z)'
    r'|"(?:\\[^\n]|[^"\\\n])*"?|\'[^\'\n]*\'?)'
    r"|(?P<mark>[\[\]{}=,.])"
    r"|(?P<bare>[^\s\[\]{}=,.\"'#]+)",
    re.DOTALL,
)


class _Open:
    """An array, or a table within a line, that is not closed yet."""

    __slots__ = ("keys", "number")

    def __init__(self, keys: Keys, number: int | None) -> None:
        self.keys = keys
        """What leads to it."""
        self.number = number
        """Of an array, the number of the value that comes; None for a table."""


class _Reader:
    """Goes through a text, word by word, and knows where it is."""

    def __init__(self) -> None:
        self._header: Keys = ()
        """The keys of the table of which lines are read."""
        self._open: list[_Open] = []
        self._key: list[str] = []
        """The parts of the key that is read now."""
        self._in_header = False
        self._in_value = False

    def end_line(self) -> None:
        """A line is over, which matters where no array is open."""
        if not self._open:
            self._key.clear()
            self._in_header = self._in_value = False

    def mark(self, mark: str) -> None:
        """Take note of what is between keys and values."""
        if self._in_header:
            if mark == "]":
                self._header = tuple(self._key)
        elif not self._in_value and mark == "[":
            self._in_header = True
        elif mark == "=":
            self._in_value = True
        elif mark in "[{":
            self._open.append(_Open(self.keys, 0 if mark == "[" else None))
            self._begin()
        elif mark == "," and self._open:
            last = self._open[-1]
            if last.number is not None:
                last.number += 1
            self._begin()
        elif mark in "]}" and self._open:
            del self._open[-1]
            self._in_value = True

    def _begin(self) -> None:
        """A value comes next in an array, and a key in a table."""
        self._key.clear()
        self._in_value = self._open[-1].number is not None

    def word(self, word: str) -> Keys | None:
        """Take a word that is no mark; return what leads to it if it is a value."""
        if self._in_value:
            return self.keys
        self._key.append(tomllib.loads(f"x={word}")["x"] if word[0] in "\"'" else word)
        return None

    @property
    def keys(self) -> Keys:
        """What leads to the value that comes."""
        if not self._open:
            return (*self._header, *self._key)
        last = self._open[-1]
        return (*last.keys, *self._key) if last.number is None else (*last.keys, last.number)


def line_of(text: str, wanted: Keys) -> int | None:
    """Return the line, from 1, in which a value begins; None if no such value is found.

    Args:
        text: TOML, which can be read.
        wanted: What leads to a text, a number or whatever else has no parts.
    """
    return next((line for keys, line in _values(text) if keys == wanted), None)


def _values(text: str) -> Iterator[tuple[Keys, int]]:
    reader = _Reader()
    line = 1
    for found in _WORD.finditer(text):
        word = found[0]
        match found.lastgroup:
            case "end":
                reader.end_line()
            case "mark":
                reader.mark(word)
            case "quoted" | "bare":
                keys = reader.word(word)
                if keys is not None:
                    yield keys, line
        line += word.count("\n")


def long_key(text: str) -> int | None:
    """Return the line, from 1, in which a key gets more than `LONGEST_KEY` parts; None if there is none.

    Args:
        text: Whatever it is.
    """
    line, parts = 1, 0
    for found in _WORD.finditer(text):
        word = found[0]
        if word == ".":
            parts += 1
            if parts >= LONGEST_KEY:
                return line
        elif found.lastgroup in {"end", "mark"}:
            parts = 0
        line += word.count("\n")
    return None
