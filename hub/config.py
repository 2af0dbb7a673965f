"""Keys: every setting by its path, as a table, and how several layers of plain values become one `Settings`.

`KEYS` is made from the annotations of `hub.settings`: for the documentation, the environment and the command line.
`merge` lays layers of plain nested dictionaries over the defaults and remembers which layer each value came from.

Owner of the state: nobody, these are frozen values. Where the layers come from (file, environment, flags) is the
business of `peers.daemon.sources`; this module reads nothing.

Invariants: a `Settings` made by `merge` is within every range and agrees with itself (no default queue is larger
than the largest one that a client may wish for).

Cost: paid at start and at a reload, never per message.
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

from hub.errors import InvalidTopicError, UsageError
from hub.settings import RANGED, Settings
from hub.topics import check_prefix

__all__ = [
    "DEFAULT",
    "KEYS",
    "ConfigError",
    "Key",
    "Kind",
    "closest",
    "merge",
    "parse_size",
    "reloaded",
    "value_at",
]

DEFAULT = "default"
"""Origin of a value that no layer sets."""

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB
_TIB = 1024 * _GIB

_SHOWN_CHARACTERS = 64
"""How much of an unknown key or a bad value an error repeats: enough to find it, too little to flood a terminal."""

_SIZE = re.compile(r"([0-9][0-9_]{0,17}) ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?", re.IGNORECASE | re.ASCII)

_UNITS_BYTES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": _KIB,
    "mib": _MIB,
    "gib": _GIB,
    "tib": _TIB,
}


class ConfigError(UsageError):
    """A setting, or a place where settings are read from, that cannot be used.

    Attributes:
        source: Where it stands: a file's path, "environment HUB_...", "flag --...".
        key: Dotted path such as "queue.messages"; empty if the trouble is not with one key.
        reason: The cause, for people.
    """

    def __init__(self, source: str, key: str, reason: str) -> None:
        super().__init__(": ".join(part for part in (source, key, reason) if part))
        self.source = source
        self.key = key
        self.reason = reason


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
        unit: What a number counts, or what a list holds; empty for texts and choices.
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
                return f"a text of at most {self.most} bytes without control characters"
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


def parse_size(text: str) -> int:
    """Read a size: "65536", "64KiB", "16 MiB" (powers of 1024), "1GB" (powers of 1000). Case does not matter.

    Returns:
        Bytes, 0 or more.

    Raises:
        ValueError: It is none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected a size such as 1048576, '64KiB' or '1MB'")
    return int(found[1]) * _UNITS_BYTES[(found[2] or "B").lower()]


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

_SECTIONS = frozenset(path.rpartition(".")[0] for path in KEYS) - {""}


def closest(word: str, known: Iterable[str]) -> str:
    """Make the "did you mean" of an error.

    Returns:
        "; did you mean X?", or an empty text if nothing known is near.
    """
    near = difflib.get_close_matches(word[:_SHOWN_CHARACTERS], list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def merge(layers: Iterable[tuple[str, Mapping[str, object]]]) -> tuple[Settings, dict[str, str]]:
    """Lay layers of plain values over the defaults; a later layer wins, key by key. Lists are replaced, not joined.

    Args:
        layers: Pairs of the source's name and nested dictionaries as a TOML file gives them.

    Returns:
        The settings, and for each path of `KEYS` the source of its value (`DEFAULT` if no layer set it).

    Raises:
        ConfigError: An unknown key, a value of the wrong type or out of range, or two that contradict each other.
    """
    origins = dict.fromkeys(KEYS, DEFAULT)
    chosen: dict[str, dict[str, Any]] = {}
    for source, tree in layers:
        for path, value in _leaves(source, tree, ""):
            section, _, field = path.rpartition(".")
            chosen.setdefault(section, {})[field] = _converted(source, path, value)
            origins[path] = source
    settings = Settings()
    sections = {name: msgspec.structs.replace(getattr(settings, name), **chosen.get(name, {})) for name in _SECTIONS}
    settings = msgspec.structs.replace(settings, **chosen.get("", {}), **sections)
    _check_queue(settings, origins)
    _check_prefixes("zeek.topics", settings.zeek.topics, origins)
    _check_prefixes("zeek.stores", settings.zeek.stores, origins)
    _check_prefixes("journal.topics", settings.journal.topics, origins)
    return settings, origins


def value_at(settings: Settings, path: str) -> Any:
    """Look a value up by its dotted path, one of `KEYS`."""
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def reloaded(old: Settings, new: Settings) -> tuple[Settings, list[str], list[str]]:
    """Say what a reload makes of settings.

    Returns:
        The old settings with those keys of the new ones that are live, the paths of these that have changed, and the
        paths of the others that have changed, and need a restart.
    """
    changed = [path for path in KEYS if value_at(old, path) != value_at(new, path)]
    applied = [path for path in changed if KEYS[path].live]
    chosen: dict[str, dict[str, Any]] = {}
    for path in applied:
        section, _, field = path.rpartition(".")
        chosen.setdefault(section, {})[field] = value_at(new, path)
    sections = {name: msgspec.structs.replace(getattr(old, name), **chosen[name]) for name in chosen if name}
    effective = msgspec.structs.replace(old, **chosen.get("", {}), **sections)
    return effective, applied, [path for path in changed if not KEYS[path].live]


def _leaves(source: str, tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Walk the known keys of one layer, complaining about the first that is not known."""
    for name, value in tree.items():
        path = prefix + name
        if path in KEYS:
            yield path, value
        elif path not in _SECTIONS:
            place = f"in [{prefix[:-1]}]" if prefix else "at the top level"
            hint = closest(path, [*KEYS, *_SECTIONS])
            raise ConfigError(source, _shown_path(path), f"unknown key {place}{hint}")
        elif isinstance(value, Mapping):
            yield from _leaves(source, value, path + ".")
        else:
            raise ConfigError(source, path, f"{_shown(value)} given, expected a table [{path}]")


def _converted(source: str, path: str, value: object) -> Any:
    """Check one value of one layer."""
    try:
        return KEYS[path].convert(value)
    except ValueError as error:
        raise ConfigError(source, path, f"{_shown(value)} given, {error}") from error


def _shown(value: object) -> str:
    """Repeat what somebody wrote: on one line, without control characters, and not all of a long one."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # hexadecimal digits by the thousand, dotted keys by the thousand
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def _shown_path(path: str) -> str:
    """Repeat an unknown key as it stands, unless it is too odd for that."""
    return path if path.isprintable() and len(path) <= _SHOWN_CHARACTERS else _shown(path)


def _check_queue(settings: Settings, origins: Mapping[str, str]) -> None:
    """See to it that the default queue is one that a client could have wished for."""
    for default, largest in (("queue.messages", "queue_max.messages"), ("queue.bytes", "queue_max.bytes")):
        if value_at(settings, default) > value_at(settings, largest):
            culprit = largest if origins[default] == DEFAULT else default
            raise ConfigError(
                origins[culprit],
                culprit,
                f"{default} = {value_at(settings, default)} ({origins[default]}) is more than"
                f" {largest} = {value_at(settings, largest)} ({origins[largest]}); lower the one or raise the other",
            )


def _check_prefixes(path: str, prefixes: tuple[str, ...], origins: Mapping[str, str]) -> None:
    """See to it that each of these texts can be subscribed to."""
    for prefix in prefixes:
        try:
            check_prefix(prefix)
        except InvalidTopicError as error:
            raise ConfigError(origins[path], path, str(error)) from error
