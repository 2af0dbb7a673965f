"""`KEYS`: every setting by its path, made from the annotations of `Settings`; and how layers of values become settings.

Documentation, environment variables and flags are made from this table, and it checks each value. `merge` applies the
layers (file, environment, flags) that `peers.daemon.sources` reads: its result is within every range and free of
contradictions.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, assert_never, get_args

import msgspec
from msgspec import inspect

from hub.errors import InvalidTopicError, UsageError
from hub.settings.settings import RANGED, Settings
from hub.stores.command import parse_feed, parse_served, parse_store
from hub.topics import check_prefix

DEFAULT = "default"  # Origin of a value that no layer sets
SHOWN_CHARACTERS = 64  # Length to which errors shorten an unknown key or a bad value
_SIZE = re.compile(r"([0-9][0-9_]{0,17}) ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?", re.IGNORECASE | re.ASCII)

_UNITS_BYTES: dict[str, int] = (
    {"b": 1}
    | {unit + "ib": 1024**power for power, unit in enumerate("kmgt", 1)}
    | {unit + "b": 1000**power for power, unit in enumerate("kmgt", 1)}
)


def parse_size(text: str) -> int:
    """Read a size: "65536", "64KiB", "16 MiB" (powers of 1024), "1GB" (powers of 1000); raises `ValueError`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected a size such as 1048576, '64KiB' or '1MB'")
    return int(found[1]) * _UNITS_BYTES[(found[2] or "B").lower()]


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
    """One key of the settings."""

    path: str  # Dotted, such as "queue.messages"
    kind: Kind
    unit: str  # Unit of a number, content of a list, or form of a text; empty for choices and other texts
    least: float  # Smallest number, or fewest texts in a list
    most: float  # Largest number, or most bytes of a text
    choices: tuple[str, ...]
    default: object
    description: str  # One sentence
    live: bool  # Whether a reload changes it; other keys need a restart
    _type: Any

    @property
    def expected(self) -> str:
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

        A text that does not fit is returned itself, so that `convert` raises.
        """
        if self.kind is Kind.COUNT and re.fullmatch(r"\s*[+-]?[0-9][0-9_]{0,17}\s*", text, re.ASCII):
            return int(text)
        if self.kind is Kind.SECONDS:
            with suppress(ValueError):
                return float(text)
        if self.kind is Kind.TEXTS:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return text

    def convert(self, value: object) -> Any:
        """Check a plain value and convert it to the type of the field; a `ValueError` names the expected values."""
        try:
            plain = parse_size(value) if self.kind is Kind.SIZE and isinstance(value, str) else value
            converted = msgspec.convert(plain, self._type)
            fits = self.kind is not Kind.TEXT or len(converted.encode()) <= self.most
        except ValueError as error:  # msgspec.ValidationError and UnicodeEncodeError are among them
            raise ValueError(f"expected {self.expected}") from error
        if not fits:
            raise ValueError(f"expected {self.expected}")
        return converted


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

SECTIONS = frozenset(path.rpartition(".")[0] for path in KEYS) - {""}  # The paths of the tables in a file


def value_at(settings: Settings, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def closest(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?", or an empty text if no known word is close."""
    near = difflib.get_close_matches(word[:SHOWN_CHARACTERS], list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]+@")


class ConfigError(UsageError):
    """An invalid setting, or a source of settings that cannot be read."""

    def __init__(self, source: str, key: str, reason: str) -> None:
        super().__init__(": ".join(part for part in (source, key, reason) if part))
        self.source = source  # A file's path, "environment HUB_...", "flag --..."
        self.key = key  # Dotted path; empty if no single key is at fault
        self.reason = reason


def merge(layers: Iterable[tuple[str, Mapping[str, object]]]) -> tuple[Settings, dict[str, str]]:
    """Apply layers of plain values to the defaults; a later layer wins, key by key. Lists are replaced, not joined.

    Args:
        layers: Pairs of a source's name and nested dictionaries as a TOML file gives them.

    Returns:
        The settings, and for each path of `KEYS` the source of its value (`DEFAULT` if no layer set it).

    Raises:
        ConfigError: A key is unknown, a value is of the wrong type or out of range, or two values contradict.
    """
    origins = dict.fromkeys(KEYS, DEFAULT)
    chosen: dict[str, dict[str, Any]] = {}
    for source, tree in layers:
        for path, value in _leaves(source, tree, ""):
            section, _, field = path.rpartition(".")
            chosen.setdefault(section, {})[field] = _converted(source, path, value)
            origins[path] = source
    settings = Settings()
    sections = {name: msgspec.structs.replace(getattr(settings, name), **chosen.get(name, {})) for name in SECTIONS}
    settings = msgspec.structs.replace(settings, **chosen.get("", {}), **sections)
    for path, reason in _contradictions(settings, origins):
        raise ConfigError(origins[path], path, reason)
    return settings, origins


