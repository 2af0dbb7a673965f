"""`KEYS`: every setting by its path, made from the annotations of `Settings`.

Documentation, environment variables and flags are made from this table, and it checks each value.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never, get_args

import msgspec
from msgspec import inspect

from hub.settings.settings import RANGED, Settings
from hub.settings.sizes import parse_size

SHOWN_CHARACTERS = 64
"""Length to which errors shorten an unknown key or a bad value."""


class Kind(enum.Enum):
    """Kinds of values that a key may take."""

    COUNT = "whole number"
    SIZE = "size"
    SECONDS = "seconds"
    TEXT = "text"
    CHOICE = "choice"
    TEXTS = "list of texts"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the settings.

    Attributes:
        path: Dotted, such as "queue.messages".
        unit: What a number counts, what a list holds, or the form of a text; empty for choices and other texts.
        least: Smallest number, or fewest texts in a list.
        most: Largest number, or most bytes of a text.
        description: One sentence.
        live: Whether a reload changes it; other keys need a restart.
    """

    path: str
    kind: Kind
    unit: str
    least: float
    most: float
    choices: tuple[str, ...]
    default: object
    description: str
    live: bool
    _type: Any

    @property
    def expected(self) -> str:
        """The accepted values, for people."""
        match self.kind:
            case Kind.COUNT:
                return f"a whole number from {self.least} to {self.most} ({self.unit})"
            case Kind.SIZE:
                return f"a size from {self.least} to {self.most} bytes, such as 1048576 or '1MiB'"
            case Kind.SECONDS:
                return f"a number from {self.least:g} to {self.most:g} (seconds)"
            case Kind.TEXT:
                return self.unit or f"a text of at most {self.most} bytes without control characters"
            case Kind.CHOICE:
                return f"one of {', '.join(self.choices)}"
            case Kind.TEXTS:
                return f"a list of {'one or more ' if self.least else ''}{self.unit}"
            case _:
                assert_never(self.kind)

    def from_text(self, text: str) -> object:
        """Read the value from a text, as in an environment variable: lists are separated by commas.

        Returns:
            A plain value for `convert`, or the text itself where it does not fit, so that `convert` raises.
        """
        match self.kind:
            case Kind.COUNT:
                return int(text) if re.fullmatch(r"\s*[+-]?[0-9][0-9_]{0,17}\s*", text, re.ASCII) else text
            case Kind.SECONDS:
                return _float_or_text(text)
            case Kind.TEXTS:
                return tuple(part.strip() for part in text.split(",") if part.strip())
            case Kind.SIZE | Kind.TEXT | Kind.CHOICE:
                return text
            case _:
                assert_never(self.kind)

    def convert(self, value: object) -> Any:
        """Check a plain value and convert it to the type of the field.

        Raises:
            ValueError: The value does not fit; the text says what was expected.
        """
        try:
            plain = parse_size(value) if self.kind is Kind.SIZE and isinstance(value, str) else value
            converted = msgspec.convert(plain, self._type)
            fits = self.kind is not Kind.TEXT or len(converted.encode()) <= self.most
        except ValueError as error:  # msgspec.ValidationError and UnicodeEncodeError are among them
            raise ValueError(f"expected {self.expected}") from error
        if not fits:
            raise ValueError(f"expected {self.expected}")
        return converted


def _float_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _keys(section: type[msgspec.Struct], prefix: str) -> Iterator[Key]:
    for field in msgspec.structs.fields(section):
        path = prefix + field.name
        if isinstance(field.default, msgspec.Struct):
            yield from _keys(type(field.default), path + ".")
        else:
            yield _key(path, RANGED.get(path, field.type), field.default)


def _key(path: str, annotated: Any, default: object) -> Key:
    described = inspect.type_info(annotated)
    extra: dict[str, Any] = {}
    description = ""
    if isinstance(described, inspect.Metadata):
        extra = described.extra or {}
        description = (described.extra_json_schema or {}).get("description", "")
        described = described.type
    unit = extra.get("unit", "")
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()
    match described:
        case inspect.IntType(ge=int(least), le=int(most)):
            kind = Kind.SIZE if unit == "bytes" else Kind.COUNT
        case inspect.FloatType(ge=float(least), le=float(most)):
            kind = Kind.SECONDS
        case inspect.StrType():
            kind, most = Kind.TEXT, extra["most_bytes"]
        case inspect.VarTupleType():
            kind, least = Kind.TEXTS, described.min_length or 0
        case inspect.LiteralType():
            # From the annotation, since msgspec sorts the texts.
            kind, choices = Kind.CHOICE, get_args(get_args(annotated)[0])
        case inspect.EnumType():
            kind, choices = Kind.CHOICE, tuple(member.value for member in described.cls)
        case _:
            raise TypeError(f"{path}: a key needs a unit and a range: {annotated}")
    return Key(path, kind, unit, least, most, choices, default, description, bool(extra.get("live")), annotated)


KEYS: Mapping[str, Key] = {key.path: key for key in _keys(Settings, "")}
"""Every key by its path, in the order of the documentation."""

SECTIONS = frozenset(path.rpartition(".")[0] for path in KEYS) - {""}
"""The paths of the tables in a file."""


def value_at(settings: Settings, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def closest(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?", or an empty text if no known word is close."""
    near = difflib.get_close_matches(word[:SHOWN_CHARACTERS], list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
