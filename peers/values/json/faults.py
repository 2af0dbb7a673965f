r"""A slow JSON parser that finds the same faults as Broker's, at the same places.

Broker reports malformed JSON as `caf::pec::<fault>(<line>, <column>)`. Clients may show that to people, so the hub says
the same. This parser reads only texts that a fast one has refused: they are faulty, or have something that Broker takes
all the same, which is `\v`, raw control characters, form feeds between values, or a lower-case `nan`.

Lines and columns count from 1, and columns are bytes; a newline is column 1 of the line that it begins. A NUL ends the
text. Of equal keys the first one counts. Cost: about 1 µs per value, bounded by `STEPS_LIMIT`. No state, no I/O.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

__all__ = ["NESTING_LIMIT", "STEPS_LIMIT", "MalformedError", "TooLongError", "parse"]

NESTING_LIMIT = 128
"""Broker's limit of nesting: each array, object and member counts as one level."""

STEPS_LIMIT = 16 * 1024
"""Most values and escapes that are read of one text, which takes 16 ms. The exact place of a later fault is not
reported."""

_SPACE = re.compile(r"[ \f\n\r\t\v]*")
_CHARACTERS = re.compile(r'[^"\\\0]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_HEX = "0123456789abcdefABCDEF"
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WORDS: dict[str, tuple[tuple[str, Any], ...]] = {
    "t": (("true", True),),
    "f": (("false", False),),
    "n": (("null", None), ("nan", float("nan"))),
}
_U64_LIMIT = 1 << 64
_I64_LIMIT = 1 << 63
_RAW_BYTES = range(0xDC80, 0xDD00)
"""Lone surrogates that stand for bytes that are no UTF-8."""


class MalformedError(Exception):
    """The text is no JSON.

    Attributes:
        fault: Broker's name for what is wrong, with line and column.
    """

    def __init__(self, fault: str, text: str, position: int) -> None:
        line, column = _place(text, position)
        super().__init__(fault, line, column)
        self.fault = f"caf::pec::{fault}({line}, {column})"


class TooLongError(Exception):
    """More than `STEPS_LIMIT` values and escapes were read, and nothing is known."""


def _place(text: str, position: int) -> tuple[int, int]:
    """Return the line and column of the character at `position`."""
    before = text[:position].encode(errors="surrogateescape")
    newline = before.rfind(b"\n", 1)
    line = 1 + before.count(b"\n", 1)
    if position and text[position : position + 1] == "\n":
        return line + 1, 1
    return line, len(before) - newline + 1 if newline > 0 else len(before) + 1


def parse(text: str) -> Any:
    """Return what the text says: dicts, lists, strings, numbers, booleans and None.

    Args:
        text: Bytes that are not UTF-8 stand in it as lone surrogates ("surrogateescape").

    Raises:
        MalformedError: Broker would not take the text for JSON.
        TooLongError: The text is too long to find that out.
    """
    return _Parser(text).parse()


class _Parser:
    """Reads one text. Every method begins at `position` and moves it behind what it has read."""

    __slots__ = ("position", "steps", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        """How much of the text was read."""
        self.steps = 0
        """How many values and escapes were read."""

    def parse(self) -> Any:
        value = self.value(0)
        if self.peek():
            raise MalformedError("trailing_character", self.text, self.position)
        return value

    def peek(self) -> str:
        """Return the next character that is no space, empty at the end."""
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return self.here()

    def here(self) -> str:
        character = self.text[self.position : self.position + 1]
        return "" if character == "\0" else character

    def fail(self) -> NoReturn:
        character = self.here()
        fault = "unexpected_newline" if character == "\n" else "unexpected_character" if character else "unexpected_eof"
        raise MalformedError(fault, self.text, self.position)

    def step(self) -> None:
        self.steps += 1
        if self.steps > STEPS_LIMIT:
            raise TooLongError

    def value(self, level: int) -> Any:
        self.step()
        first = self.peek()
        if first == '"':
            return self.string()
        if first and first in "{[":
            if level >= NESTING_LIMIT:
                raise MalformedError("nested_too_deeply", self.text, self.position)
            self.position += 1
            return self.object(level) if first == "{" else self.array(level)
        if first and first in "-0123456789":
            return self.number()
        return self.word(first)

    def object(self, level: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if self.peek() == "}":
            self.position += 1
            return members
        while True:
            if self.peek() != '"':
                self.fail()
            key = self.string()
            if self.peek() != ":":
                self.fail()
            self.position += 1
            members.setdefault(key, self.value(level + 1))
            if self.ends("}"):
                return members

    def array(self, level: int) -> list[Any]:
        items: list[Any] = []
        if self.peek() == "]":
            self.position += 1
            return items
        while True:
            items.append(self.value(level + 1))
            if self.ends("]"):
                return items

    def ends(self, bracket: str) -> bool:
        """Step over a comma, or over the bracket that ends the container."""
        character = self.peek()
        if character not in (",", bracket):
            self.fail()
        self.position += 1
        return character == bracket

    def string(self) -> str:
        parts: list[str] = []
        self.position += 1
        while True:
            match = _CHARACTERS.match(self.text, self.position)
            if match:
                parts.append(match[0])
                self.position = match.end()
            character = self.here()
            if character == '"':
                self.position += 1
                return "".join(parts)
            if not character:
                self.fail()
            self.step()
            self.position += 1
            parts.append(self.escaped())

    def escaped(self) -> str:
        character = self.here()
        if character == "u":
            return self.code_point()
        if character not in _ESCAPES:
            self.fail()
        self.position += 1
        return _ESCAPES[character]

    def code_point(self) -> str:
        code = self.hexadecimal()
        if 0xD800 <= code < 0xDC00:  # this is the first surrogate of a pair, so the second must follow
            if self.here() != "\\":
                self.fail()
            self.position += 1
            if self.here() != "u":
                self.fail()
            start = self.position
            low = self.hexadecimal()
            if not 0xDC00 <= low < 0xE000:
                raise MalformedError("unexpected_character", self.text, start + 1)
            return chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00)
        if 0xDC00 <= code < 0xE000 and code not in _RAW_BYTES:
            return chr(code).encode(errors="surrogatepass").decode(errors="surrogateescape")
        return chr(code)

    def hexadecimal(self) -> int:
        self.position += 1  # over the "u"
        start = self.position
        while self.position < start + 4:
            character = self.here()
            if not character or character not in _HEX:
                self.fail()
            self.position += 1
        return int(self.text[start : self.position], 16)

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.position)
        if match is None:  # a sign without a digit
            self.position += 1
            self.fail()
        start, self.position = self.position, match.end()
        if match[1] or match[2]:
            return float(match[0])
        digits = match[0]
        if len(digits) < 19:
            return int(digits)
        limit = _I64_LIMIT if digits[0] == "-" else _U64_LIMIT - 1
        longest = digits[:22]
        if abs(int(longest)) <= limit:
            return int(longest)
        fault = "integer_underflow" if digits[0] == "-" else "integer_overflow"
        within = next(length for length in range(18, 23) if abs(int(longest[:length])) > limit)
        raise MalformedError(fault, self.text, start + within - 1)

    def word(self, first: str) -> Any:
        """Read true, false, null or nan; the first character that belongs to none of them is the fault."""
        words = _WORDS.get(first)
        if words is None:
            self.fail()
        for word, value in words:
            if self.text.startswith(word, self.position):
                self.position += len(word)
                return value
        start = self.position
        self.position += max(_common(self.text[start : start + 5], word) for word, _ in words)
        return self.fail()


def _common(text: str, word: str) -> int:
    """How many characters at the beginning are the same."""
    pairs = enumerate(zip(text, word, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(text), len(word)))