def reloaded(old: Settings, new: Settings) -> tuple[Settings, list[str], list[str]]:
    """Apply the live keys of `new` to `old`.

    Returns:
        The settings in force, the paths that changed, and the paths that need a restart to change.
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


def told(settings: Settings, origins: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return maps with `setting` (a path), `value`, `unit` and `from`, for people.

    Credentials in URLs are masked; other secrets are in files, of which only the path is a setting.
    """
    return [
        {
            "setting": path,
            "value": _without_credentials(value_at(settings, path)),
            "unit": key.unit,
            "from": origins.get(path, DEFAULT),
        }
        for path, key in KEYS.items()
    ]


def _without_credentials(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_without_credentials(one) for one in value]
    return _CREDENTIALS.sub("***@", value) if isinstance(value, str) else value


def _leaves(source: str, tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Yield paths and values of one layer; the first unknown key is an error."""
    for name, value in tree.items():
        path = prefix + name
        if path in KEYS:
            yield path, value
        elif path not in SECTIONS:
            place = f"in [{prefix[:-1]}]" if prefix else "at the top level"
            hint = closest(path, [*KEYS, *SECTIONS])
            shown = path if path.isprintable() and len(path) <= SHOWN_CHARACTERS else _shown(path)
            raise ConfigError(source, shown, f"unknown key {place}{hint}")
        elif isinstance(value, Mapping):
            yield from _leaves(source, value, path + ".")
        else:
            raise ConfigError(source, path, f"{_shown(value)} given, expected a table [{path}]")


def _converted(source: str, path: str, value: object) -> Any:
    try:
        return KEYS[path].convert(value)
    except ValueError as error:
        raise ConfigError(source, path, f"{_shown(value)} given, {error}") from error


def _shown(value: object) -> str:
    """Show a value on one line, without control characters, shortened."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # hexadecimal digits by the thousand, dotted keys by the thousand
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def _contradictions(settings: Settings, origins: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the path of a setting and a reason for each value that is invalid beside the others."""
    # The default queue may not be larger than the largest queue a client may ask for.
    for default, largest in (("queue.messages", "queue_max.messages"), ("queue.bytes", "queue_max.bytes")):
        if value_at(settings, default) > value_at(settings, largest):
            text = f"{default} = {value_at(settings, default)} ({origins[default]}) is more than {largest}"
            text += f" = {value_at(settings, largest)} ({origins[largest]}); lower the one or raise the other"
            yield largest if origins[default] == DEFAULT else default, text
    for path in ("zeek.topics", "zeek.stores", "journal.topics"):
        for prefix in value_at(settings, path):
            yield from _failure(path, check_prefix, prefix)
    journal = settings.journal
    if journal.path and journal.of:
        text = f"journal.path ({origins['journal.path']}) says that this hub has a journal; leave one of the two out"
        yield "journal.of", text
    if journal.tier and not journal.path:
        yield "journal.tier", "is the tier of a journal; set journal.path"
    yield from _contradictions_of_stores(settings)


def _contradictions_of_stores(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each store is opened once; feeds, and stores that Zeeks clone or that follow a Zeek's, are among them."""
    stores: set[str] = set()
    for text in settings.stores.open:
        yield from _failure("stores.open", parse_store, text)
        name, _ = parse_store(text)
        if name in stores:
            yield "stores.open", f"there are two stores {name!r}"
        stores.add(name)
    fed: set[str] = set()
    for text in settings.stores.feeds:
        yield from _failure("stores.feeds", parse_feed, text)
        name, _ = parse_feed(text)
        if name not in stores:
            yield "stores.feeds", f"{name!r} is not a store of `stores.open`"
        fed.add(name)
    names: set[str] = set()
    served: set[str] = set()
    for path, text in [
        *(("zeek.masters", text) for text in settings.zeek.masters),
        *(("zeek.clones", text) for text in settings.zeek.clones),
    ]:
        yield from _failure(path, parse_served, text)
        known, name = parse_served(text)
        if known in names:
            yield path, f"there are two stores {known!r}"
        if name not in stores:
            yield path, f"{name!r} is not a store of `stores.open`"
        if path == "zeek.clones" and name in served:
            yield path, f"{name!r} follows one store only, and Zeeks do not clone it"
        if path == "zeek.clones" and name in fed:
            yield path, f"{name!r} follows a store of a Zeek, so that no messages feed it"
        names.add(known)
        served.add(name)


def _failure(path: str, check: Callable[[str], object], text: str) -> Iterator[tuple[str, str]]:
    try:
        check(text)
    except (UsageError, InvalidTopicError) as error:
        yield path, str(error)
