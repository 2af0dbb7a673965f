"""`KEYS`: every setting by its path, as a table: what it takes, in which unit and range, and what it is for.

The table is made from the annotations of `hub.settings`. Documentation, environment and command line are made from it,
and it checks each value, so that a key is described in one place.

Owner of the state: nobody, these are frozen values. Cost: paid once, at import.

Not here: how values from several places become one `Settings` (`hub.config`).
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
from hub.sizes import parse_size

__all__ = ["KEYS", "SECTIONS", "SHOWN_CHARACTERS", "Key", "Kind", "closest", "value_at"]

SHOWN_CHARACTERS = 64
"""How much of an unknown key or a bad value an error repeats: enough to find it, too little to flood a terminal."""


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
        kind: What it takes.
        unit: What a number counts, what a list holds, or how a text is written; empty for choices and other texts.
        least: Smallest number, or fewest texts in a list.
        most: Largest number, or most bytes of a text.
        choices: The texts that a choice takes.
        default: The value without any layer.
        description: One sentence.
        live: Whether a reload changes it; else it needs a restart.
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
        """What the key takes, said for people."""
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
            A plain value for `convert`; the text itself where it cannot be read as what the key takes, so that
            `convert` is the one that complains.
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
        """Check a plain value and give it the type that `Settings` has for it.

        Raises:
            ValueError: It is not what the key takes; the text says what was expected.
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
    """Read a number of seconds, or leave the text as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def _keys(section: type[msgspec.Struct], prefix: str) -> Iterator[Key]:
    """Walk the fields of a section, and of the sections in it."""
    for field in msgspec.structs.fields(section):
        path = prefix + field.name
        if isinstance(field.default, msgspec.Struct):
            yield from _keys(type(field.default), path + ".")
        else:
            yield _key(path, RANGED.get(path, field.type), field.default)


def _key(path: str, annotated: Any, default: object) -> Key:
    """Turn one annotated field into a row of the table."""
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
            # Out of the annotation: msgspec gives the texts in the order of the alphabet.
            kind, choices = Kind.CHOICE, get_args(get_args(annotated)[0])
        case inspect.EnumType():
            kind, choices = Kind.CHOICE, tuple(member.value for member in described.cls)
        case _:
            raise TypeError(f"{path}: a key needs a unit and a range: {annotated}")
    return Key(path, kind, unit, least, most, choices, default, description, bool(extra.get("live")), annotated)


KEYS: Mapping[str, Key] = {key.path: key for key in _keys(Settings, "")}
"""Every key by its path, in the order of the documentation."""

SECTIONS = frozenset(path.rpartition(".")[0] for path in KEYS) - {""}
"""The paths of the tables that keys stand in."""


def value_at(settings: Settings, path: str) -> Any:
    """Look a value up by its dotted path, one of `KEYS`."""
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def closest(word: str, known: Iterable[str]) -> str:
    """Make the "did you mean" of an error.

    Returns:
        "; did you mean X?", or an empty text if nothing known is near.
    """
    near = difflib.get_close_matches(word[:SHOWN_CHARACTERS], list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
